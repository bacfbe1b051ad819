//! Which route gets which host name of a listener.

use std::collections::{BTreeMap, HashMap};

use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::input::Inventory;
use crate::listener::JudgedListener;
use crate::route::{Attachment, JudgedRoute};

/// A host name at a listener: the indices of Gateway and listener, and the name.
pub(crate) type Site = (usize, usize, HostPattern);

/// The holder of a host name at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder<'a> {
    /// A route, by its index.
    Route(usize),
    /// A route of another namespace than that of the claim, by its index: a wildcard of it covers the name.
    Wider(usize),
    /// An `UpstreamCluster`.
    Cluster(&'a str),
    /// A listener of the same port with narrower host names.
    Listener(&'a str),
}

/// The holders of all host names that routes claim.
pub(crate) struct HostClaims<'a> {
    pub(crate) holders: BTreeMap<Site, Holder<'a>>,
}

/// Host names that `UpstreamClusters` own.
pub(crate) struct ClusterNames<'a> {
    by_name: HashMap<&'a str, &'a str>,
    hosts: Vec<HostPattern>,
}

impl<'a> ClusterNames<'a> {
    pub(crate) fn of(inventory: &'a Inventory) -> Self {
        let names =
            inventory.clusters.iter().flat_map(|(cluster, names)| names.iter().map(move |name| (name, cluster)));
        let mut by_name: HashMap<&str, &str> = HashMap::new();
        for (name, cluster) in names {
            by_name.entry(name).or_insert(cluster);
        }
        let hosts = by_name.keys().filter_map(|name| HostPattern::parse(name)).collect();
        Self { by_name, hosts }
    }

    /// The cluster that owns these host names, by itself or by a wildcard that covers them.
    pub(crate) fn owner(&self, host: &HostPattern) -> Option<&'a str> {
        if let Some(owner) = self.by_name.get(host.to_string().as_str()) {
            return Some(owner);
        }
        let (HostPattern::Exact(name) | HostPattern::Wildcard(name)) = host else { return None };
        let mut rest = name.as_str();
        while let Some((_, parent)) = rest.split_once('.') {
            if let Some(owner) = self.by_name.get(format!("*.{parent}").as_str()) {
                return Some(owner);
            }
            rest = parent;
        }
        None
    }

    /// All names that can be host names.
    pub(crate) fn hosts(&self) -> &[HostPattern] {
        &self.hosts
    }
}

impl<'a> HostClaims<'a> {
    /// Settles all claims. `attachments` are of routes by their indices and in their order, each with the index of its Gateway.
    ///
    /// 1. A host name that a narrower listener of the same port has is that listener's.
    /// 2. A host name that an `UpstreamCluster` owns is that cluster's; a route has it only if it leads to this cluster alone.
    /// 3. Of several routes the one that comes first has it, whether it is accepted or not: a typing error in it must not hand
    ///    its clients to another route.
    /// 4. A route that comes first with a wildcard has all names below it that were not taken, and shares them with routes of
    ///    its own namespace only: a narrower route of another one would take over its clients.
    pub(crate) fn settle(
        attachments: &[(usize, usize, &Attachment)],
        routes: &[JudgedRoute<'_>],
        gateways: &'a [JudgedGateway<'_>],
        clusters: &ClusterNames<'a>,
    ) -> Self {
        let listeners: Vec<_> = gateways.iter().map(ListenerHosts::of).collect();
        let mut claims = Self { holders: BTreeMap::new() };
        for (route, gateway, attachment) in attachments {
            let (Some(judged), Some(listeners)) = (routes.get(*route), listeners.get(*gateway)) else { continue };
            for (listener, host) in
                attachment.iter().flat_map(|(index, hosts)| hosts.iter().map(move |host| (*index, host)))
            {
                let site = (*gateway, listener, host.clone());
                let is_free = !matches!(claims.holders.get(&site), Some(Holder::Route(_) | Holder::Listener(_)));
                // Names are owned, and nothing can own all of them.
                if is_free && *host != HostPattern::Any && listeners.leads_on(listener) {
                    let holder = match listeners.narrower(listener, host) {
                        Some(narrower) => Holder::Listener(narrower),
                        None => claims.hold((*route, judged), &site, routes, clusters),
                    };
                    claims.holders.insert(site, holder);
                }
            }
        }
        claims
    }

    /// The holder of a host name for which a route comes first.
    fn hold(
        &self,
        (index, route): (usize, &JudgedRoute<'_>),
        site: &Site,
        routes: &[JudgedRoute<'_>],
        clusters: &ClusterNames<'a>,
    ) -> Holder<'a> {
        if let Some(owner) = clusters.owner(&site.2) {
            return if route.only_cluster() == Some(owner) { Holder::Route(index) } else { Holder::Cluster(owner) };
        }
        let held = |wider: HostPattern| match self.holders.get(&(site.0, site.1, wider)) {
            Some(Holder::Route(owner)) => Some(*owner),
            _ => None,
        };
        // The narrowest one: it has the clients until now.
        let owner = site.2.wider().find_map(held);
        let owner_route = owner.and_then(|owner| routes.get(owner));
        match owner.filter(|_| owner_route.is_some_and(|owner| owner.name.namespace != route.name.namespace)) {
            Some(owner) => Holder::Wider(owner),
            None => Holder::Route(index),
        }
    }
}

/// The listeners of a Gateway by their host names.
struct ListenerHosts<'a, 'b> {
    listeners: &'a [JudgedListener<'b>],
    by_host: HashMap<(u16, &'a HostPattern), &'a str>,
}

impl<'a, 'b> ListenerHosts<'a, 'b> {
    fn of(gateway: &'a JudgedGateway<'b>) -> Self {
        let mut by_host = HashMap::new();
        for listener in gateway.listeners.iter().filter(|one| has_hosts(one)) {
            by_host.entry((listener.spec.port, &listener.host)).or_insert(listener.spec.name.as_str());
        }
        Self { listeners: &gateway.listeners, by_host }
    }

    /// Another listener of the same port whose host names cover these and are fewer than the listener's own; the narrowest. One
    /// that is not accepted counts too: its names are not another listener's.
    fn narrower(&self, listener: usize, host: &HostPattern) -> Option<&'a str> {
        let own = self.listeners.get(listener)?;
        let chain = std::iter::once(host.clone()).chain(host.wider());
        let mut narrower = chain.take_while(|one| *one != own.host);
        narrower.find_map(|one| self.by_host.get(&(own.spec.port, &one)).copied())
    }

    /// Whether requests or connections of a listener lead anywhere.
    fn leads_on(&self, listener: usize) -> bool {
        self.listeners.get(listener).is_some_and(|listener| listener.protocol.is_some() && !listener.is_plain())
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
