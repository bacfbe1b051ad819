//! Which route gets which host name of a listener.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::claim_rights::{ClaimRights, Holder, Site};
use crate::gateway::JudgedGateway;
use crate::holder_map::HolderMap;
use crate::holders::{FormerHolders, NamesByPort};
use crate::host::HostPattern;
use crate::host_index::HostIndex;
use crate::listener::JudgedListener;
use crate::past::PastClaim;
use crate::route::{Attachment, JudgedRoute};
use crate::succession::{ClaimTurn, NewClaim, in_turn};

/// The holders of all host names that routes claim.
pub(crate) struct HostClaims<'a> {
    pub(crate) holders: HolderMap<'a>,
    /// Those of routes that would have them by their age, if others had not had them before.
    held_before: BTreeSet<Site>,
}

impl<'a> HostClaims<'a> {
    /// Settles all claims. `attachments` are of routes by their indices and in their order, each with the index of its Gateway.
    ///
    /// 1. A host name that a narrower listener of the same port has is that listener's.
    /// 2. A host name that an `UpstreamCluster` owns is that cluster's; a route has it only if it leads to this cluster alone.
    /// 3. A route that had the name in the settlement before has it, as long as it claims it: an edit of an older route, which
    ///    adds the name or a wildcard above it, must not take its clients over.
    /// 4. Of several others those of the namespace of the route that had it, by itself or by a wildcard, go first, so that a name moves
    ///    within a namespace, also below a later wildcard of another one; then the one that comes first has it, whether it is accepted
    ///    or not: a typing error in it must not hand its clients to another route.
    /// 5. A route with a wildcard has all names below it that were not taken, and shares them with routes of its own namespace only: a
    ///    narrower route of another one would take over its clients.
    pub(crate) fn settle(attachments: &[(usize, usize, &'a Attachment)], rights: ClaimRights<'a, '_>) -> Self {
        let listeners: Vec<_> = rights.gateways.iter().map(ListenerHosts::of).collect();
        let mut claims = Self { holders: HolderMap::of(attachments), held_before: BTreeSet::new() };
        let (mut former, mut new) = (Vec::new(), Vec::new());
        for (index, gateway, attachment) in attachments {
            let (Some(route), Some(listeners)) = (rights.routes.get(*index), listeners.get(*gateway)) else { continue };
            let past = rights.past.claims(route, listeners.gateway);
            for (listener, host) in
                attachment.iter().flat_map(|(listener, hosts)| hosts.iter().map(move |host| (*listener, host)))
            {
                // Names are owned, and nothing can own all of them.
                if *host == HostPattern::Any || listeners.gateway.leading_port(listener).is_none() {
                    continue;
                }
                let site = (*gateway, listener, host.clone());
                match (listeners.narrower(listener, host), past.claim(listener, host)) {
                    (Some(narrower), _) => drop(claims.holders.insert(site, Holder::Listener(narrower))),
                    (None, PastClaim::Listed) => claims.keep(*index, site, rights),
                    (None, PastClaim::Held) => former.push((*index, site)),
                    (None, PastClaim::New) => new.push((*index, site)),
                }
            }
        }
        former.into_iter().for_each(|(index, site)| claims.keep(index, site, rights));
        let contested: Vec<(usize, Site)> =
            in_turn(new, rights).into_iter().filter_map(|claim| claims.claim(claim, rights)).collect();
        claims.name_wildcards();
        let by_age = |(index, site): &(usize, Site)| claims.hold(*index, site, rights) == Holder::Route(*index);
        claims.held_before = contested.into_iter().filter(by_age).map(|(_, site)| site).collect();
        claims
    }

    /// Those of routes, for the next settlement.
    pub(crate) fn into_holders(self, routes: &[JudgedRoute<'_>], gateways: &[JudgedGateway<'_>]) -> FormerHolders {
        let mut by_route: BTreeMap<(usize, usize), NamesByPort> = BTreeMap::new();
        for ((gateway, listener, host), holder) in self.holders {
            let Holder::Route(route) = holder else { continue };
            let Some(port) = gateways.get(gateway).and_then(|gateway| gateway.leading_port(listener)) else { continue };
            by_route.entry((route, gateway)).or_default().entry(port).or_default().insert(host);
        }
        let mut holders = FormerHolders::default();
        for ((route, gateway), names) in by_route {
            if let (Some(route), Some(gateway)) = (routes.get(route), gateways.get(gateway)) {
                holders.add(route.kind, (&route.name, route.metadata.uid.as_deref()), &gateway.name, names);
            }
        }
        holders
    }

    /// Whether the route that holds a host name has it although one that claims it, too, is older.
    pub(crate) fn is_held_before(&self, site: &Site) -> bool {
        self.held_before.contains(site)
    }

    /// Gives a host name to the route that had it before, by itself or by a wildcard above it, or to one of its namespace.
    fn keep(&mut self, index: usize, site: Site, rights: ClaimRights<'a, '_>) {
        if !matches!(self.holders.get(&site), Some(Holder::Route(_))) {
            let of_cluster = Self::of_cluster(index, &site.2, rights);
            self.holders.insert(site, of_cluster.unwrap_or(Holder::Route(index)));
        }
    }

    /// Gives a host name that is free to a route, unless it is another one's. Yields the claim if a younger route has the name.
    fn claim(
        &mut self,
        NewClaim { turn, route, site }: NewClaim,
        rights: ClaimRights<'a, '_>,
    ) -> Option<(usize, Site)> {
        match self.holders.get(&site) {
            Some(Holder::Route(owner)) => (*owner > route).then_some((route, site)),
            _ if turn <= ClaimTurn::InheritedBelow => {
                self.keep(route, site, rights);
                None
            }
            _ => {
                let holder = self.hold(route, &site, rights);
                self.holders.insert(site, holder);
                None
            }
        }
    }

    /// The holder of a host name that a route claims and no other route holds.
    fn hold(&self, index: usize, site: &Site, rights: ClaimRights<'a, '_>) -> Holder<'a> {
        if let Some(holder) = Self::of_cluster(index, &site.2, rights) {
            return holder;
        }
        let namespace = |index: usize| rights.routes.get(index).map(|route| route.name.namespace.as_str());
        match self.wider_holder(site).filter(|owner| namespace(*owner) != namespace(index)) {
            Some(owner) => Holder::Wider(owner),
            None => Holder::Route(index),
        }
    }

    /// The holder of a host name that an `UpstreamCluster` owns and a route claims.
    fn of_cluster(index: usize, host: &HostPattern, rights: ClaimRights<'a, '_>) -> Option<Holder<'a>> {
        let owner = rights.clusters.owner(host)?;
        let leads_there = rights.routes.get(index).is_some_and(|route| route.means_only(owner));
        Some(if leads_there { Holder::Route(index) } else { Holder::Cluster(owner) })
    }

