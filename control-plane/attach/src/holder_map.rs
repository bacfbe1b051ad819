//! The holders of host names by their places, and the ways from a name to the routes that hold wildcards above it.

use std::collections::{BTreeMap, HashMap, btree_map};
use std::ops::Deref;

use crate::claim_rights::{Holder, Site};
use crate::host::HostPattern;
use crate::host_index::HostIndex;
use crate::route::Attachment;

/// Holders by host names at listeners.
pub(crate) struct HolderMap<'a> {
    by_site: BTreeMap<Site, Holder<'a>>,
    /// By the indices of Gateway and listener.
    wildcards: HashMap<(usize, usize), ClaimedWildcards<'a>>,
}

/// The wildcards that routes claim at a listener. The holder of one is known at its place: a name with many labels may have as many
/// wildcards above it.
struct ClaimedWildcards<'a> {
    index: HostIndex<&'a HostPattern>,
    /// The routes that hold them, by their places.
    routes: Vec<Option<usize>>,
}

impl<'a> HolderMap<'a> {
    /// One without holders, for what these attachments claim, each with the indices of its route and its Gateway.
    pub(crate) fn of(attachments: &[(usize, usize, &'a Attachment)]) -> Self {
        let mut claimed: HashMap<(usize, usize), Vec<&HostPattern>> = HashMap::new();
        for (_, gateway, attachment) in attachments {
            for (listener, hosts) in *attachment {
                for host in hosts.iter().filter(|host| matches!(host, HostPattern::Wildcard(_))) {
                    claimed.entry((*gateway, *listener)).or_default().push(host);
                }
            }
        }
        let wildcards = claimed.into_iter().map(|(at, hosts)| (at, ClaimedWildcards::of(hosts))).collect();
        Self { by_site: BTreeMap::new(), wildcards }
    }

    /// Gives a host name to a holder, and yields the one before.
    pub(crate) fn insert(&mut self, site: Site, holder: Holder<'a>) -> Option<Holder<'a>> {
        if let Some(wildcards) = self.wildcards.get_mut(&(site.0, site.1)) {
            wildcards.hold(&site.2, holder);
        }
        self.by_site.insert(site, holder)
    }

    /// The same of several.
    pub(crate) fn extend(&mut self, held: impl IntoIterator<Item = (Site, Holder<'a>)>) {
        for (site, holder) in held {
            self.insert(site, holder);
        }
    }

    /// The route that holds the narrowest wildcard above a host name.
    pub(crate) fn wider(&self, (gateway, listener, host): &Site) -> Option<usize> {
        let wildcards = self.wildcards.get(&(*gateway, *listener))?;
        wildcards.index.wider(host).find_map(|place| wildcards.routes.get(place).copied().flatten())
    }
}

impl<'a> ClaimedWildcards<'a> {
    fn of(hosts: Vec<&'a HostPattern>) -> Self {
        let index = HostIndex::of(hosts);
        Self { routes: vec![None; index.iter().count()], index }
    }

    fn hold(&mut self, host: &HostPattern, holder: Holder<'_>) {
        let route = match holder {
            Holder::Route(route) => Some(route),
            Holder::Wider(_) | Holder::Cluster(_) | Holder::Listener(_) => None,
        };
        let place = self.index.place(host).and_then(|place| self.routes.get_mut(place));
        if let Some(place) = place {
            *place = route;
        }
    }
}

impl<'a> Deref for HolderMap<'a> {
    type Target = BTreeMap<Site, Holder<'a>>;

    fn deref(&self) -> &Self::Target {
        &self.by_site
    }
}

impl<'a> IntoIterator for HolderMap<'a> {
    type Item = (Site, Holder<'a>);
    type IntoIter = btree_map::IntoIter<Site, Holder<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_site.into_iter()
    }
}
