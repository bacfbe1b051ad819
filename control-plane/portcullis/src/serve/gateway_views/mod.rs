//! The views of Envoys that belong to a Gateway of the Gateway API: each has what is served of its Gateway, and nothing else.
//!
//! - [`claim`]: which Gateway an Envoy belongs to, by its bootstrap and its certificate.
//! - [`snapshots`]: what it is served.
//! - [`progress`]: what its Envoys make of that; [`envoys`]: what they made of it before.

mod claim;
mod envoys;
mod progress;
mod snapshots;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_attach::{ObjectName, ServedGateway};
use portcullis_translate::ServicePort;
use portcullis_xds::{Snapshot, View};
use tokio::sync::watch;

pub(crate) use claim::gateway_name;
pub(super) use claim::{GatewayClaims, claimed};
pub(super) use envoys::GatewayEnvoys;
pub(super) use progress::ProgrammedState;
use progress::programmed_states;
pub(super) use snapshots::GatewaySnapshots;

/// The verdicts of the attach step, as far as they decide about what is served.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GatewayDemand {
    /// The accepted Gateways.
    pub(super) served: Arc<Vec<ServedGateway>>,
    /// `UpstreamClusters` to which a route may pass connections on, whether these can be or not.
    pub(super) passed_clusters: BTreeSet<String>,
    /// The ports of Services to which routes lead.
    pub(super) services: BTreeMap<ServicePort, ServiceIdentity>,
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
    /// The Gateways that are served.
    pub(super) served: Arc<Vec<ServedGateway>>,
    /// The snapshot with their views; none before the first.
    pub(super) snapshot: Option<Arc<Snapshot>>,
    /// `UpstreamClusters` to which no connection may be passed on, and why.
    pub(super) refused_clusters: Arc<BTreeMap<String, String>>,
}

/// The reconciler's end of the Gateway API.
pub(super) struct GatewayLink {
    /// The newest demand; none before the first verdicts.
    pub(super) demand: watch::Receiver<Option<Arc<GatewayDemand>>>,
    /// The Gateways that Envoys belong to.
    pub(super) claims: watch::Receiver<GatewayClaims>,
    /// The outcome.
    pub(super) outcome: watch::Sender<Arc<GatewayOutcome>>,
}

impl GatewayLink {
    /// Waits for another demand, or another Gateway that an Envoy belongs to. Without end if there is no Gateway API.
    pub(super) async fn changed(link: Option<&mut Self>) {
        let Some(link) = link else { return std::future::pending().await };
        let changed = tokio::select! {
            changed = link.demand.changed() => changed.is_ok(),
            changed = link.claims.changed() => changed.is_ok(),
        };
        if !changed {
            // The verdicts end with the program.
            std::future::pending().await
        }
    }
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
