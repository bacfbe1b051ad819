use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use super::catalog::MetricsSink;
use super::cluster_counts::ClusterCounts;
use super::write_queue::WriteQueue;
use super::{ClusterMetrics, ClusterTotals, Outcome, RequestRecord, Response};

/// The metrics of all clusters of one filter configuration: counted here, carried to the proxy once in a while, because a
/// labelled counter of Envoy costs more than the rest of the filter.
#[derive(Debug)]
pub struct Publisher {
    unrouted: Arc<ClusterMetrics>,
    /// The [`ClusterMetrics::id`] that was counted last: known for certain, so that most requests take no lock.
    latest: AtomicU64,
    /// By [`ClusterMetrics::id`].
    known: RwLock<BTreeMap<u64, Known>>,
    /// Held while the proxy is called, and by nothing that counts.
    queue: Mutex<WriteQueue>,
}

/// The counts of a configuration, and whether it is in use: others publish them, too.
#[derive(Debug)]
struct Known {
    user: Weak<ClusterMetrics>,
    counts: Arc<ClusterCounts>,
}

impl Known {
    fn is_in_use(&self) -> bool {
        self.user.strong_count() > 0
    }
}

impl Default for Publisher {
    fn default() -> Self {
        Publisher::new(None)
    }
}

impl Publisher {
    /// Adds requests that reach no cluster to these totals, where the host shows activity.
    pub fn new(unrouted: Option<Arc<ClusterTotals>>) -> Self {
        let publisher = Publisher {
            unrouted: Arc::new(ClusterMetrics::unrouted(unrouted)),
            latest: AtomicU64::new(0),
            known: RwLock::default(),
            queue: Mutex::default(),
        };
        publisher.register(&publisher.unrouted);
        publisher
    }

    /// Counts a request; `None` for one that reached no cluster.
    pub fn count(&self, metrics: Option<&Arc<ClusterMetrics>>, record: &RequestRecord, outcome: Outcome) {
        let metrics = self.registered(metrics);
        metrics.count(record.key, outcome);
        // Later outcomes, and the end of a request that left, are no decisions.
        if let (Some(shadow), Outcome::Forwarded | Outcome::Refused(_)) = (&record.shadow, outcome) {
            metrics.count_shadow(shadow.key, record.key);
        }
    }

    /// Counts an answer; `None` for the answer to a request that reached no cluster.
    pub fn count_response(
        &self,
        metrics: Option<&Arc<ClusterMetrics>>,
        record: &RequestRecord,
        response: &Response<'_>,
    ) {
        self.registered(metrics).count_response(record.answer_key(response), response);
    }

    fn registered<'a>(&'a self, metrics: Option<&'a Arc<ClusterMetrics>>) -> &'a ClusterMetrics {
        let Some(metrics) = metrics else { return &self.unrouted };
        if self.latest.load(Ordering::Relaxed) != metrics.id() {
            self.register(metrics);
        }
        metrics
    }

    fn register(&self, metrics: &Arc<ClusterMetrics>) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let is_known = known.get(&metrics.id()).is_some_and(Known::is_in_use);
        drop(known);
        if !is_known {
            let known = Known { user: Arc::downgrade(metrics), counts: Arc::clone(&metrics.counts) };
            self.known.write().unwrap_or_else(PoisonError::into_inner).insert(metrics.id(), known);
        }
        self.latest.store(metrics.id(), Ordering::Relaxed);
    }

    /// The counts of all clusters, those that are about to be written included.
    pub(super) fn counts(&self) -> Vec<Arc<ClusterCounts>> {
        let mut all = self.queue.lock().unwrap_or_else(PoisonError::into_inner).counts();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        all.extend(known.values().map(|one| Arc::clone(&one.counts)));
        all
    }

    /// Writes counts that another publisher had with the next ones of this.
    pub(super) fn adopt(&self, orphaned: impl Iterator<Item = Arc<ClusterCounts>>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for counts in orphaned {
            known.entry(counts.id).or_insert(Known { user: Weak::new(), counts });
        }
    }

    /// Writes what was counted since, and the gauges that changed. False if there is more than one step may write: the caller
    /// calls again soon.
    pub fn publish(&self, sink: &mut impl MetricsSink) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.is_empty() {
            self.fill(&mut queue);
        }
        queue.step(sink)
    }

    fn fill(&self, queue: &mut WriteQueue) {
        // Asked first: what a request counts that is still there must be found the next time.
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<_> = known.values().map(|one| (one.is_in_use(), Arc::clone(&one.counts))).collect();
        drop(known);
        let unused: Vec<u64> = all.iter().filter(|(is_in_use, _)| !is_in_use).map(|(_, counts)| counts.id).collect();
        queue.fill(all);
        if !unused.is_empty() {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.retain(|id, one| one.is_in_use() || unused.binary_search(id).is_err());
        }
    }
}