    /// The route with the narrowest wildcard above a host name: it has the clients.
    fn wider_holder(&self, site: &Site) -> Option<usize> {
        self.holders.wider(site)
    }

    /// Names the narrowest wildcards of all: of several routes of a namespace one may have claimed a narrower one later, and the next
    /// settlement finds it there from the beginning.
    fn name_wildcards(&mut self) {
        let below = self.holders.iter().filter(|(_, holder)| matches!(holder, Holder::Wider(_)));
        let narrowest: Vec<(Site, usize)> =
            below.filter_map(|(site, _)| Some((site.clone(), self.wider_holder(site)?))).collect();
        self.holders.extend(narrowest.into_iter().map(|(site, owner)| (site, Holder::Wider(owner))));
    }
}

/// The listeners of a Gateway by their host names.
pub(crate) struct ListenerHosts<'a, 'b> {
    pub(crate) gateway: &'a JudgedGateway<'b>,
    by_host: HashMap<(u16, &'a HostPattern), usize>,
    by_port: HashMap<u16, HostIndex<&'a HostPattern>>,
}

impl<'a, 'b> ListenerHosts<'a, 'b> {
    pub(crate) fn of(gateway: &'a JudgedGateway<'b>) -> Self {
        let mut by_host = HashMap::new();
        for (index, listener) in gateway.listeners.iter().enumerate().filter(|(_, one)| has_hosts(one)) {
            by_host.entry((listener.spec.port, &listener.host)).or_insert(index);
        }
        let mut by_port: HashMap<u16, Vec<&HostPattern>> = HashMap::new();
        by_host.keys().for_each(|(port, host)| by_port.entry(*port).or_default().push(*host));
        let by_port = by_port.into_iter().map(|(port, hosts)| (port, HostIndex::of(hosts))).collect();
        Self { gateway, by_host, by_port }
    }

    /// Another listener of the same port whose host names cover these and are fewer than the listener's own; the narrowest. One
    /// that is not accepted counts too: its names are not another listener's.
    pub(crate) fn narrower(&self, listener: usize, host: &HostPattern) -> Option<usize> {
        let own = self.gateway.listeners.get(listener)?;
        let narrowest = self.narrowest(own.spec.port, host).filter(|narrowest| **narrowest != own.host)?;
        self.by_host.get(&(own.spec.port, narrowest)).copied()
    }

    /// The host names of the listener of a port that has these, whether it is accepted or not.
    pub(crate) fn narrowest(&self, port: u16, host: &HostPattern) -> Option<&'a HostPattern> {
        self.by_port.get(&port)?.narrowest(host).copied()
    }

    /// The host names of the widest listeners of the same port that are narrower than a listener.
    pub(crate) fn below(&self, listener: &JudgedListener<'_>) -> impl Iterator<Item = &'a HostPattern> {
        let at_port = self.by_port.get(&listener.spec.port).into_iter();
        at_port.flat_map(move |hosts| hosts.directly_below(&listener.host)).copied()
    }
}

/// Whether a listener at the same port has some of another one's host names for itself.
pub(crate) fn is_narrower(other: &JudgedListener<'_>, own: &JudgedListener<'_>) -> bool {
    has_hosts(other) && other.spec.port == own.spec.port && other.host != own.host && own.host.covers(&other.host)
}

/// Whether a listener's protocol knows host names.
fn has_hosts(listener: &JudgedListener<'_>) -> bool {
    ["HTTP", "HTTPS", "TLS"].contains(&listener.spec.protocol.as_str())
}
