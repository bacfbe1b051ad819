use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use portcullis_limits_store::StoreStatistics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{add, catalog};

/// Metrics of the store of limits; 0 where there is none.
#[derive(Debug, Default)]
pub(super) struct LimitsStoreMetrics {
    statistics: OnceLock<Arc<StoreStatistics>>,
    is_up: Gauge,
    rounds: Counter,
    failures: Counter,
    conflicts: Counter,
}

impl LimitsStoreMetrics {
    pub(super) fn register(&self, page: &mut Registry) {
        add(page, &catalog::LIMITS_STORE_UP, self.is_up.clone());
        add(page, &catalog::LIMITS_STORE_ROUNDS, self.rounds.clone());
        add(page, &catalog::LIMITS_STORE_FAILURES, self.failures.clone());
        add(page, &catalog::LIMITS_STORE_CONFLICTS, self.conflicts.clone());
    }

    pub(super) fn follow(&self, statistics: Arc<StoreStatistics>) {
        // It is set once.
        let _ = self.statistics.set(statistics);
    }

    pub(super) fn read(&self) {
        let Some(statistics) = self.statistics.get() else { return };
        self.is_up.set(i64::from(statistics.is_up.load(Ordering::Relaxed)));
        let copy = |counter: &Counter, value: &AtomicU64| {
            counter.inner().store(value.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        copy(&self.rounds, &statistics.rounds);
        copy(&self.failures, &statistics.failures);
        copy(&self.conflicts, &statistics.conflicts);
    }
}
