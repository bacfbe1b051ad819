use std::borrow::Cow;
use std::collections::BTreeMap;

use portcullis_attach::{BoundRoute, ListenerRole, ObjectName, RouteKind, RouteVerdict, ServedBackend, ServedGateway};
use portcullis_translate::owner_at_gateways;

use super::super::gateway_views::{ProgrammedState, route_owner};

/// The routes of which all serving Envoys of a Gateway refuse a resource, with the words about it.
#[derive(Debug, Default)]
pub(super) struct RefusedRoutes<'a>(BTreeMap<(RouteKind, &'a ObjectName), BTreeMap<&'a ObjectName, String>>);

impl<'a> RefusedRoutes<'a> {
    /// Each Gateway is looked at once: its Envoys, which may be a tenant's, can refuse thousands of resources.
    pub(super) fn of(
        served: &BTreeMap<&'a ObjectName, &'a ServedGateway>,
        states: &BTreeMap<ObjectName, ProgrammedState>,
    ) -> Self {
        let mut refused = Self::default();
        for (gateway, served) in served {
            let Some(ProgrammedState::Programmed(parts)) = states.get(*gateway) else { continue };
            if parts.refused_owners.is_empty() {
                continue;
            }
            let tables = served.listeners.iter().filter_map(|listener| match &listener.role {
                ListenerRole::Terminate { routes, .. } | ListenerRole::Passthrough(routes) => Some(routes),
                ListenerRole::Redirect(_) => None,
            });
            for route in tables.flat_map(|table| table.routes.values()) {
                if let Some(refusal) = refusal(route, &parts.refused_owners) {
                    refused.0.entry((route.kind, &route.route)).or_default().insert(*gateway, refusal);
                }
            }
        }
        refused
    }

    /// The route with the words about it.
    pub(super) fn told<'r>(&self, route: Cow<'r, RouteVerdict>) -> Cow<'r, RouteVerdict> {
        match self.0.get(&(route.kind, &route.name)) {
            Some(at) => Cow::Owned(route.with_refusals(|gateway| at.get(gateway).cloned())),
            None => route,
        }
    }
}

/// The words about a cluster are for its own status.
fn refusal(route: &BoundRoute, owners: &BTreeMap<String, String>) -> Option<String> {
    if let Some(refusal) = owners.get(&route_owner((route.kind, &route.route))) {
        return Some(format!("its Envoys refuse the newest version: {refusal}"));
    }
    let mut clusters = route.backends.iter().filter_map(|one| match &one.backend {
        ServedBackend::Cluster(key) => Some(owner_at_gateways(key)),
        ServedBackend::Service { .. } => None,
    });
    let refused = clusters.find(|owner| owners.contains_key(owner))?;
    Some(format!("its Envoys refuse the newest version of {refused}"))
}
