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
mod claim_rights;
mod claims;
mod closures;
mod cluster_names;
mod condition;
mod contents;
mod credentials;
mod former;
mod gateway;
mod gateway_rooms;
mod grants;
mod held;
mod held_list;
mod held_names;
mod holder_map;
mod holders;
mod host;
mod host_index;
mod https_names;
mod idle_ports;
mod input;
mod listener;
mod name;
mod name_budget;
mod orphans;
mod past;
mod policy;
mod redirect_budget;
mod redirects;
mod refusals;
mod route;
mod route_parents;
mod served;
mod shared_room;
mod status;
mod succession;
mod upstream;
mod verdict;
mod withheld_budget;

pub use closures::{ClosedRoutes, RouteClosure, RouteClosures};
pub use condition::{ConditionVerdict, Note, NoteKind, unread_content};
pub use contents::{ContentKind, ContentName, ReferredContents};
pub use former::{FormerCertificates, ListenerName};
pub use holders::{FormerHolders, lists_are_newest};
pub use host::HostPattern;
pub use input::{GatewayObjects, Inventory, UnseenKinds, UpstreamObject, UpstreamState, Usability};
pub use listener::{ServedClientCa, listener_secrets};
pub use name::{ObjectName, RouteKind};
pub use orphans::{has_own_conditions, without_own_conditions};
pub use policy::{
    AncestorVerdict, AttachedPolicies, ClosedDoors, Door, DoorPolicies, DoorTargets, FormerPolicy, ListedDoors,
    PolicyAncestors, PolicyMemo, PolicyObject, PolicyTargets, PolicyVerdict, UnfitPolicy, UpstreamPolicies,
    WaitingClusters, affected, attach_policies, behind_doors, overriding_policy, policy_ancestors,
    upstream_behind_doors,
};
pub use portcullis_gateway_api::ValidationMode;
pub use redirects::RedirectTable;
pub use route::{ServedBackend, WeightedBackend};
pub use route_parents::{RouteParents, route_parents};
pub use served::{BoundRoute, HostTable, ListenerRole, ServedGateway, ServedListener};
pub use shared_room::{SharedRoom, sort_by_places};
pub use status::{ObjectGenerations, conditions};
pub use upstream::{UpstreamVerdict, upstreams_within_bounds};
pub use verdict::{ClassVerdict, GatewayVerdict, ListenerVerdict, ParentVerdict, RouteVerdict};

use std::collections::BTreeSet;
use std::sync::Arc;

use portcullis_gateway_api::{GATEWAY_API_GROUP, ObjectMeta};

use claim_rights::ClaimRights;
use claims::HostClaims;
use cluster_names::ClusterNames;
use credentials::CredentialGrants;
use gateway::JudgedGateway;
use grants::{Grants, Referrer};
use host_index::HostIndex;
use idle_ports::KeptNames;
use past::PastHolders;
use redirect_budget::PlainHttp;
use route::JudgedRoute;
use served::Settled;
use upstream::JudgedUpstreams;

/// The controller, as a `GatewayClass` names it.
pub const CONTROLLER_NAME: &str = "portcullis.dev/gateway-controller";

/// The outcome of all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// Classes of this controller, by name.
    pub classes: Vec<ClassVerdict>,
    /// Gateways of these classes, and [`GatewayObjects::orphans`], by name.
    pub gateways: Vec<GatewayVerdict>,
    /// Gateways of other controllers' classes.
    pub foreign: BTreeSet<ObjectName>,
    /// All routes, in order of creation. One without parents is not of this controller.
    pub routes: Vec<RouteVerdict>,
    /// All `KubernetesUpstreams`, by name.
    pub upstreams: Vec<UpstreamVerdict>,
    /// The accepted Gateways, by name.
    pub served: Vec<Arc<ServedGateway>>,
    /// The routes that hold host names, for [`Inventory::former_holders`] of the next judgement.
    pub holders: Arc<FormerHolders>,
    /// `UpstreamClusters` to which TLSRoutes may lead, those of [`Inventory::judging_clusters`] among them.
    pub passed_clusters: BTreeSet<String>,
    /// `UpstreamClusters` to which HTTPRoutes may lead, those of [`Inventory::passing_clusters`] among them; and
    /// `KubernetesUpstreams` by their [`portcullis_api::upstream_key`].
    pub requested_clusters: BTreeSet<String>,
}

