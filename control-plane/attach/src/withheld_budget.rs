//! Bounds of the names that `UpstreamClusters` own below wildcards of routes: each listener with such a wildcard has all of them in
//! Envoy, there may be tens of thousands, and tenants write wildcards. Namespaces share what there is, so that the age of a route is no
//! right to the room of others: authors of Gateways multiply what old routes take.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster_names::ClusterNames;
use crate::condition::Rejection;
use crate::gateway::JudgedGateway;
use crate::gateway_rooms::{RoomBounds, RouteAtGateway, WantedRoom};
use crate::host::HostPattern;
use crate::listener::ListenerProtocol;
use crate::route::{Attachment, JudgedRoute, ParentAttachment};

/// The most names, each counted as often as Envoy has it.
const BOUNDS: RoomBounds =
    RoomBounds { of_namespace_at_gateway: 131_072, of_namespace: 262_144, at_gateway: 524_288, in_all: 1_048_576 };

/// Routes for whose wildcards there is no room at a Gateway, and why: they keep their host names there, and count at their other
/// Gateways. A wildcard above no name of a cluster takes nothing.
pub(crate) fn refused(
    attachments: &[ParentAttachment],
    routes: &[JudgedRoute<'_>],
    clusters: &ClusterNames<'_>,
    gateways: &[JudgedGateway<'_>],
) -> Vec<(RouteAtGateway, Rejection)> {
    let refused = BOUNDS.refused(wanted_names(attachments, routes, &NameCounts::new(clusters, gateways)));
    let at_one = |at| (at, excess(&BOUNDS.words_at_gateway()));
    let of_all = |at| (at, excess(&BOUNDS.words_in_all()));
    refused.at_gateways.into_iter().map(at_one).chain(refused.in_all.into_iter().map(of_all)).collect()
}

/// The names of each route at each of its Gateways, in the order of the routes' creation, which is that of their indices.
fn wanted_names<'a>(
    attachments: &[ParentAttachment],
    routes: &'a [JudgedRoute<'_>],
    counts: &NameCounts<'_>,
) -> Vec<WantedRoom<'a>> {
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
    wanted.map(|(at, (namespace, size))| WantedRoom { at, namespace, size }).collect()
}

fn excess(bounds: &str) -> Rejection {
    let message = format!(
        "spec.hostnames: host names of UpstreamClusters below the wildcards, each counted at each listener and address, are more than \
         {bounds}, and this namespace has more than its share"
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
        Self { clusters, gateways, plain_ports: gateways.iter().map(plain_ports).collect() }
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

/// The number of a Gateway's ports for plain HTTP.
pub(crate) fn plain_ports(gateway: &JudgedGateway<'_>) -> usize {
    let listeners = gateway.listeners.iter().filter(|one| one.is_plain());
    listeners.map(|one| one.spec.port).collect::<BTreeSet<u16>>().len()
}
