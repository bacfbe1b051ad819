use std::sync::{Arc, LazyLock};

use envoy_abi::http::{ConfigHandle, Counter, FilterHandle, Gauge, Histogram, MainThread, MetricSink};
use portcullis_core::observe::catalog::{COUNTERS, FILTER_DURATION, GAUGES, Metric, REVIEW_WAIT};
use portcullis_core::observe::{
    ClusterMetrics, MetricsSink, OrphanedMetrics, Outcome, Publisher, RequestRecord, Response,
};

use crate::flush_timer::FlushTimer;
use crate::memory;

/// Metrics that a configuration could not carry to Envoy itself, because it is gone or gets no more requests: the next one that
/// carries its own takes them along.
static ORPHANED: LazyLock<OrphanedMetrics> = LazyLock::new(OrphanedMetrics::default);

/// One filter configuration's metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    counters: Vec<(&'static str, Counter)>,
    gauges: Vec<(&'static str, Gauge)>,
    pub(crate) processing: Histogram,
    pub(crate) review_wait: Histogram,
    publisher: Publisher,
    timer: Arc<FlushTimer>,
}

/// Envoy's metrics, where Envoy takes any.
struct EnvoySink<'a, S> {
    metrics: &'a Metrics,
    sink: &'a mut S,
}

impl<S: MetricSink> MetricsSink for EnvoySink<'_, S> {
    fn add(&mut self, metric: Metric, labels: &[&str], count: u64) {
        let counter = self.metrics.counters.iter().find(|(name, _)| *name == metric.name);
        if let Some((_, counter)) = counter {
            let _ = self.sink.add(*counter, labels, count);
        }
    }

    fn set(&mut self, metric: Metric, labels: &[&str], _before: u64, value: u64) {
        let gauge = self.metrics.gauges.iter().find(|(name, _)| *name == metric.name);
        if let Some((_, gauge)) = gauge {
            let _ = self.sink.set(*gauge, labels, value);
        }
    }
}

impl Metrics {
    pub(crate) fn new(handle: &mut ConfigHandle) -> Option<Self> {
        let counter = |metric: &Metric| Some((metric.name, handle.counter(metric.name, metric.labels)?));
        let counters = COUNTERS.iter().map(counter).collect::<Option<_>>()?;
        let gauge = |metric: &Metric| Some((metric.name, handle.gauge(metric.name, metric.labels)?));
        let gauges = GAUGES.iter().map(gauge).collect::<Option<_>>()?;
        Some(Metrics {
            counters,
            gauges,
            processing: handle.histogram(FILTER_DURATION.name)?,
            review_wait: handle.histogram(REVIEW_WAIT.name)?,
            publisher: Publisher::new(Some(memory::unrouted())),
            timer: FlushTimer::new(handle.scheduler()),
        })
    }

    pub(crate) fn count(&self, metrics: Option<&Arc<ClusterMetrics>>, record: &RequestRecord, outcome: Outcome) {
        self.publisher.count(metrics, record, outcome);
        self.timer.schedule();
    }

    pub(crate) fn count_response(
        &self,
        metrics: Option<&Arc<ClusterMetrics>>,
        record: &RequestRecord,
        response: &Response<'_>,
    ) {
        self.publisher.count_response(metrics, record, response);
        self.timer.schedule();
    }

    /// Marks a gauge as changed.
    pub(crate) fn changed(&self) {
        self.timer.schedule();
    }

    /// Carries everything to Envoy, if it is time. An Envoy that takes metrics only from a stream gets them from the next.
    pub(crate) fn on_main_thread(&self, main: &mut MainThread) {
        if self.timer.gate.take_due() {
            // First, so that gauges have what is left.
            let remembers = memory::forget_old();
            if main.takes_metrics() {
                self.publish(main);
            } else {
                ORPHANED.adopt(&self.publisher);
                self.timer.gate.put_back();
            }
            // Woken again while there is something to forget, also when no request comes any more.
            if remembers {
                self.changed();
            }
        }
    }

    /// The same from a stream, where the main thread has left it to one.
    pub(crate) fn on_stream(&self, stream: &mut FilterHandle) {
        if self.timer.gate.take_due() {
            self.publish(stream);
        }
    }

    #[cold]
    fn publish(&self, sink: &mut impl MetricSink) {
        ORPHANED.hand_over(&self.publisher);
        if !self.publisher.publish(&mut EnvoySink { metrics: self, sink }) {
            self.timer.go_on();
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.timer.cancel();
        ORPHANED.adopt(&self.publisher);
    }
}
