//! State that outlives a cluster's configurations: [`ProcessState`] where all workers share memory, [`SharedState`] where each
//! has its own and the proxy shares data between them.

mod answers;
mod counts;
#[cfg(test)]
mod limit_tests;
mod parts;
mod process;
mod shared;
mod shared_limits;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use process::ProcessState;
pub use shared::SharedState;
pub use shared_limits::SharedLimits;

use portcullis_filter_config::{FairQueueConfig, FlowControlLimit, FlowControlSchema};

use crate::bucket::{Rate, TokenBucket};
use crate::fair::{FairQueue, WaitingCount};
use crate::flow_limit::FlowLimit;
use crate::global_limit::GlobalLimits;
use crate::limit::InFlight;
use crate::observe::{ClusterTotals, MetricsState, RunningRequests, SeriesLedger};
use crate::rebalance::ProcessLoad;
use crate::review::{CredentialCaches, Lifetimes, Reviewer, Store};
use crate::upstream_user::HeaderNames;

/// State that outlives a cluster's configurations, kept by the host for the whole process.
///
/// A cluster counts under its name and the word of its object behind it, so that another object of the name begins anew.
pub trait StateStore {
    /// The caches of an earlier configuration of the owner; empty if there was none.
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches>;

    /// The running requests of a flow control schema, by the name under which the cluster counts and the schema's.
    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight>;

    /// The token bucket of a flow control schema. The rate is part of what it is found by: another rate is another bucket,
    /// and a full one.
    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket>;

    /// The parts of limits that gateways share. A host that reports no use of them has none, and local limits hold.
    fn global_limits(&self) -> Option<&GlobalLimits> {
        None
    }

    /// The part of such a limit that a host keeps whose workers share no memory; `None` where there is none.
    fn host_limit(&self, _cluster: &str, _schema: &FlowControlSchema) -> Option<FlowLimit> {
        None
    }

    /// The limit of a flow control schema, by the name under which the cluster counts.
    fn flow_limit(&self, cluster: &str, schema: &FlowControlSchema) -> FlowLimit {
        let running = || self.in_flight(cluster, &schema.name);
        let global = self.global_limits().and_then(|limits| FlowLimit::global(schema, cluster, limits, running));
        global.or_else(|| self.host_limit(cluster, schema)).unwrap_or_else(|| match schema.limit {
            FlowControlLimit::MaxRequestsInflight(max) => {
                FlowLimit::in_flight(running(), max.min(schema.at_most.unwrap_or(u32::MAX)))
            }
            FlowControlLimit::TokenBucket { qps, burst } => {
                FlowLimit::bucket(self.token_bucket(cluster, &schema.name, Rate { qps, burst }))
            }
        })
    }

    /// The queues of a fair queue, by the name under which the cluster counts and the schema's. New ones if there were none.
    fn fair_queue(&self, _cluster: &str, config: &FairQueueConfig) -> Arc<FairQueue> {
        Arc::new(FairQueue::new(&[0; 32], &Arc::new(WaitingCount::default()), config))
    }

    /// The running requests of a cluster, for metrics; by the name under which it counts. A host that shows no metrics needs none.
    fn running(&self, _cluster: &str) -> Arc<RunningRequests> {
        Arc::default()
    }

    /// The series that a cluster has had, by its name over all edits and objects. A host that shows no metrics needs none.
    fn ledger(&self, _cluster: &str) -> Arc<SeriesLedger> {
        Arc::default()
    }

    /// The activity of a cluster, by the name under which it counts. `None` from a host that shows none.
    fn totals(&self, _cluster: &str) -> Option<Arc<ClusterTotals>> {
        None
    }

    /// The load by which connections are drained. A host that cannot drain them needs none.
    fn load(&self) -> Arc<ProcessLoad> {
        Arc::default()
    }
}

/// The proxy's data that all workers share, where they share no memory.
pub trait SharedData: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// The value under a key, and the number by which [`SharedData::set_shared`] notices a change.
    fn shared(&self, key: &[u8]) -> Option<(Vec<u8>, u32)>;
    /// Writes a value; false if it was changed since it had that number. 0 writes in any case.
    #[must_use]
    fn set_shared(&self, key: &[u8], value: &[u8], cas: u32) -> bool;
    /// The time since any fixed point, by a clock that only goes forward, the same for all workers.
    fn uptime(&self) -> Option<Duration>;
    /// Random bytes.
    fn random(&self) -> Option<[u8; 32]>;
}

/// Remembers nothing from one configuration to the next: for tools and tests. Holds the secret of the caches that it makes.
#[derive(Clone, Copy, Debug)]
pub struct EphemeralState(pub [u8; 32]);

impl StateStore for EphemeralState {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        Arc::new(CredentialCaches::new(&self.0, owner.lifetimes, &Store::default()))
    }

    fn in_flight(&self, _cluster: &str, _schema: &str) -> Arc<InFlight> {
        Arc::default()
    }

    fn token_bucket(&self, _cluster: &str, _schema: &str, rate: Rate) -> Arc<TokenBucket> {
        Arc::new(TokenBucket::new(rate))
    }
}

/// The owner of caches of credentials: another cluster, another client CA, another reviewer or other lifetimes begin with empty
/// ones, an edit of policies keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CacheOwner {
    pub(crate) identity: String,
    pub(crate) client_ca: Vec<u8>,
    pub(crate) names: HeaderNames,
    /// Another upstream, or another user who asks it, may answer otherwise.
    pub(crate) reviewer: Option<Reviewer>,
    /// For how long answers are believed.
    pub lifetimes: Lifetimes,
}

impl<S: StateStore> MetricsState for S {
    fn flow_limit(&self, cluster: &str, schema: &FlowControlSchema) -> FlowLimit {
        StateStore::flow_limit(self, cluster, schema)
    }

    fn fair_queue(&self, cluster: &str, config: &FairQueueConfig) -> Arc<FairQueue> {
        StateStore::fair_queue(self, cluster, config)
    }

    fn running(&self, cluster: &str) -> Arc<RunningRequests> {
        StateStore::running(self, cluster)
    }

    fn ledger(&self, cluster: &str) -> Arc<SeriesLedger> {
        StateStore::ledger(self, cluster)
    }

    fn totals(&self, cluster: &str) -> Option<Arc<ClusterTotals>> {
        StateStore::totals(self, cluster)
    }
}
