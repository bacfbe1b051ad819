//! The servers behind routes of the Gateway API.
//!
//! - [`passage`]: whether connections may be passed on to an `UpstreamCluster`, by the rules of its own `transport`.
//! - [`judged`]: an `UpstreamCluster` or a `KubernetesUpstream` whose requests are judged.
//! - [`tightened`]: such a one behind a Gateway, a listener or a route with policies of its own.
//! - [`config_size`]: the room that such a one takes at a Gateway.
//! - [`pool`]: the Envoy cluster of a server; [`known_pools`]: those of before.

mod config_size;
mod judged;
mod known_pools;
mod lowered;
mod passage;
mod pool;
mod tightened;

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::DiscoveredServer;
use portcullis_attach::{ObjectName, ServedBackend};

pub(crate) use config_size::{ConfigSize, KnownPolicySizes};
pub(crate) use judged::{JudgedCluster, OpenCluster};
pub use judged::{NO_REQUESTS, ResolvedUpstream, owner_at_gateways};
pub(crate) use known_pools::{KnownPools, PoolOrigin};
pub(crate) use passage::Passage;
pub use passage::passage_diagnosis;
pub(crate) use pool::BackendPool;
pub(crate) use tightened::{DoorRules, KnownTightenings, RequestedObject, Tightenings};

/// The pools of the servers behind routes.
pub(crate) type Pools = BTreeMap<ServedBackend, Arc<BackendPool>>;

/// The clusters and upstreams behind routes for requests, by name or key. One that is not there is not among them.
pub(crate) type JudgedClusters = BTreeMap<String, Arc<JudgedCluster>>;

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePort {
    /// The Service.
    pub service: ObjectName,
    /// The port, as the Service has it.
    pub port: u16,
}

/// The servers of a Service's port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceServers {
    /// `metadata.uid` of the Service: another one of its name has other pools.
    pub uid: String,
    /// Its servers.
    pub servers: Vec<DiscoveredServer>,
}
