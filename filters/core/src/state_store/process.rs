use std::sync::Arc;
use std::time::Duration;

use super::{CacheOwner, StateStore};
use crate::bucket::{Rate, TokenBucket};
use crate::limit::InFlight;
use crate::observe::{RunningRequests, SeriesBudget};
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
    running: WeakMap<String, RunningRequests>,
    series: Arc<SeriesBudget>,
    load: Arc<ProcessLoad>,
}

impl ProcessState {
    /// The state, with a secret for caches that are yet to be made.
    pub fn with_secret(&self, secret: [u8; 32]) -> impl StateStore {
        SeededState { state: self, secret }
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

    fn running(&self, cluster: &str) -> Arc<RunningRequests> {
        self.state.running.get_or_insert_with(cluster.to_owned(), RunningRequests::default)
    }

    fn series_budget(&self) -> Arc<SeriesBudget> {
        Arc::clone(&self.state.series)
    }

    fn load(&self) -> Arc<ProcessLoad> {
        Arc::clone(&self.state.load)
    }
}
