use std::sync::LazyLock;

use envoy_abi::http::{ConfigHandle, Counter, Gauge, Histogram, MetricSink};
use portcullis_core::observe::catalog::{
    COUNTERS, FILTER_DURATION, GAUGES, LIMITS_DEGRADED, Metric, QUEUE_WAIT, REVIEW_WAIT,
};
use portcullis_core::observe::{Flusher, MetricsSink, OrphanedMetrics};

use crate::memory;
use crate::timer::{ConfigWaker, Waker, run_after};

static ORPHANED: LazyLock<OrphanedMetrics> = LazyLock::new(OrphanedMetrics::default);

/// One filter configuration's metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    counters: Vec<(&'static str, Counter)>,
    gauges: Vec<(&'static str, Gauge)>,
    pub(crate) processing: Histogram,
    pub(crate) review_wait: Histogram,
    pub(crate) queue_wait: Histogram,
    pub(crate) flusher: Flusher<ConfigWaker>,
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
            queue_wait: handle.histogram(QUEUE_WAIT.name)?,
            flusher: Flusher::new(memory::unrouted(), Waker(handle.scheduler()), run_after, &ORPHANED),
        })
    }

    /// Shows whether local limits hold in the place of those that gateways share.
    pub(crate) fn show_degraded(&self, is_degraded: bool, sink: &mut impl MetricSink) {
        EnvoySink { metrics: self, sink }.set(LIMITS_DEGRADED, &[], u64::from(!is_degraded), u64::from(is_degraded));
    }

    /// Carries metrics to Envoy from a stream or the main thread.
    pub(crate) fn sink<'a, S: MetricSink>(&'a self, sink: &'a mut S) -> impl MetricsSink {
        EnvoySink { metrics: self, sink }
    }
}
