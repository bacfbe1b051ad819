//! The filter's metrics. Requests are counted in the VM and header_value to Envoy once in a while.
//!
//! A metric of proxy-wasm has a name and no labels: they stand in the name, each as `;label=value`, and `portcullis bootstrap
//! --filter wasm` tells Envoy how to find them (`stats_tags`).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::observe::catalog::{JUDGING, PREFIX, REQUESTS, REVIEW_WAIT};
use portcullis_core::observe::{ClusterMetrics, Outcome, RequestRecord};

use crate::hostcalls::{Hostcalls, MetricKind};

/// How old a figure is at most.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// One configuration's metrics in one VM.
pub(crate) struct Metrics {
    judging: Option<u32>,
    review_wait: Option<u32>,
    nobody: Arc<ClusterMetrics>,
    known: RefCell<Known>,
    has_news: Cell<bool>,
}

#[derive(Default)]
struct Known {
    /// The [`ClusterMetrics::id`] that was counted last, known for certain.
    latest: u64,
    series: Vec<Arc<ClusterMetrics>>,
    /// Envoy's numbers of metrics, by name.
    ids: HashMap<String, u32>,
    /// What this VM has added to gauges: the other workers' VMs add to the same.
    shown: BTreeMap<String, u64>,
}

impl Metrics {
    pub(crate) fn new(host: &impl Hostcalls) -> Self {
        let histogram = |name: &str| host.metric(MetricKind::Histogram, &format!("{PREFIX}{name}"));
        Metrics {
            judging: histogram(JUDGING.name),
            review_wait: histogram(REVIEW_WAIT.name),
            nobody: Arc::new(ClusterMetrics::unrouted()),
            known: RefCell::default(),
            has_news: Cell::new(false),
        }
    }

    /// Counts what became of a request; `None` for one that reached no cluster.
    pub(crate) fn count(&self, series: Option<&Arc<ClusterMetrics>>, seen: &RequestRecord, outcome: Outcome) {
        let series = series.unwrap_or(&self.nobody);
        let mut known = self.known.borrow_mut();
        if known.latest != series.id() {
            if known.series.iter().all(|one| one.id() != series.id()) {
                known.series.push(Arc::clone(series));
            }
            known.latest = series.id();
        }
        series.count(seen, outcome);
        self.changed();
    }

    /// Says that something is to be shown.
    pub(crate) fn changed(&self) {
        self.has_news.set(true);
    }

    /// Whether something is to be shown.
    pub(crate) fn has_news(&self) -> bool {
        self.has_news.get()
    }

    pub(crate) fn judged(&self, time: Duration, host: &impl Hostcalls) {
        if let Some(id) = self.judging {
            host.record_metric(id, u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        }
    }

    pub(crate) fn waited(&self, time: Duration, host: &impl Hostcalls) {
        if let Some(id) = self.review_wait {
            host.record_metric(id, u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        }
    }

    /// Carries everything to Envoy.
    pub(crate) fn show(&self, host: &impl Hostcalls) {
        let known = &mut *self.known.borrow_mut();
        self.has_news.set(false);
        let mut values = BTreeMap::new();
        let ids = &mut known.ids;
        known.series.retain(|series| {
            // Asked first: what is counted by somebody who is still there must be found the next time.
            let is_in_use = Arc::strong_count(series) > 1;
            series.take(|labels, count| {
                let name = named(REQUESTS.name, REQUESTS.labels.iter().copied().zip(labels));
                add(ids, MetricKind::Counter, &name, i64::try_from(count).unwrap_or(i64::MAX), host);
            });
            if is_in_use {
                for (metric, labels, value) in series.gauges() {
                    let name = named(metric.name, metric.labels.iter().copied().zip(labels.iter().map(String::as_str)));
                    *values.entry(name).or_insert(0_u64) += value;
                }
            }
            is_in_use
        });
        for gone in known.shown.keys() {
            values.entry(gone.clone()).or_insert(0);
        }
        for (name, value) in &values {
            let before = known.shown.get(name).copied().unwrap_or(0);
            let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            let change = signed(*value).saturating_sub(signed(before));
            if change != 0 {
                add(&mut known.ids, MetricKind::Gauge, name, change, host);
            }
        }
        values.retain(|_, value| *value > 0);
        known.shown = values;
        known.latest = 0;
    }
}

fn named<'a>(name: &str, labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = format!("{PREFIX}{name}");
    for (label, value) in labels {
        text += &format!(";{label}={}", value.replace(';', "_"));
    }
    text
}

fn add(ids: &mut HashMap<String, u32>, kind: MetricKind, name: &str, by: i64, host: &impl Hostcalls) {
    let id = ids.get(name).copied().or_else(|| {
        let id = host.metric(kind, name)?;
        ids.insert(name.to_owned(), id);
        Some(id)
    });
    if let Some(id) = id {
        host.add_metric(id, by);
    }
}
