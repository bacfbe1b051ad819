use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use envoy_abi::http::{ConfigHandle, Counter, FilterHandle, Gauge, Histogram, MainThread, MetricSink};
use portcullis_core::observe::catalog::{CACHED, JUDGING, Metric, REQUESTS, REVIEW_WAIT, REVIEWS, SLOTS};
use portcullis_core::observe::{ClusterMetrics, Outcome, RequestRecord};

use crate::flush_timer::FlushTimer;
use crate::memory;

/// Counts that a configuration could not carry to Envoy itself, because it is gone or no request comes to it any more: the next
/// one that carries its own takes them along.
static LEFT: Mutex<BTreeMap<u64, Arc<ClusterMetrics>>> = Mutex::new(BTreeMap::new());

/// One filter configuration's metrics. Requests are counted in the process and header_value to Envoy once in a while, because
/// a labelled counter of Envoy costs more than the rest of the filter.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Counter,
    judging: Histogram,
    review_wait: Histogram,
    gauges: [(Metric, Gauge); 3],
    nobody: Arc<ClusterMetrics>,
    /// The [`ClusterMetrics::id`] that was counted last, known for certain.
    latest: AtomicU64,
    known: Mutex<Known>,
    timer: Arc<FlushTimer>,
}

#[derive(Debug, Default)]
struct Known {
    series: Vec<Arc<ClusterMetrics>>,
    /// Gauges that stand on Envoy's page.
    shown: BTreeSet<(&'static str, Vec<String>)>,
}

impl Metrics {
    pub(crate) fn new(handle: &mut ConfigHandle) -> Option<Self> {
        let mut gauge = |metric: Metric| Some((metric, handle.gauge(metric.name, metric.labels)?));
        let gauges = [gauge(SLOTS)?, gauge(REVIEWS)?, gauge(CACHED)?];
        Some(Metrics {
            requests: handle.counter(REQUESTS.name, REQUESTS.labels)?,
            judging: handle.histogram(JUDGING.name)?,
            review_wait: handle.histogram(REVIEW_WAIT.name)?,
            gauges,
            nobody: Arc::new(ClusterMetrics::unrouted()),
            latest: AtomicU64::new(0),
            known: Mutex::default(),
            timer: FlushTimer::new(handle.scheduler()),
        })
    }

    /// Counts what became of a request; `None` for one that reached no cluster.
    pub(crate) fn count(&self, series: Option<&Arc<ClusterMetrics>>, seen: &RequestRecord, outcome: Outcome) {
        let series = series.unwrap_or(&self.nobody);
        if self.latest.load(Ordering::Relaxed) != series.id() {
            self.meet(series);
        }
        series.count(seen, outcome);
        self.timer.schedule();
    }

    /// Says that a gauge may have changed.
    pub(crate) fn changed(&self) {
        self.timer.schedule();
    }

    pub(crate) fn judged(&self, stream: &mut FilterHandle, time: Duration) {
        stream.record(self.judging, u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn waited(&self, stream: &mut FilterHandle, time: Duration) {
        stream.record(self.review_wait, u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    }

    /// Carries everything to Envoy, if it is time. An Envoy that takes metrics only from a stream gets them from the next.
    pub(crate) fn on_main_thread(&self, main: &mut MainThread) {
        if self.timer.is_due() {
            // First, so that gauges tell what is left.
            let remembers = memory::forget_old();
            if main.takes_metrics() {
                self.show(main);
            } else {
                self.leave();
                self.timer.reschedule();
            }
            // Woken again while there is something to forget, also when no request comes any more.
            if remembers {
                self.changed();
            }
        }
    }

    /// The same from a stream, where the main thread has left it to one.
    pub(crate) fn on_stream(&self, stream: &mut FilterHandle) {
        if self.timer.is_due() {
            self.show(stream);
        }
    }

    #[cold]
    fn meet(&self, series: &Arc<ClusterMetrics>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.series.iter().all(|one| one.id() != series.id()) {
            known.series.push(Arc::clone(series));
        }
        self.latest.store(series.id(), Ordering::Relaxed);
    }

    #[cold]
    fn leave(&self) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        left.extend(known.series.iter().map(|series| (series.id(), Arc::clone(series))));
    }

    #[cold]
    fn show(&self, sink: &mut impl MetricSink) {
        let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
        for series in left.into_values() {
            series.take(|labels, count| _ = sink.add(self.requests, &labels, count));
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut values = BTreeMap::new();
        known.series.retain(|series| {
            // Asked first: what is counted by somebody who is still there must be found the next time.
            let is_in_use = Arc::strong_count(series) > 1;
            series.take(|labels, count| _ = sink.add(self.requests, &labels, count));
            if is_in_use {
                let gauges = series.gauges().into_iter();
                values.extend(gauges.map(|(metric, labels, value)| ((metric.name, labels), value)));
            }
            is_in_use
        });
        for gone in std::mem::take(&mut known.shown) {
            values.entry(gone).or_insert(0);
        }
        for ((name, labels), value) in values {
            let Some((_, gauge)) = self.gauges.iter().find(|(metric, _)| metric.name == name) else { continue };
            let texts: Vec<&str> = labels.iter().map(String::as_str).collect();
            let _ = sink.set(*gauge, &texts, value);
            if value > 0 {
                known.shown.insert((name, labels));
            }
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.timer.cancel();
        self.leave();
    }
}
