//! Plain HTTP at a Gateway: the ports for HTTPS to which its host names are redirected. No client is to keep a redirect, and some may: none
//! leads to where connections are closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster_names::{ClusterNames, OwnedHosts};
use crate::host::HostPattern;
use crate::https_names::{HeldAt, HttpsName, HttpsNames};

/// Ports for HTTPS by host names. The narrowest one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectTable {
    /// The ports.
    pub ports: BTreeMap<HostPattern, u16>,
    /// Host names of routes that are not accepted: a port of a wider one would lead to another owner.
    pub withheld: BTreeSet<HostPattern>,
    /// By wildcards: host names below them that `UpstreamClusters` own, and that are withheld unless they have a port. All listeners share
    /// them.
    pub owned: BTreeMap<HostPattern, Arc<BTreeSet<HostPattern>>>,
}

/// The host names of a Gateway's listeners for HTTPS.
pub(crate) struct HttpsHosts<'a> {
    clusters: &'a ClusterNames<'a>,
    /// The port of each, if requests for it are redirected.
    hosts: BTreeMap<HostPattern, Option<u16>>,
    /// Wildcards with the host names below them that `UpstreamClusters` own.
    owned: BTreeMap<HostPattern, OwnedHosts>,
}

/// Host names of a listener for plain HTTP with the narrowest ones that have them, and their port if requests for them are redirected.
type SharedWildcards = BTreeMap<HostPattern, (HostPattern, Option<u16>)>;

impl<'a> HttpsHosts<'a> {
    /// Those that routes hold. `has_room`: whether there is room for a route's, by its index; `is_answered`: whether requests for a name
    /// are answered where a route holds it.
    ///
    /// A name without room, or that several namespaces have, is not redirected. Of those without room, and of those that are passed on
    /// alone, only the ones below a wildcard that is redirected are listed, because they are not that wildcard's.
    pub(crate) fn of(
        names: &HttpsNames<'_>,
        clusters: &'a ClusterNames<'a>,
        has_room: impl Fn(usize) -> bool,
        is_answered: impl Fn(&HeldAt) -> bool,
    ) -> Self {
        let port = |name: &HttpsName<'_>| {
            let to = name.to.filter(|to| has_room(to.route) && !name.is_of_several && is_answered(to));
            to.map(|to| to.port)
        };
        let is_listed = |name: &&HttpsName<'_>| {
            name.to.is_some_and(|to| has_room(to.route)) || names.above(name).and_then(&port).is_some()
        };
        let hosts = names.iter().filter(is_listed).map(|name| (name.host.clone(), port(name))).collect();
        Self { clusters, hosts, owned: BTreeMap::new() }
    }

    /// Adds host names that are not served at a listener, as far as no route has them, and those that `UpstreamClusters` own.
    pub(crate) fn withhold<'b>(
        &mut self,
        withheld: impl Iterator<Item = &'b HostPattern>,
        owned: &BTreeMap<HostPattern, OwnedHosts>,
    ) {
        for host in withheld {
            self.hosts.entry(host.clone()).or_insert(None);
        }
        self.owned.extend(owned.iter().map(|(wildcard, owned)| (wildcard.clone(), Arc::clone(owned))));
    }

    /// The host names of a listener for plain HTTP. Several hosts may share the same ones with it, and the narrowest has them.
    pub(crate) fn redirects(&self, host: &HostPattern) -> RedirectTable {
        let mut shared = SharedWildcards::new();
        for (of, port) in &self.hosts {
            let Some(names) = of.intersection(host) else { continue };
            let known = shared.get(&names).map(|(known, _)| known);
            if known.is_none_or(|known| known.covers(of)) {
                shared.insert(names, (of.clone(), *port));
            }
        }
        let mut table = RedirectTable::default();
        for (wildcard, owned) in &self.owned {
            if host.covers(wildcard) {
                table.owned.insert(wildcard.clone(), Arc::clone(owned));
            } else if wildcard.covers(host) {
                let below = self.clusters.below(host).map(|owned| (host.clone(), Arc::clone(owned)));
                table.owned.extend(below);
                self.withhold_all(host, wildcard, &mut shared);
            }
        }
        for (names, (_, port)) in shared {
            match port {
                Some(port) => drop(table.ports.insert(names, port)),
                None => drop(table.withheld.insert(names)),
            }
        }
        table
    }

    /// Withholds all names of a listener that an `UpstreamCluster` owns below a wildcard, unless a route has some that are narrower, or
    /// the same.
    fn withhold_all(&self, host: &HostPattern, wildcard: &HostPattern, shared: &mut SharedWildcards) {
        let Some(owned) = self.clusters.narrowest(host, wildcard) else { return };
        let has_narrower = shared.get(host).is_some_and(|(known, _)| owned.covers(known));
        if !has_narrower {
            shared.insert(host.clone(), (owned, None));
        }
    }
}
