//! The views of Envoys that belong to a Gateway of the Gateway API: each has what is served of its Gateway, and nothing else.
//!
//! - [`claim`]: which Gateway an Envoy belongs to, by its bootstrap and its certificate.
//! - [`snapshots`]: what it is served; [`divided_gateways`]: by whose settings.
//! - [`requested_objects`]: the objects that they may report about.
//! - [`progress`]: what its Envoys make of that; [`envoys`]: what they made of it before.

mod claim;
mod cluster_route_namespaces;
mod divided_gateways;
mod ended_routes;
mod envoys;
mod progress;
mod requested_objects;
mod snapshots;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{KeyPair, PublicBytes};
use portcullis_attach::{ObjectName, RouteClosures, ServedGateway};
use portcullis_translate::{RefusedClusters, ResolvedUpstream, ServicePort};
use portcullis_xds::{Snapshot, View};
use tokio::sync::watch;

use super::cluster_progress::ClusterProgress;
use super::instance_views::{GatewayMember, is_lasting_view};

pub(crate) use claim::gateway_name;
pub(super) use claim::{ClaimGuard, GatewayClaims, claimed};
pub(super) use envoys::GatewayEnvoys;
pub(super) use progress::ProgrammedState;
use progress::programmed_states;
pub(super) use requested_objects::{RequestedObjects, group_of};
pub(super) use snapshots::GatewaySnapshots;

/// The verdicts of the attach step, as far as they decide about what is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GatewayDemand {
    /// The accepted Gateways.
    pub(super) served: Arc<Vec<Arc<ServedGateway>>>,
    /// `UpstreamClusters` to which a route may pass connections on, whether these can be or not.
    pub(super) passed_clusters: BTreeSet<String>,
    /// Those to which a route may send requests, whether it can or not, and `KubernetesUpstreams` by their keys.
    pub(super) requested_clusters: BTreeSet<String>,
    /// The `KubernetesUpstreams` among these, by their keys, as far as they have what they refer to.
    pub(super) upstreams: BTreeMap<String, Arc<ResolvedUpstream>>,
    /// The ports of Services to which routes lead, of those Services that are known.
    pub(super) services: BTreeMap<ServicePort, ServiceIdentity>,
    /// The certificates of listeners that end TLS, with their keys, by Secrets.
    pub(super) certificates: BTreeMap<ObjectName, Arc<KeyPair>>,
    /// The CAs for clients of these listeners, by `ConfigMaps`.
    pub(super) client_authorities: BTreeMap<ObjectName, Arc<PublicBytes>>,
    /// All Gateways of this controller, accepted or not, by which instances select; `None` without the Gateway API, where none is read.
    pub(super) gateways: Option<BTreeMap<ObjectName, GatewayMember>>,
}

/// A demand, and the number of the policies at doors with which its Gateways are. Other policies at doors of no Gateway make the same
/// demand.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberedDemand {
    /// The demand.
    pub(super) demand: Arc<GatewayDemand>,
    /// The number.
    pub(super) doors_number: u64,
}

impl GatewayDemand {
    /// The `UpstreamClusters` to which a route may lead.
    fn clusters(&self) -> impl Iterator<Item = &String> {
        self.passed_clusters.iter().chain(&self.requested_clusters)
    }

    /// The demand with the Gateways of the one before in the place of equal ones, so that comparing them costs nothing.
    fn after(mut self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        let known: BTreeMap<&ObjectName, &Arc<ServedGateway>> =
            before.served.iter().map(|one| (&one.gateway, one)).collect();
        let same = |one: &Arc<ServedGateway>| {
            let known = known.get(&one.gateway).copied().filter(|known| *known == one);
            Arc::clone(known.unwrap_or(one))
        };
        self.served = Arc::new(self.served.iter().map(same).collect());
        self
    }
}

/// A Service, as its EndpointSlices are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServiceIdentity {
    /// `metadata.uid`.
    pub(super) uid: String,
    /// The name of its port; empty of the only one.
    pub(super) port_name: String,
}

/// The outcome of a demand.
#[derive(Clone, Debug, Default)]
pub(super) struct GatewayOutcome {
    /// The Gateways that the snapshot has as they are here.
    pub(super) served: Arc<Vec<Arc<ServedGateway>>>,
    /// The snapshot with their views; none before the first.
    pub(super) snapshot: Option<Arc<Snapshot>>,
    /// The parts of it that are not served.
    pub(super) refusals: GatewayRefusals,
    /// Which versions of clusters the snapshot has.
    pub(super) progress: ClusterProgress,
}

/// The parts of a demand that are not served, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GatewayRefusals {
    /// `UpstreamClusters` to which routes may not lead, as far as one would.
    pub(super) clusters: Arc<RefusedClusters>,
    /// Accepted listeners whose connections are all closed.
    pub(super) listeners: Arc<ClosedListeners>,
    /// Accepted routes whose connections are closed at a listener.
    pub(super) routes: Arc<RouteClosures>,
}

/// Listeners of Gateways by their names, and a message.
pub(super) type ClosedListeners = BTreeMap<ObjectName, BTreeMap<String, &'static str>>;

