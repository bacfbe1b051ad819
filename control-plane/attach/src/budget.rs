//! Bounds of what routes hold: a listener's names are kept in memory, each port of a Service is watched and has a pool in Envoy, each
//! route for requests has chains there, and tenants write routes.

use std::collections::{BTreeSet, HashMap};

use crate::condition::Rejection;
use crate::name::RouteKind;
use crate::route::{Attachment, JudgedRoute, ServedBackend};

/// The most host names of one route, counted once at each listener to which a parent reference leads.
const MAX_OF_ROUTE: usize = 4_096;
/// The most of all routes of one namespace at one Gateway.
const MAX_AT_GATEWAY: usize = 16_384;
/// The most of all routes of one namespace: one of many Gateways must not leave the others without a place.
const MAX_OF_NAMESPACE: usize = 32_768;
/// The most of all routes.
const MAX_IN_ALL: usize = 262_144;

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

/// The rest of the bounds. Routes are charged in order of their creation, so that a younger one takes nothing from an older one.
#[derive(Default)]
pub(crate) struct ClaimBudget<'a> {
    /// By Gateway and namespace.
    at_gateways: HashMap<(usize, &'a str), usize>,
    of_namespaces: HashMap<&'a str, usize>,
    in_all: usize,
}

impl<'a> ClaimBudget<'a> {
    /// Charges the host names of one parent reference, and cuts off those beyond a bound. The others stay the route's although it
    /// is refused then: an edit that adds too many must not hand its clients over. `of_route` are the names of its references
    /// before.
    pub(crate) fn charge(
        &mut self,
        namespace: &'a str,
        gateway: usize,
        of_route: &mut usize,
        attachment: &mut Attachment,
    ) -> Option<Rejection> {
        let at_gateway = self.at_gateways.entry((gateway, namespace)).or_default();
        let of_namespace = self.of_namespaces.entry(namespace).or_default();
        let mut exceeded = None;
        for (_, hosts) in attachment.iter_mut() {
            let bounds = [
                (*of_route, MAX_OF_ROUTE, "one route"),
                (*at_gateway, MAX_AT_GATEWAY, "the routes of one namespace at one Gateway"),
                (*of_namespace, MAX_OF_NAMESPACE, "the routes of one namespace"),
                (self.in_all, MAX_IN_ALL, "all routes"),
            ];
            for (used, most, of) in bounds {
                if hosts.len() > most.saturating_sub(used) {
                    hosts.truncate(most.saturating_sub(used));
                    exceeded.get_or_insert((most, of));
                }
            }
            *of_route += hosts.len();
            *at_gateway += hosts.len();
            *of_namespace += hosts.len();
            self.in_all += hosts.len();
        }
        attachment.retain(|(_, hosts)| !hosts.is_empty());
        exceeded.map(|(most, of)| {
            let message =
                format!("spec.hostnames: more than {most} host names, each counted at each listener, of {of}");
            Rejection::new("TooManyHostnames", message)
        })
    }
}

/// The ports of Services to which routes lead, each counted once. Routes are charged in order of their creation. `UpstreamClusters`
/// are not counted: administrators make them, and permit routes to lead there.
#[derive(Default)]
pub(crate) struct ServiceBudget<'a> {
    /// By Gateway and the routes' namespace.
    of_namespaces_at_gateways: HashMap<(usize, &'a str), BTreeSet<ServedBackend>>,
    of_namespaces: HashMap<&'a str, BTreeSet<ServedBackend>>,
    at_gateways: HashMap<usize, BTreeSet<ServedBackend>>,
    in_all: BTreeSet<ServedBackend>,
}

impl<'a> ServiceBudget<'a> {
    /// Charges the Services of a route at a Gateway, or none of them: a route beyond a bound is refused.
    pub(crate) fn charge(&mut self, namespace: &'a str, gateway: usize, route: &JudgedRoute<'_>) -> Option<Rejection> {
        // A refused route leads nowhere.
        if route.refusal.is_some() || route.kind != RouteKind::Tls {
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
pub(crate) struct ChainBudget<'a> {
    /// By Gateway and the routes' namespace.
    of_namespaces_at_gateways: HashMap<(usize, &'a str), usize>,
    of_namespaces: HashMap<&'a str, usize>,
    at_gateways: HashMap<usize, usize>,
    in_all: usize,
}

impl<'a> ChainBudget<'a> {
    /// Charges a route at one of its parent references with a number of listeners, or not at all: a route beyond a bound is refused.
    pub(crate) fn charge(
        &mut self,
        namespace: &'a str,
        gateway: usize,
        route: &JudgedRoute<'_>,
        listeners: usize,
    ) -> Option<Rejection> {
        if route.refusal.is_some() || route.kind != RouteKind::Http {
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
