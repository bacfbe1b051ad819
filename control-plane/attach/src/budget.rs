//! Bounds of what routes hold: a listener's names are kept in memory, each port of a Service is watched and has a pool in Envoy, each
//! route for requests has chains there, and tenants write routes.
//!
//! A route is refused at the Gateway where it goes beyond a bound, also beyond one of several Gateways: the author of a Gateway adds
//! listeners, and must not close the route at others. Its parent references are charged in their order.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::claims::ListenerHosts;
use crate::condition::Rejection;
use crate::gateway::JudgedGateway;
use crate::host::HostPattern;
use crate::name::RouteKind;
use crate::past::{PastClaim, PastHolders};
use crate::route::{Attachment, JudgedRoute, ServedBackend};
use crate::verdict::ParentAttachment;

/// The most host names of one route, counted once at each listener to which a parent reference leads.
const MAX_OF_ROUTE: usize = 4_096;
/// The most of all routes of one namespace at one Gateway.
const MAX_AT_GATEWAY: usize = 16_384;
/// The most of all routes of one namespace: one of many Gateways must not leave the others without a place.
pub(crate) const MAX_OF_NAMESPACE: usize = 32_768;
/// The most of all routes.
pub(crate) const MAX_IN_ALL: usize = 262_144;

/// The most ports of Services to which the routes of one namespace lead at one Gateway.
const MAX_SERVICES_OF_NAMESPACE_AT_GATEWAY: usize = 128;
/// The most to which they lead at all Gateways.
const MAX_SERVICES_OF_NAMESPACE: usize = 256;
/// The most at one Gateway.
const MAX_SERVICES_AT_GATEWAY: usize = 1_024;
/// The most of all routes.
const MAX_SERVICES_IN_ALL: usize = 4_096;

/// The most chains of the routes for requests of one namespace at one Gateway: one for each route and listener. Each has a connection
/// manager of some KiB, and Envoy builds it.
const MAX_CHAINS_OF_NAMESPACE_AT_GATEWAY: usize = 256;
/// The most of one namespace.
const MAX_CHAINS_OF_NAMESPACE: usize = 512;
/// The most at one Gateway.
const MAX_CHAINS_AT_GATEWAY: usize = 1_024;
/// The most of all routes.
const MAX_CHAINS_IN_ALL: usize = 4_096;

/// Charges all attachments, which are in the order of the routes' creation, and refuses routes beyond a bound. Host names that routes
/// hold are charged before all others: an old route takes no name from a young one by adding names until there is no room.
pub(crate) fn charge<'a>(
    attachments: &mut [ParentAttachment],
    routes: &mut [JudgedRoute<'a>],
    gateways: &[JudgedGateway<'_>],
    past: PastHolders<'_>,
) {
    let (mut claims, mut services, mut chains) =
        (ClaimBudget::default(), ServiceBudget::default(), ChainBudget::default());
    let reserved = claims.reserve_held(attachments, routes, gateways, past);
    for (one, reserved) in attachments.iter_mut().zip(reserved) {
        let (Some(route), Ok(listeners)) = (routes.get_mut(one.route), &mut one.listeners) else { continue };
        let namespace: &'a str = &route.metadata.namespace;
        let excess = claims.charge((namespace, one.route, one.gateway), listeners, reserved);
        let excess = excess.or_else(|| services.charge(namespace, one.gateway, route));
        let excess = excess.or_else(|| chains.charge(namespace, one.gateway, route, listeners.len()));
        if let Some(excess) = excess {
            route.refuse_at(one.gateway, excess);
        }
    }
}

/// The charge of a host name of an attachment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameCharge {
    /// It is held, and was charged before all others.
    Held,
    /// It is not.
    New,
    /// It is at a listener beside a narrower one of the port, which has it: it gives the route nothing, and refuses it nothing.
    Copy,
}

/// A count of host names, its bound, and whose they are.
type NameBound<'c> = (&'c mut usize, usize, &'static str);

/// The rest of the bounds. Routes are charged in order of their creation, so that a younger one takes nothing from an older one.
#[derive(Default)]
struct ClaimBudget<'a> {
    of_routes: HashMap<usize, usize>,
    /// By Gateway and namespace.
    at_gateways: HashMap<(usize, &'a str), usize>,
    of_namespaces: HashMap<&'a str, usize>,
    in_all: usize,
}