/// The reconciler's end of the Gateway API.
pub(super) struct GatewayLink {
    /// The newest demand; none before the first verdicts. Without the Gateway API it is for no Gateway, from the start.
    pub(super) demand: watch::Receiver<Option<NumberedDemand>>,
    /// The Gateways that Envoys belong to.
    pub(super) claims: watch::Receiver<GatewayClaims>,
    /// The outcome.
    pub(super) outcome: watch::Sender<Arc<GatewayOutcome>>,
}

impl GatewayLink {
    /// That of a control plane without the Gateway API: the Envoys of all Gateways get a view without listeners.
    pub(super) fn without_gateways(claims: watch::Receiver<GatewayClaims>) -> Self {
        let (_, demand) = watch::channel(Some(NumberedDemand::default()));
        Self { demand, claims, outcome: watch::Sender::new(Arc::default()) }
    }

    /// Whether it is known that no Gateway is served.
    pub(super) fn serves_none(&self) -> bool {
        self.demand.borrow().as_ref().is_some_and(|newest| newest.demand.served.is_empty())
    }

    /// The newest demand, and the Gateways that Envoys belong to. Later ones are changes.
    pub(super) fn newest(&mut self) -> (Option<NumberedDemand>, BTreeSet<ObjectName>) {
        (self.demand.borrow_and_update().clone(), self.claims.borrow_and_update().gateways())
    }

    /// Waits for another demand, or another Gateway that an Envoy belongs to.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            Ok(()) = self.demand.changed() => {}
            Ok(()) = self.claims.changed() => {}
            // Both end with the program.
            else => std::future::pending().await,
        }
    }
}

/// A snapshot whose views of Gateways are empty.
pub(super) fn without_gateways(snapshot: &Snapshot) -> Snapshot {
    let views = snapshot.views().map(|(name, view)| {
        let is_gateway = gateway_of_view(name).is_some();
        (name.to_owned(), if is_gateway { Snapshot::default() } else { view.clone() })
    });
    snapshot.clone().with_views(views)
}

/// A hash of everything that is served: of the objects, of instances and of the Gateways. Views for builds of the filter are of the same objects
/// and come with the first Envoy that has such a build, which is no change of what is served.
pub(super) fn served_version(snapshot: &Snapshot) -> String {
    snapshot.version_with_views(|name| gateway_of_view(name).is_some() || is_lasting_view(name))
}

/// Envoy's view of a Gateway.
pub(super) fn gateway_view(gateway: &ObjectName) -> View {
    View(Some(format!("{VIEW}{gateway}")))
}

/// The beginning of these views' names.
const VIEW: &str = "gateway/";

/// The Gateway of a view, if it is one of a Gateway.
pub(super) fn gateway_of_view(name: &str) -> Option<ObjectName> {
    let (namespace, name) = name.strip_prefix(VIEW)?.split_once('/')?;
    Some(ObjectName::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use portcullis_api::Settings;
    use portcullis_xds::{NodeInfo, Resource};

    use super::super::discovery::DiscoveredDocuments;
    use super::super::instance_views::GatewayDivision;
    use super::*;

    #[tokio::test]
    async fn views_of_gateways_are_empty_without_the_gateway_api() {
        let claims = watch::Sender::new(GatewayClaims::default());
        let mut link = GatewayLink::without_gateways(claims.subscribe());
        assert!(link.serves_none());
        let _open = ClaimGuard::open(&claims, ObjectName::new("infra", "edge"), &NodeInfo::default());
        link.changed().await;
        let mut snapshots = GatewaySnapshots::default();
        let demand = link.demand.borrow().as_ref().map(|newest| Arc::clone(&newest.demand));
        snapshots.take(demand, link.claims.borrow().gateways());
        let (settings, now) = (Settings::default(), std::time::Instant::now());
        let views = snapshots.follow(
            (&settings, &GatewayDivision::default()),
            &BTreeMap::new(),
            &DiscoveredDocuments::default(),
            now,
        );
        let found: Vec<_> = views.iter().map(|(name, view)| (name.as_str(), view.resources().count())).collect();
        assert_eq!(found, [("gateway/infra/edge", 0)]);
    }

    #[test]
    fn version_of_what_is_served_is_of_objects_and_gateways() {
        let of = |bytes: Vec<u8>| Snapshot::new([("t".to_owned(), "n".to_owned(), Resource::new(bytes))]);
        let with = |views: &[(&str, u8)]| {
            let views = views.iter().map(|(name, byte)| ((*name).to_owned(), of(vec![*byte])));
            served_version(&of(vec![1]).with_views(views.collect::<Vec<_>>()))
        };
        assert_eq!(with(&[("wasm", 2)]), with(&[]), "an Envoy has connected, and nothing is other than before");
        assert_ne!(with(&[("gateway/infra/edge", 2)]), with(&[]));
        assert_ne!(with(&[("gateway/infra/edge", 2)]), with(&[("gateway/infra/edge", 3)]));
    }

    #[test]
    fn saved_views_of_gateways_are_left_empty() {
        let one = || Snapshot::new([("t".to_owned(), "n".to_owned(), Resource::new(vec![1]))]);
        let saved = one().with_views(["gateway/infra/edge", "wasm"].map(|name| (name.to_owned(), one())));
        let found = without_gateways(&saved);
        let views: Vec<_> = found.views().map(|(name, view)| (name, view.resources().count())).collect();
        assert_eq!((found.resources().count(), views), (1, vec![("gateway/infra/edge", 0), ("wasm", 1)]));
    }
}