/// The Secrets and `ConfigMaps` that the judgement needs, by the objects and the former certificates alone. The [`Inventory`] has their
/// contents.
pub fn referred_contents(objects: &GatewayObjects, former: &FormerCertificates) -> ReferredContents {
    gateway::referred_contents(objects, &grants_of(objects), former)
}

/// Judges objects. Within a kind their names are unique, as in a Kubernetes API.
pub fn attach(objects: &GatewayObjects, inventory: &Inventory) -> Attached {
    let grants = grants_of(objects);
    let classes = gateway::judge_classes(objects, inventory);
    let gateways = gateway::judge_gateways(objects, &classes, &grants, inventory);
    let upstreams = JudgedUpstreams::of(objects, inventory);
    let mut routes = route::judge_routes(objects, &grants, inventory, &upstreams);
    let clusters = ClusterNames::of(inventory, host_patterns(&gateways, &routes));
    let past = PastHolders::of(inventory);
    let attachments = budget::attach_within_bounds(&mut routes, &gateways, (past, inventory));
    for ((index, gateway), excess) in withheld_budget::refused(&attachments, &routes, &clusters, &gateways) {
        if let Some(route) = routes.get_mut(index) {
            route.refuse_at(gateway, excess);
        }
    }
    let settled: Vec<_> =
        attachments.iter().filter_map(|one| Some((one.route, one.gateway, one.listeners.as_ref().ok()?))).collect();
    let rights = ClaimRights { routes: &routes, gateways: &gateways, clusters: &clusters, past };
    let claims = HostClaims::settle(&settled, rights);
    let credentials = CredentialGrants { grants: &grants, inventory };
    let kept = KeptNames::of(objects, &rights);
    let plain = PlainHttp::of(&gateways, (&claims, &kept), &routes);
    let verdicts = verdict::route_verdicts(&routes, &gateways, &attachments, (&claims, &plain), credentials);
    let gateway_verdicts = gateways.iter().enumerate();
    let settled = Settled {
        gateways: &gateways,
        routes: &routes,
        claims: &claims,
        clusters: &clusters,
        plain: &plain,
        credentials,
    };
    let served = settled.served();
    Attached {
        requested_clusters: routes.iter().flat_map(|route| &route.requested_clusters).cloned().collect(),
        passed_clusters: routes.iter().flat_map(|route| &route.passed_clusters).cloned().collect(),
        classes: classes.iter().map(verdict::class_verdict).collect(),
        foreign: objects.of_other_controllers(),
        gateways: gateway_verdicts
            .map(|(index, one)| verdict::gateway_verdict(index, one, &verdicts.attached, &inventory.door_policies))
            .collect(),
        routes: verdicts.routes,
        upstreams: upstreams.verdicts(),
        served,
        holders: Arc::new(kept.added_to(claims.into_holders(&routes, &gateways))),
    }
}

/// All host names of listeners and routes.
fn host_patterns<'a>(
    gateways: &'a [JudgedGateway<'_>],
    routes: &'a [JudgedRoute<'_>],
) -> impl Iterator<Item = &'a HostPattern> {
    let listeners = gateways.iter().flat_map(|gateway| &gateway.listeners).map(|listener| &listener.host);
    listeners.chain(routes.iter().flat_map(|route| route.hosts.iter().flat_map(HostIndex::iter)))
}

/// The grants by which Gateways and routes may refer to objects of other namespaces.
fn grants_of(objects: &GatewayObjects) -> Grants<'_> {
    fn referrer<'a>(kind: &'static str, metadata: &'a ObjectMeta) -> Referrer<'a> {
        Referrer { group: GATEWAY_API_GROUP, kind, namespace: &metadata.namespace }
    }
    let gateways = objects.gateways.iter().map(|one| referrer("Gateway", &one.metadata));
    let http_routes = objects.http_routes.iter().map(|one| referrer(RouteKind::Http.as_str(), &one.metadata));
    let tls_routes = objects.tls_routes.iter().map(|one| referrer(RouteKind::Tls.as_str(), &one.metadata));
    Grants::of(&objects.grants, &gateways.chain(http_routes).chain(tls_routes).collect())
}
