//! Bounds of the host names in the tables of plain HTTP: each port for plain HTTP has all names of the Gateway's listeners for HTTPS, at
//! each of its addresses. Tenants write names, ports and addresses, and their namespaces share what there is.
//!
//! A route without room stays as it is at listeners for HTTPS, and its names answer 404 on plain HTTP.

use std::collections::{BTreeMap, BTreeSet};

use crate::claims::HostClaims;
use crate::gateway::JudgedGateway;
use crate::gateway_rooms::{RoomBounds, RouteAtGateway, WantedRoom, WithoutRoom};
use crate::host::HostPattern;
use crate::https_names::HttpsNames;
use crate::idle_ports::KeptNames;
use crate::route::JudgedRoute;
use crate::withheld_budget::plain_ports;

/// The most names, each counted as often as there are copies of it.
const BOUNDS: RoomBounds =
    RoomBounds { of_namespace_at_gateway: 65_536, of_namespace: 131_072, at_gateway: 262_144, in_all: 524_288 };

/// The host names to which plain HTTP may lead at each Gateway, and the room for them.
pub(crate) struct PlainHttp<'a> {
    /// By the index of the Gateway. One without plain HTTP has none.
    names: BTreeMap<usize, HttpsNames<'a>>,
    without_room: WithoutRoom,
}

impl<'a> PlainHttp<'a> {
    pub(crate) fn of(
        gateways: &[JudgedGateway<'_>],
        (claims, kept): (&'a HostClaims<'a>, &KeptNames<'a>),
        routes: &[JudgedRoute<'_>],
    ) -> Self {
        let mut names: BTreeMap<usize, HttpsNames<'_>> = BTreeMap::new();
        let mut wanted: BTreeMap<RouteAtGateway, usize> = BTreeMap::new();
        for (index, gateway) in gateways.iter().enumerate().filter(|(_, gateway)| gateway.is_accepted()) {
            let copies = copies(gateway);
            if copies == 0 {
                continue;
            }
            let of_gateway = HttpsNames::of((index, gateway), (claims, kept), routes);
            for name in of_gateway.iter() {
                // Without room for it a name still has to be kept from the wildcard above it. A route that passes TLS on has no redirect,
                // and needs no room.
                let own = name.to.map(|to| to.route);
                let above = of_gateway.above(name).and_then(|above| above.to).map(|to| to.route);
                for route in own.into_iter().chain(above.filter(|above| Some(*above) != own)) {
                    let size = wanted.entry((route, index)).or_default();
                    *size = size.saturating_add(copies);
                }
            }
            names.insert(index, of_gateway);
        }
        let namespace = |route: usize| Some(routes.get(route)?.name.namespace.as_str());
        let wanted = wanted.into_iter();
        let wanted = wanted.filter_map(|(at, size)| Some(WantedRoom { at, namespace: namespace(at.0)?, size }));
        let without_room = BOUNDS.refused(wanted.collect());
        Self { names, without_room }
    }

    /// The host names at a Gateway; `None` without plain HTTP.
    pub(crate) fn names(&self, gateway: usize) -> Option<&HttpsNames<'a>> {
        self.names.get(&gateway)
    }

    /// Whether there is room for the names of a route at a Gateway.
    pub(crate) fn has_room(&self, at: RouteAtGateway) -> bool {
        !(self.without_room.at_gateways.contains(&at) || self.without_room.in_all.contains(&at))
    }

    /// The reason for which plain HTTP answers 404 for host names that a route holds at a Gateway, beside the route itself, in words; `None`
    /// if there is none. `own` are these names.
    pub(crate) fn closed(&self, at: RouteAtGateway, own: &[&HostPattern]) -> Option<String> {
        let names = self.names.get(&at.1)?;
        if !self.has_room(at) {
            let is_at_gateway = self.without_room.at_gateways.contains(&at);
            let bounds = if is_at_gateway { BOUNDS.words_at_gateway() } else { BOUNDS.words_in_all() };
            return Some(format!(
                "plain HTTP answers 404 for its host names: those of redirects, each counted at each port and address, are more than \
                 {bounds}, and this namespace has more than its share"
            ));
        }
        let of_several = own.iter().filter(|host| names.get(host).is_some_and(|name| name.is_of_several));
        let of_several: BTreeSet<String> = of_several.map(ToString::to_string).collect();
        let list: Vec<&str> = of_several.iter().map(String::as_str).collect();
        let why = "routes of several namespaces have host names of these at different ports";
        (!list.is_empty()).then(|| format!("plain HTTP answers 404 for {}: {why}", list.join(", ")))
    }
}

/// How often there is a name to which plain HTTP leads: at each port in Envoy, for each address of the Gateway's own, and once here for
/// each host name of a listener for plain HTTP.
fn copies(gateway: &JudgedGateway<'_>) -> usize {
    let hosts: BTreeSet<&HostPattern> =
        gateway.listeners.iter().filter(|one| one.is_plain()).map(|one| &one.host).collect();
    plain_ports(gateway).saturating_mul(gateway.addresses.len().max(1)).max(hosts.len())
}
