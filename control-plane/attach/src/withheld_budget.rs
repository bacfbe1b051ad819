//! Bounds of the names that `UpstreamClusters` own below wildcards of routes: each listener with such a wildcard has all of them in
//! Envoy, there may be tens of thousands, and tenants write wildcards. Namespaces share what there is, so that the age of a route is no
//! right to the room of others: authors of Gateways multiply what old routes take.

use std::collections::{BTreeMap, BTreeSet};

use crate::claims::ClusterNames;
use crate::condition::Rejection;
use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::listener::ListenerProtocol;
use crate::route::{Attachment, JudgedRoute};
use crate::shared_room::{SharedRoom, sort_by_places};
use crate::verdict::ParentAttachment;

/// The most of the routes of one namespace at one Gateway.
const MAX_OF_NAMESPACE_AT_GATEWAY: usize = 131_072;
/// The most of one namespace.
const MAX_OF_NAMESPACE: usize = 262_144;
/// The most at one Gateway.
const MAX_AT_GATEWAY: usize = 524_288;
/// The most of all routes.
const MAX_IN_ALL: usize = 1_048_576;

/// A route at a Gateway, by their indices.
type RouteAtGateway = (usize, usize);

/// The names below the wildcards of a route at a Gateway.
struct WantedNames<'a> {
    at: RouteAtGateway,
    namespace: &'a str,
    names: usize,
}

/// Routes for whose wildcards there is no room at a Gateway, and why: they keep their host names there, and count at their other
/// Gateways. A wildcard above no name of a cluster takes nothing.
///
/// In the room of all Gateways a route is refused at those for which there is none: it is there for what the author of a Gateway
/// multiplies.
pub(crate) fn refused(
    attachments: &[ParentAttachment],
    routes: &[JudgedRoute<'_>],
    clusters: &ClusterNames<'_>,
    gateways: &[JudgedGateway<'_>],
) -> Vec<(RouteAtGateway, Rejection)> {
    let mut wanted = wanted_names(attachments, routes, &NameCounts::new(clusters, gateways));
    let mut rooms: BTreeMap<usize, SharedRoom<'_, RouteAtGateway>> = BTreeMap::new();
    for one in &wanted {
        let room = || SharedRoom::new(MAX_AT_GATEWAY, MAX_OF_NAMESPACE_AT_GATEWAY);
        rooms.entry(one.at.1).or_insert_with(room).want(one.at, one.namespace, one.names);
    }
    let at_gateways: BTreeSet<RouteAtGateway> = rooms.into_values().flat_map(SharedRoom::refused).collect();
    wanted.retain(|one| !at_gateways.contains(&one.at));
    sort_by_places(&mut wanted, |one| (one.at.1, one.namespace, one.names));
    let mut in_all = SharedRoom::new(MAX_IN_ALL, MAX_OF_NAMESPACE);
    wanted.iter().for_each(|one| in_all.want(one.at, one.namespace, one.names));
    let at_one = |at| (at, excess((MAX_OF_NAMESPACE_AT_GATEWAY, MAX_AT_GATEWAY), " at one Gateway"));
    let of_all = |at| (at, excess((MAX_OF_NAMESPACE, MAX_IN_ALL), ""));
    at_gateways.into_iter().map(at_one).chain(in_all.refused().into_iter().map(of_all)).collect()
}

/// The names of each route at each of its Gateways, in the order of the routes' creation, which is that of their indices.
fn wanted_names<'a>(
    attachments: &[ParentAttachment],
    routes: &'a [JudgedRoute<'_>],
    counts: &NameCounts<'_>,
) -> Vec<WantedNames<'a>> {
    let mut all: BTreeMap<RouteAtGateway, (&str, usize)> = BTreeMap::new();
    for attached in attachments {
        let (Some(route), Ok(listeners)) = (routes.get(attached.route), &attached.listeners) else { continue };
        // A refused route has no name in Envoy.
        if route.refusal_at(attached.gateway).is_none() {
            let fresh = || (route.metadata.namespace.as_str(), 0);
            let (_, names) = all.entry((attached.route, attached.gateway)).or_insert_with(fresh);
            *names = names.saturating_add(counts.names(attached.gateway, listeners));
        }
    }
    let wanted = all.into_iter().filter(|(_, (_, names))| *names > 0);
    wanted.map(|(at, (namespace, names))| WantedNames { at, namespace, names }).collect()
}

fn excess((of_namespace, of_all): (usize, usize), place: &str) -> Rejection {
    let message = format!(
        "spec.hostnames: host names of UpstreamClusters below the wildcards, each counted at each listener and address, are more than \
         {of_namespace} of the routes of one namespace{place}, or {of_all} of all, and this namespace has more than its share"
    );
    Rejection::new("TooManyHostnames", message)
}

/// Numbers of names below wildcards.
struct NameCounts<'a> {
    clusters: &'a ClusterNames<'a>,
    gateways: &'a [JudgedGateway<'a>],
    /// The number of ports for plain HTTP of each Gateway.
    plain_ports: Vec<usize>,
}

impl<'a> NameCounts<'a> {
    fn new(clusters: &'a ClusterNames<'a>, gateways: &'a [JudgedGateway<'a>]) -> Self {
        let plain = |gateway: &JudgedGateway<'_>| {
            let listeners = gateway.listeners.iter().filter(|one| one.is_plain());
            listeners.map(|one| one.spec.port).collect::<BTreeSet<u16>>().len()
        };
        Self { clusters, gateways, plain_ports: gateways.iter().map(plain).collect() }
    }

    /// The names below the wildcards, as often as Envoy has them.
    fn names(&self, gateway: usize, attachment: &Attachment) -> usize {
        let below = |(listener, hosts): &(usize, Vec<HostPattern>)| {
            let owned = hosts.iter().filter_map(|host| self.clusters.below(host));
            let names = owned.fold(0_usize, |sum, owned| sum.saturating_add(owned.len()));
            names.saturating_mul(self.copies(gateway, *listener))
        };
        attachment.iter().map(below).fold(0, usize::saturating_add)
    }

    /// How often Envoy has a name that is withheld at a listener: at each address of the Gateway's own (those that the settings have for a
    /// Gateway without any are their author's to count), and again at each port for plain HTTP if it would be
    /// redirected to this listener.
    fn copies(&self, index: usize, listener: usize) -> usize {
        let Some(gateway) = self.gateways.get(index) else { return 0 };
        let plain_ports = self.plain_ports.get(index).copied().unwrap_or_default();
        let at_ports = match gateway.listeners.get(listener).and_then(|one| one.protocol) {
            Some(ListenerProtocol::Https) => plain_ports.saturating_add(1),
            Some(ListenerProtocol::Passthrough) => 1,
            // It has no route.
            Some(ListenerProtocol::Http) | None => 0,
        };
        at_ports.saturating_mul(gateway.addresses.len().max(1))
    }
}
