use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use portcullis_filter_config::FairQueueConfig;
use portcullis_filter_config::activity::ClusterActivity;

use super::{CacheOwner, StateStore};
use crate::bucket::{Rate, TokenBucket};
use crate::fair::{FairQueue, WaitingCount};
use crate::global_limit::GlobalLimits;
use crate::limit::InFlight;
use crate::observe::{ClusterTotals, RunningRequests, SeriesBudget, SeriesLedger, TalkerBudget};
use crate::rebalance::ProcessLoad;
use crate::review::{CredentialCaches, Store};
use crate::weak_map::WeakMap;

/// State that outlives configurations in a process whose workers share memory.
#[derive(Debug, Default)]
pub struct ProcessState {
    store: Store,
    caches: WeakMap<CacheOwner, CredentialCaches>,
    in_flight: WeakMap<(String, String), InFlight>,
    buckets: WeakMap<(String, String, Rate), TokenBucket>,
    fair_queues: WeakMap<(String, String), FairQueue>,
    waiting: WaitingCount,
    /// The same of each cluster.
    waiting_of_clusters: WeakMap<String, WaitingCount>,
    running: WeakMap<String, RunningRequests>,
    series: Arc<SeriesBudget>,
    ledgers: WeakMap<String, SeriesLedger>,
    totals: WeakMap<String, ClusterTotals>,
    /// The number of configurations that asked for totals.
    configurations: AtomicU64,
    talkers: Arc<TalkerBudget>,
    load: Arc<ProcessLoad>,
    global_limits: GlobalLimits,
}

/// The name under which requests count that reach no cluster.
const UNROUTED: &str = "-";

impl ProcessState {
    /// The state, with a secret for caches that are yet to be made.
    pub fn with_secret(&self, secret: [u8; 32]) -> impl StateStore {
        SeededState { state: self, secret }
    }

    /// The parts of limits that gateways share.
    pub fn global_limits(&self) -> &GlobalLimits {
        &self.global_limits
    }

    /// The activity of requests that reach no cluster.
    pub fn unrouted(&self) -> Arc<ClusterTotals> {
        self.totals_of(UNROUTED)
    }

    /// The activity of all clusters that have any, by name. Of objects that share a name, the one that was configured last has
    /// it: requests of the others may still run.
    pub fn activity(&self, uptime: Duration) -> Vec<ClusterActivity> {
        let mut newest: BTreeMap<String, Arc<ClusterTotals>> = BTreeMap::new();
        self.totals.for_each(|totals| match newest.entry(totals.name().to_owned()) {
            Entry::Vacant(entry) => drop(entry.insert(totals)),
            Entry::Occupied(mut entry) if totals.configured() > entry.get().configured() => drop(entry.insert(totals)),
            Entry::Occupied(_) => {}
        });
        let mut all: Vec<_> = newest.values().filter_map(|totals| totals.activity(uptime)).collect();
        all.sort_by(|one, other| one.cluster.cmp(&other.cluster));
        all
    }

    fn running_in(&self, cluster: &str) -> Arc<RunningRequests> {
        self.running.get_or_insert_with(cluster.to_owned(), RunningRequests::default)
    }

    fn totals_of(&self, cluster: &str) -> Arc<ClusterTotals> {
        let new = || ClusterTotals::new(cluster, self.running_in(cluster), &self.talkers);
        let totals = self.totals.get_or_insert_with(cluster.to_owned(), new);
        totals.note_configured(self.configurations.fetch_add(1, Ordering::Relaxed));
        totals
    }

    /// Forgets answers that are too old. True if any are left.
    pub fn forget_old(&self, uptime: Duration) -> bool {
        self.store.forget_old(uptime)
    }
}

struct SeededState<'a> {
    state: &'a ProcessState,
    secret: [u8; 32],
}

impl StateStore for SeededState<'_> {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        let (lifetimes, store) = (owner.lifetimes, &self.state.store);
        self.state.caches.get_or_insert_with(owner, || CredentialCaches::new(&self.secret, lifetimes, store))
    }

    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight> {
        self.state.in_flight.get_or_insert_with((cluster.to_owned(), schema.to_owned()), InFlight::default)
    }

    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket> {
        let key = (cluster.to_owned(), schema.to_owned(), rate);
        self.state.buckets.get_or_insert_with(key, || TokenBucket::new(rate))
    }

    fn fair_queue(&self, cluster: &str, config: &FairQueueConfig) -> Arc<FairQueue> {
        let key = (cluster.to_owned(), config.name.clone());
        let waiting = || self.state.waiting.of_cluster();
        let new = || {
            let waiting = self.state.waiting_of_clusters.get_or_insert_with(cluster.to_owned(), waiting);
            FairQueue::new(&self.secret, &waiting, config)
        };
        self.state.fair_queues.get_or_insert_with(key, new)
    }

    fn running(&self, cluster: &str) -> Arc<RunningRequests> {
        self.state.running_in(cluster)
    }

    fn totals(&self, cluster: &str) -> Option<Arc<ClusterTotals>> {
        Some(self.state.totals_of(cluster))
    }

    fn ledger(&self, cluster: &str) -> Arc<SeriesLedger> {
        self.state.ledgers.get_or_insert_with(cluster.to_owned(), || SeriesLedger::new(&self.state.series))
    }

    fn global_limits(&self) -> Option<&GlobalLimits> {
        Some(&self.state.global_limits)
    }

    fn load(&self) -> Arc<ProcessLoad> {
        Arc::clone(&self.state.load)
    }
}
