use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::catalog::{Metric, MetricsSink, REQUESTS};
use super::{ClusterMetrics, Outcome, RequestRecord, Response};

/// The metrics of all clusters of one filter configuration: counted here, carried to the proxy once in a while, because a
/// labelled counter of Envoy costs more than the rest of the filter.
#[derive(Debug)]
pub struct Publisher {
    unrouted: Arc<ClusterMetrics>,
    /// The [`ClusterMetrics::id`] that was counted last: known for certain, so that most requests take no lock.
    latest: AtomicU64,
    known: Mutex<PublishedState>,
}

#[derive(Debug, Default)]
struct PublishedState {
    clusters: Vec<Arc<ClusterMetrics>>,
    /// Gauges that the proxy shows, with their values.
    shown: BTreeMap<(&'static str, Vec<String>), u64>,
}

impl Default for Publisher {
    fn default() -> Self {
        Publisher { unrouted: Arc::new(ClusterMetrics::unrouted()), latest: AtomicU64::new(0), known: Mutex::default() }
    }
}

impl Publisher {
    /// Counts a request; `None` for one that reached no cluster.
    pub fn count(&self, metrics: Option<&Arc<ClusterMetrics>>, record: &RequestRecord, outcome: Outcome) {
        self.registered(metrics).count(record.key, outcome);
    }

    /// Counts an answer; `None` for the answer to a request that reached no cluster.
    pub fn count_response(
        &self,
        metrics: Option<&Arc<ClusterMetrics>>,
        record: &RequestRecord,
        response: &Response<'_>,
    ) {
        self.registered(metrics).count_response(record.key, response);
    }

    fn registered<'a>(&'a self, metrics: Option<&'a Arc<ClusterMetrics>>) -> &'a Arc<ClusterMetrics> {
        let metrics = metrics.unwrap_or(&self.unrouted);
        if self.latest.load(Ordering::Relaxed) != metrics.id() {
            self.register(metrics);
        }
        metrics
    }

    /// The metrics of all clusters.
    pub(super) fn clusters(&self) -> Vec<Arc<ClusterMetrics>> {
        self.lock().clusters.clone()
    }

    /// Writes what was counted since, and the gauges that changed.
    pub fn publish(&self, sink: &mut impl MetricsSink) {
        let mut known = self.lock();
        let mut values = BTreeMap::new();
        known.clusters.retain(|metrics| {
            // Asked first: what a request counts that is still there must be found the next time.
            let is_in_use = Arc::strong_count(metrics) > 1;
            publish_counts(metrics, sink);
            if is_in_use {
                let gauges = metrics.gauges().into_iter();
                values.extend(gauges.map(|(metric, labels, value)| ((metric.name, labels), (metric, value))));
            }
            is_in_use
        });
        let mut before = std::mem::take(&mut known.shown);
        for ((name, labels), (metric, value)) in values {
            let before = before.remove(&(name, labels.clone())).unwrap_or(0);
            write_gauge(sink, metric, &labels, before, value);
            if value > 0 {
                known.shown.insert((name, labels), value);
            }
        }
        for ((name, labels), before) in before {
            if let Some(metric) = super::catalog::GAUGES.iter().find(|metric| metric.name == name) {
                write_gauge(sink, *metric, &labels, before, 0);
            }
        }
    }

    #[cold]
    fn register(&self, metrics: &Arc<ClusterMetrics>) {
        let mut known = self.lock();
        if known.clusters.iter().all(|one| one.id() != metrics.id()) {
            known.clusters.push(Arc::clone(metrics));
        }
        self.latest.store(metrics.id(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, PublishedState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what was counted of a cluster's requests since.
pub(super) fn publish_counts(metrics: &ClusterMetrics, sink: &mut impl MetricsSink) {
    metrics.take(|labels, count| sink.add(REQUESTS, &labels, count));
    metrics.publish_responses(sink);
    metrics.publish_drains(sink);
}

fn write_gauge(sink: &mut impl MetricsSink, metric: Metric, labels: &[String], before: u64, value: u64) {
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    sink.set(metric, &labels, before, value);
}