impl<'a> ClaimBudget<'a> {
    /// Charges the host names that routes hold, of each attachment. A name is held once at a port, by the listener that has it: at
    /// the wider ones, which an author of a Gateway adds at will, it counts as new.
    fn reserve_held(
        &mut self,
        attachments: &[ParentAttachment],
        routes: &[JudgedRoute<'a>],
        gateways: &[JudgedGateway<'_>],
        past: PastHolders<'_>,
    ) -> Vec<Vec<NameCharge>> {
        let by_hosts: Vec<_> = gateways.iter().map(ListenerHosts::of).collect();
        let mut known: HashSet<(usize, usize, u16, &HostPattern)> = HashSet::new();
        let mut is_first = |one: &ParentAttachment, port: u16, host| known.insert((one.route, one.gateway, port, host));
        let mut all = Vec::with_capacity(attachments.len());
        for one in attachments {
            let mut charges = Vec::new();
            if let (Some(route), Some(hosts_of), Ok(attachment)) =
                (routes.get(one.route), by_hosts.get(one.gateway), &one.listeners)
            {
                let past = past.claims(route, hosts_of.gateway);
                for (listener, host) in each_name(attachment) {
                    if hosts_of.narrower(listener, host).is_some() {
                        charges.push(NameCharge::Copy);
                        continue;
                    }
                    let is_held = past.claim(listener, host) != PastClaim::New
                        && hosts_of.gateway.leading_port(listener).is_some_and(|port| is_first(one, port, host))
                        && self.reserve((&route.metadata.namespace, one.route, one.gateway));
                    charges.push(if is_held { NameCharge::Held } else { NameCharge::New });
                }
            }
            all.push(charges);
        }
        all
    }

    /// Charges a host name that is held, unless a bound is reached.
    fn reserve(&mut self, of: (&'a str, usize, usize)) -> bool {
        let bounds = self.bounds(of);
        let has_room = bounds.iter().all(|(used, most, _)| **used < *most);
        if has_room {
            bounds.into_iter().for_each(|(used, ..)| *used += 1);
        }
        has_room
    }

    /// Charges as many of so many host names as the bounds have room for. Returns these, and the first bound that has too little.
    fn take(&mut self, of: (&'a str, usize, usize), wanted: usize) -> (usize, Option<(usize, &'static str)>) {
        let (mut room, mut exceeded) = (wanted, None);
        let bounds = self.bounds(of);
        for (used, most, whose) in &bounds {
            let rest = most.saturating_sub(**used);
            if room > rest {
                room = rest;
                exceeded.get_or_insert((*most, *whose));
            }
        }
        bounds.into_iter().for_each(|(used, ..)| *used += room);
        (room, exceeded)
    }

    /// Those that hold for the names of a namespace's route at a Gateway.
    fn bounds(&mut self, (namespace, route, gateway): (&'a str, usize, usize)) -> [NameBound<'_>; 4] {
        let at_gateway = self.at_gateways.entry((gateway, namespace)).or_default();
        [
            (self.of_routes.entry(route).or_default(), MAX_OF_ROUTE, "one route"),
            (at_gateway, MAX_AT_GATEWAY, "the routes of one namespace at one Gateway"),
            (self.of_namespaces.entry(namespace).or_default(), MAX_OF_NAMESPACE, "the routes of one namespace"),
            (&mut self.in_all, MAX_IN_ALL, "all routes"),
        ]
    }

    /// Charges the host names of one parent reference that were not charged as held, and cuts off those beyond a bound. The others
    /// stay the route's although it is refused at this Gateway then: an edit that adds too many must not hand its clients over.
    fn charge(
        &mut self,
        of: (&'a str, usize, usize),
        attachment: &mut Attachment,
        charges: Vec<NameCharge>,
    ) -> Option<Rejection> {
        let mut exceeded = None;
        let mut charges = charges.into_iter();
        for (_, hosts) in attachment.iter_mut() {
            let of_listener: Vec<NameCharge> = charges.by_ref().take(hosts.len()).collect();
            let number = |kind| of_listener.iter().filter(|charge| **charge == kind).count();
            let (new, beyond) = self.take(of, number(NameCharge::New));
            exceeded = exceeded.or(beyond);
            let (copies, _) = self.take(of, number(NameCharge::Copy));
            if new.saturating_add(copies).saturating_add(number(NameCharge::Held)) < hosts.len() {
                keep(hosts, &of_listener, (new, copies));
            }
        }
        attachment.retain(|(_, hosts)| !hosts.is_empty());
        exceeded.map(|(most, of)| {
            let message =
                format!("spec.hostnames: more than {most} host names, each counted at each listener, of {of}");
            Rejection::new("TooManyHostnames", message)
        })
    }
}

/// The host names of an attachment with the indices of their listeners.
fn each_name(attachment: &Attachment) -> impl Iterator<Item = (usize, &HostPattern)> {
    attachment.iter().flat_map(|(listener, hosts)| hosts.iter().map(move |host| (*listener, host)))
}

/// Leaves those that are held, and the first ones of the others.
fn keep(hosts: &mut Vec<HostPattern>, charges: &[NameCharge], (mut new, mut copies): (usize, usize)) {
    let mut charges = charges.iter();
    hosts.retain(|_| {
        let places = match charges.next() {
            Some(NameCharge::Held) => return true,
            Some(NameCharge::Copy) => &mut copies,
            Some(NameCharge::New) | None => &mut new,
        };
        let has_place = *places > 0;
        *places = places.saturating_sub(1);
        has_place
    });
}

/// The ports of Services to which routes lead, each counted once. Routes are charged in order of their creation. `UpstreamClusters`
/// are not counted: administrators make them, and permit routes to lead there.
#[derive(Default)]
struct ServiceBudget<'a> {
    /// By Gateway and the routes' namespace.
    of_namespaces_at_gateways: HashMap<(usize, &'a str), BTreeSet<ServedBackend>>,
    of_namespaces: HashMap<&'a str, BTreeSet<ServedBackend>>,
    at_gateways: HashMap<usize, BTreeSet<ServedBackend>>,
    in_all: BTreeSet<ServedBackend>,
}

impl<'a> ServiceBudget<'a> {
    /// Charges the Services of a route at a Gateway, or none of them: a route beyond a bound is refused there.
    fn charge(&mut self, namespace: &'a str, gateway: usize, route: &JudgedRoute<'_>) -> Option<Rejection> {
        // A refused route leads nowhere.
        if route.refusal_at(gateway).is_some() || route.kind != RouteKind::Tls {
            return None;
        }
        let backends = route.backends.iter().map(|one| &one.backend);
        let services: BTreeSet<&ServedBackend> =
            backends.filter(|backend| matches!(backend, ServedBackend::Service { .. })).collect();
        let bounds = [
            (
                self.of_namespaces_at_gateways.entry((gateway, namespace)).or_default(),
                MAX_SERVICES_OF_NAMESPACE_AT_GATEWAY,
                "the routes of one namespace at one Gateway",
            ),
            (
                self.of_namespaces.entry(namespace).or_default(),
                MAX_SERVICES_OF_NAMESPACE,
                "the routes of one namespace",
            ),
            (self.at_gateways.entry(gateway).or_default(), MAX_SERVICES_AT_GATEWAY, "all routes at one Gateway"),
            (&mut self.in_all, MAX_SERVICES_IN_ALL, "all routes"),
        ];
        for (known, most, of) in &bounds {
            let new = services.iter().filter(|service| !known.contains(**service)).count();
            if known.len().saturating_add(new) > *most {
                let message = format!("spec.rules: more than {most} ports of Services, each counted once, of {of}");
                return Some(Rejection::new("TooManyBackends", message));
            }
        }
        for (known, _, _) in bounds {
            known.extend(services.iter().map(|service| (*service).clone()));
        }
        None
    }
}

/// The chains of routes for requests. Routes are charged in order of their creation.
#[derive(Default)]
struct ChainBudget<'a> {
    /// By Gateway and the routes' namespace.
    of_namespaces_at_gateways: HashMap<(usize, &'a str), usize>,
    of_namespaces: HashMap<&'a str, usize>,
    at_gateways: HashMap<usize, usize>,
    in_all: usize,
}

impl<'a> ChainBudget<'a> {
    /// Charges a route at one of its parent references with a number of listeners, or not at all: a route beyond a bound is refused
    /// at this Gateway.
    fn charge(
        &mut self,
        namespace: &'a str,
        gateway: usize,
        route: &JudgedRoute<'_>,
        listeners: usize,
    ) -> Option<Rejection> {
        if route.refusal_at(gateway).is_some() || route.kind != RouteKind::Http {
            return None;
        }
        let bounds = [
            (
                self.of_namespaces_at_gateways.entry((gateway, namespace)).or_default(),
                MAX_CHAINS_OF_NAMESPACE_AT_GATEWAY,
                "the routes of one namespace at one Gateway",
            ),
            (self.of_namespaces.entry(namespace).or_default(), MAX_CHAINS_OF_NAMESPACE, "the routes of one namespace"),
            (self.at_gateways.entry(gateway).or_default(), MAX_CHAINS_AT_GATEWAY, "all routes at one Gateway"),
            (&mut self.in_all, MAX_CHAINS_IN_ALL, "all routes"),
        ];
        for (used, most, of) in &bounds {
            if used.saturating_add(listeners) > *most {
                let message =
                    format!("spec.parentRefs: more than {most} HTTPRoutes, each counted at each listener, of {of}");
                return Some(Rejection::new("TooManyRoutes", message));
            }
        }
        for (used, _, _) in bounds {
            *used += listeners;
        }
        None
    }
}
