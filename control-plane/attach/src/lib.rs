//! The attach step of the Gateway API: objects in, verdicts out.
//!
//! [`attach`] judges classes, Gateways and routes, and yields for each what its status says, and of all together what is served:
//! listeners with host names, and the routes at each of them. Whatever is not accepted is in no part of the latter, and each
//! server in it is permitted: of the route's own namespace, or by a `ReferenceGrant`. [`route_parents`] and [`conditions`] write
//! the verdicts into a status and leave other controllers' entries alone.
//!
//! [`attach_policies`] does the same for policies that are attached to other objects. Those of Gateways, listeners and routes are part of
//! what is served, by the [`Inventory`].
//!
//! No I/O, no clock, no randomness; the order of objects makes no difference.

#[cfg(test)]
mod tests;

mod budget;
mod claims;
mod closures;
mod condition;
mod contents;
mod credentials;
mod former;
mod gateway;
mod grants;
mod host;
mod input;
mod listener;
mod name;
mod policy;
mod route;
mod route_parents;
mod served;
mod status;
mod upstream;
mod verdict;

pub use closures::{RouteClosure, RouteClosures};
pub use condition::{ConditionVerdict, Note, NoteKind};
pub use contents::{ContentKind, ContentName, ReferredContents};
pub use former::{FormerCertificates, ListenerName};
pub use host::HostPattern;
pub use input::{GatewayObjects, Inventory, UnseenKinds, UpstreamObject, UpstreamState, Usability};
pub use listener::{ServedClientCa, listener_secrets};
pub use name::{ObjectName, RouteKind};
pub use policy::{
    AncestorVerdict, AttachedPolicies, ClosedDoors, Door, DoorPolicies, DoorTargets, FormerPolicy, ListedDoors,
    PolicyAncestors, PolicyMemo, PolicyObject, PolicyTargets, PolicyVerdict, UnfitPolicy, WaitingClusters, affected,
    attach_policies, behind_doors, policy_ancestors, upstream_behind_doors,
};
pub use portcullis_gateway_api::ValidationMode;
pub use route::{ServedBackend, WeightedBackend};
pub use route_parents::{RouteParents, route_parents};
pub use served::{BoundRoute, HostTable, ListenerRole, RedirectTable, ServedGateway, ServedListener};
pub use status::{ObjectGenerations, conditions};
pub use upstream::{UpstreamVerdict, upstreams_within_bounds};
pub use verdict::{ClassVerdict, GatewayVerdict, ListenerVerdict, ParentVerdict, RouteVerdict};

use std::collections::BTreeSet;

use budget::{ChainBudget, ClaimBudget, ServiceBudget};
use claims::{ClusterNames, HostClaims};
use credentials::CredentialGrants;
use grants::Grants;
use route::{GatewaysByName, attach_parent};
use served::Settled;
use upstream::JudgedUpstreams;
use verdict::ParentAttachment;

/// The controller, as a `GatewayClass` names it.
pub const CONTROLLER_NAME: &str = "portcullis.dev/gateway-controller";

/// The outcome of all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// Classes of this controller, by name.
    pub classes: Vec<ClassVerdict>,
    /// Gateways of these classes, by name.
    pub gateways: Vec<GatewayVerdict>,
    /// All routes, in order of creation. One without parents is not of this controller.
    pub routes: Vec<RouteVerdict>,
    /// All `KubernetesUpstreams`, by name.
    pub upstreams: Vec<UpstreamVerdict>,
    /// The accepted Gateways, by name.
    pub served: Vec<ServedGateway>,
    /// `UpstreamClusters` to which TLSRoutes may lead, those of [`Inventory::judging_clusters`] among them.
    pub passed_clusters: BTreeSet<String>,
    /// `UpstreamClusters` to which HTTPRoutes may lead, those of [`Inventory::passing_clusters`] among them; and
    /// `KubernetesUpstreams` by their [`portcullis_api::upstream_key`].
    pub requested_clusters: BTreeSet<String>,
}

/// The Secrets and `ConfigMaps` that the judgement needs, by the objects and the former certificates alone. The [`Inventory`] has their
/// contents.
pub fn referred_contents(objects: &GatewayObjects, former: &FormerCertificates) -> ReferredContents {
    gateway::referred_contents(objects, &Grants::of(&objects.grants), former)
}

/// Judges objects. Within a kind their names are unique, as in a Kubernetes API.
pub fn attach(objects: &GatewayObjects, inventory: &Inventory) -> Attached {
    let grants = Grants::of(&objects.grants);
    let classes = gateway::judge_classes(objects, inventory);
    let gateways = gateway::judge_gateways(objects, &classes, &grants, inventory);
    let upstreams = JudgedUpstreams::of(objects, inventory);
    let mut routes = route::judge_routes(objects, &grants, inventory, &upstreams);
    let by_name = GatewaysByName::of(&gateways);
    let mut attachments = Vec::new();
    let (mut budget, mut services) = (ClaimBudget::default(), ServiceBudget::default());
    let mut chains = ChainBudget::default();
    for (index, route) in routes.iter_mut().enumerate() {
        let mut charged = 0;
        for (at, parent) in route.parents.iter().enumerate() {
            let Some((gateway, mut listeners)) = attach_parent(route, parent, &by_name, inventory) else { continue };
            if let Ok(attachment) = &mut listeners {
                let namespace = route.metadata.namespace.as_str();
                let excess = budget.charge(namespace, gateway, &mut charged, attachment);
                let excess = excess.or_else(|| services.charge(namespace, gateway, route));
                let excess = excess.or_else(|| chains.charge(namespace, gateway, route, attachment.len()));
                route.refusal = route.refusal.take().or(excess);
            }
            attachments.push(ParentAttachment { route: index, parent: at, gateway, listeners });
        }
    }
    let clusters = ClusterNames::of(inventory);
    let settled: Vec<_> =
        attachments.iter().filter_map(|one| Some((one.route, one.gateway, one.listeners.as_ref().ok()?))).collect();
    let claims = HostClaims::settle(&settled, &routes, &gateways, &clusters);
    let credentials = CredentialGrants { grants: &grants, inventory };
    let verdicts = verdict::route_verdicts(&routes, &gateways, &attachments, &claims, credentials);
    let gateway_verdicts = gateways.iter().enumerate();
    Attached {
        requested_clusters: routes.iter().flat_map(|route| &route.requested_clusters).cloned().collect(),
        passed_clusters: routes.iter().flat_map(|route| &route.passed_clusters).cloned().collect(),
        classes: classes.iter().map(verdict::class_verdict).collect(),
        gateways: gateway_verdicts
            .map(|(index, one)| verdict::gateway_verdict(index, one, &verdicts.attached, &inventory.door_policies))
            .collect(),
        routes: verdicts.routes,
        upstreams: upstreams.verdicts(),
        served: Settled { gateways: &gateways, routes: &routes, claims: &claims, clusters: &clusters, credentials }
            .served(),
    }
}
