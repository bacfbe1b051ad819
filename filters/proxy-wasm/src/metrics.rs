//! The filter's metrics. Requests are counted in the VM and carried to Envoy once in a while.
//!
//! A metric of proxy-wasm has a name and no labels: they are in the name, each as `;label=value`, and `portcullis bootstrap
//! --filter wasm` configures Envoy to find them (`stats_tags`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use portcullis_core::observe::catalog::{FILTER_DURATION, LIMITS_DEGRADED, Metric, PREFIX, REVIEW_WAIT};
use portcullis_core::observe::{ClusterMetrics, MetricsSink, Outcome, Publisher, RequestRecord, Response};

use crate::abi::{Hostcalls, MetricKind};

/// One configuration's metrics in one VM.
pub(crate) struct Metrics {
    pub(crate) processing: Option<u32>,
    pub(crate) review_wait: Option<u32>,
    publisher: Publisher,
    /// Envoy's numbers of metrics, by name.
    ids: RefCell<HashMap<String, u32>>,
    has_news: Cell<bool>,
    /// Whether this VM shows that local limits hold in the place of those that gateways share.
    is_degraded: Cell<bool>,
}

/// Envoy's metrics, to which the VMs of the other workers add as well.
struct SharedSink<'a, H> {
    ids: &'a mut HashMap<String, u32>,
    hostcalls: &'a H,
}

impl<H: Hostcalls> SharedSink<'_, H> {
    fn change(&mut self, kind: MetricKind, metric: Metric, labels: &[&str], by: i64) {
        let mut name = format!("{PREFIX}{}", metric.name);
        // Envoy takes no empty value, and Prometheus reads a missing label as an empty one.
        for (label, value) in metric.labels.iter().zip(labels).filter(|(_, value)| !value.is_empty()) {
            name += &format!(";{label}={}", value.replace(';', "_"));
        }
        let id = self.ids.get(&name).copied().or_else(|| {
            let id = self.hostcalls.metric(kind, &name)?;
            self.ids.insert(name, id);
            Some(id)
        });
        if let Some(id) = id {
            self.hostcalls.add_metric(id, by);
        }
    }
}

impl<H: Hostcalls> MetricsSink for SharedSink<'_, H> {
    fn add(&mut self, metric: Metric, labels: &[&str], count: u64) {
        self.change(MetricKind::Counter, metric, labels, signed(count));
    }

    fn set(&mut self, metric: Metric, labels: &[&str], before: u64, value: u64) {
        if before != value {
            self.change(MetricKind::Gauge, metric, labels, signed(value).saturating_sub(signed(before)));
        }
    }
}

impl Metrics {
    pub(crate) fn new(hostcalls: &impl Hostcalls) -> Self {
        let histogram = |name: &str| hostcalls.metric(MetricKind::Histogram, &format!("{PREFIX}{name}"));
        Metrics {
            processing: histogram(FILTER_DURATION.name),
            review_wait: histogram(REVIEW_WAIT.name),
            publisher: Publisher::default(),
            ids: RefCell::default(),
            has_news: Cell::new(false),
            is_degraded: Cell::new(false),
        }
    }

    pub(crate) fn count(&self, metrics: Option<&Arc<ClusterMetrics>>, record: &RequestRecord, outcome: Outcome) {
        self.publisher.count(metrics, record, outcome);
        self.changed();
    }

    pub(crate) fn count_response(
        &self,
        metrics: Option<&Arc<ClusterMetrics>>,
        record: &RequestRecord,
        response: &Response<'_>,
    ) {
        self.publisher.count_response(metrics, record, response);
        self.changed();
    }

    /// Marks something as changed.
    pub(crate) fn changed(&self) {
        self.has_news.set(true);
    }

    /// Whether something is to be published.
    pub(crate) fn has_news(&self) -> bool {
        self.has_news.get()
    }

    /// Shows whether local limits hold in the place of those that gateways share, if this VM reports for all.
    pub(crate) fn show_degraded(&self, is_degraded: bool, hostcalls: &impl Hostcalls) {
        let before = self.is_degraded.replace(is_degraded);
        let mut sink = SharedSink { ids: &mut self.ids.borrow_mut(), hostcalls };
        sink.set(LIMITS_DEGRADED, &[], before.into(), is_degraded.into());
    }

    /// Carries everything to Envoy.
    pub(crate) fn publish(&self, hostcalls: &impl Hostcalls) {
        self.has_news.set(false);
        let mut sink = SharedSink { ids: &mut self.ids.borrow_mut(), hostcalls };
        // A VM has no thread that others wait for but its worker's, and no other way to go on soon.
        while !self.publisher.publish(&mut sink) {}
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
