//! Bounds of what routes hold: a listener's names are kept in memory, each port of a Service is watched and has a pool in Envoy, each
//! route for requests has chains there, and tenants write routes.
//!
//! A route is refused at the Gateway where it goes beyond a bound, also beyond one of several Gateways: the author of a Gateway adds
//! listeners, and must not close the route at others. Its parent references are charged in their order.

use std::collections::{BTreeSet, HashMap};

use crate::claims::ListenerHosts;
use crate::condition::Rejection;
use crate::gateway::JudgedGateway;
use crate::held_names::held_names;
use crate::input::Inventory;
use crate::name::RouteKind;
use crate::name_budget::{HeldNames, NameBudget};
use crate::past::PastHolders;
use crate::route::{JudgedRoute, ParentAttachment, ParentGateways, ServedBackend};

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

/// Attaches all routes, which are in the order of their creation, by their parent references in their order, and refuses routes beyond a
/// bound. Host names that routes hold are charged before all others: an old route takes no name from a young one by adding names until
/// there is no room.
pub(crate) fn attach_within_bounds<'a>(
    routes: &mut [JudgedRoute<'a>],
    gateways: &[JudgedGateway<'_>],
    (past, inventory): (PastHolders<'_>, &Inventory),
) -> Vec<ParentAttachment> {
    let hosts: Vec<ListenerHosts<'_, '_>> = gateways.iter().map(ListenerHosts::of).collect();
    let mut parents = ParentGateways::of(gateways, inventory);
    let (mut names, mut services, mut chains) =
        (NameBudget::default(), ServiceBudget::default(), ChainBudget::default());
    let mut held: Vec<HeldNames> = Vec::with_capacity(routes.len());
    for (index, route) in routes.iter().enumerate() {
        let namespace: &'a str = &route.metadata.namespace;
        let mut of_route = HeldNames::new();
        for (parent, gateway, listener, host) in held_names(route, &mut parents, &hosts, past) {
            if names.reserve((namespace, index, gateway)) {
                of_route.entry((parent, listener)).or_default().insert(host.clone());
            }
        }
        held.push(of_route);
    }
    let mut attachments = Vec::new();
    for (index, (route, held)) in routes.iter_mut().zip(held).enumerate() {
        let namespace: &'a str = &route.metadata.namespace;
        for (one, excess) in names.attach((index, &*route), &mut parents, &hosts, held) {
            if let Ok(listeners) = &one.listeners {
                let excess = excess.or_else(|| services.charge(namespace, one.gateway, route));
                let excess = excess.or_else(|| chains.charge(namespace, one.gateway, route, listeners.len()));
                if let Some(excess) = excess {
                    route.refuse_at(one.gateway, excess);
                }
            }
            attachments.push(one);
        }
    }
    attachments
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
