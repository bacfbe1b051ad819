//! Which route gets which host name of a listener.

use std::collections::{BTreeMap, HashMap};

use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::input::Inventory;
use crate::listener::{JudgedListener, ListenerProtocol};
use crate::route::{Attachment, JudgedRoute};

/// A host name at a listener: the indices of Gateway and listener, and the name.
pub(crate) type Site = (usize, usize, HostPattern);

/// The holder of a host name at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder<'a> {
    /// A route, by its index.
    Route(usize),
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
}

impl<'a> ClusterNames<'a> {
    pub(crate) fn of(inventory: &'a Inventory) -> Self {
        let names =
            inventory.clusters.iter().flat_map(|(cluster, names)| names.iter().map(move |name| (name, cluster)));
        let mut by_name: HashMap<&str, &str> = HashMap::new();
        for (name, cluster) in names {
            by_name.entry(name).or_insert(cluster);
        }
        Self { by_name }
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
    pub(crate) fn hosts(&self) -> impl Iterator<Item = HostPattern> {
        self.by_name.keys().filter_map(|name| HostPattern::parse(name))
    }
}

impl<'a> HostClaims<'a> {
    /// Settles all claims. `attachments` are of routes by their indices and in their order, each with the index of its Gateway.
    ///
    /// 1. A host name that a narrower listener of the same port has is that listener's.
    /// 2. A host name that an `UpstreamCluster` owns is that cluster's; a route has it only if it leads to this cluster alone.
    /// 3. Of several routes the one that comes first has it, whether it is accepted or not: a typing error in it must not hand
    ///    its clients to another route.
    pub(crate) fn settle(
        attachments: &[(usize, usize, &Attachment)],
        routes: &[JudgedRoute<'_>],
        gateways: &'a [JudgedGateway<'_>],
        clusters: &ClusterNames<'a>,
    ) -> Self {
        let mut holders: BTreeMap<Site, Holder<'a>> = BTreeMap::new();
        for (route, gateway, attachment) in attachments {
            let Some(listeners) = gateways.get(*gateway).map(|gateway| &gateway.listeners) else { continue };
            for (listener, host) in
                attachment.iter().flat_map(|(index, hosts)| hosts.iter().map(move |host| (*index, host)))
            {
                let site = (*gateway, listener, host.clone());
                let holder = || hold(*route, listener, host, routes, listeners, clusters);
                let is_free = holders.get(&site).is_none_or(|holder| matches!(holder, Holder::Cluster(_)));
                if is_free && leads_on(listeners.get(listener)) {
                    holders.insert(site, holder());
                }
            }
        }
        Self { holders }
    }
}

/// The holder of a host name for which a route comes first.
fn hold<'a>(
    route: usize,
    listener: usize,
    host: &HostPattern,
    routes: &[JudgedRoute<'_>],
    listeners: &'a [JudgedListener<'_>],
    clusters: &ClusterNames<'a>,
) -> Holder<'a> {
    if let Some(narrower) = narrower(listener, host, listeners) {
        return Holder::Listener(&narrower.spec.name);
    }
    let only = routes.get(route).and_then(JudgedRoute::only_cluster);
    match clusters.owner(host) {
        Some(owner) if only != Some(owner) => Holder::Cluster(owner),
        _ => Holder::Route(route),
    }
}

/// Another listener of the same port whose host names cover these and are fewer than the listener's own. One that is not
/// accepted counts too: its names are not another listener's.
pub(crate) fn narrower<'a, 'b>(
    listener: usize,
    host: &HostPattern,
    listeners: &'a [JudgedListener<'b>],
) -> Option<&'a JudgedListener<'b>> {
    let own = listeners.get(listener)?;
    let is_narrower = |(index, other): &(usize, &JudgedListener<'_>)| {
        *index != listener
            && other.spec.port == own.spec.port
            && ["HTTP", "HTTPS", "TLS"].contains(&other.spec.protocol.as_str())
            && other.host != own.host
            && own.host.covers(&other.host)
            && other.host.covers(host)
    };
    listeners.iter().enumerate().find(is_narrower).map(|(_, other)| other)
}

/// Whether requests or connections of a listener lead anywhere.
fn leads_on(listener: Option<&JudgedListener<'_>>) -> bool {
    let protocol = listener.and_then(|listener| listener.protocol);
    protocol.is_some_and(|protocol| protocol != ListenerProtocol::Http)
}
