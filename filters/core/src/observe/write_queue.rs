use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::catalog::{GAUGES, Metric, MetricsSink};
use super::cluster_counts::{ClusterCounts, Gauges, PendingCount};
use super::series_ledger::SeriesLedger;

/// Series that are written in one step: each takes some 8,700 instructions of the proxy's main thread, which has reviews to send
/// and configuration to take.
const MAX_SERIES: usize = 1_000;

/// Changes that are to be written to the proxy's metrics, in steps.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    pending: VecDeque<(Arc<ClusterCounts>, PendingCount)>,
    gauges: VecDeque<GaugeChange>,
    /// Gauges that the proxy has, with their values.
    shown: BTreeMap<(&'static str, Vec<String>), u64>,
    /// Of every cluster that has series in this part of the listener: the proxy frees them with it, and not before. By address.
    ledgers: BTreeMap<usize, Arc<SeriesLedger>>,
}

#[derive(Debug)]
struct GaugeChange {
    metric: Metric,
    labels: Vec<String>,
    before: u64,
    value: u64,
}

impl WriteQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.gauges.is_empty()
    }

    /// Counts of which something is not written yet.
    pub(super) fn counts(&self) -> Vec<Arc<ClusterCounts>> {
        self.pending.iter().map(|(counts, _)| Arc::clone(counts)).collect()
    }

    /// Takes up what changed. The first member says whether the configuration is in use.
    ///
    /// Gauges are those of each cluster's newest configuration: an earlier one, which streams still use, shares what they show, and
    /// each edit leaves as many of them as its owner opens watches.
    pub(super) fn fill(&mut self, all: Vec<(bool, Arc<ClusterCounts>)>) {
        let newest = newest(&all);
        let mut gauges = Gauges::new();
        for (is_in_use, counts) in all {
            let before = self.pending.len();
            self.pending.extend(counts.pending().map(|count| (Arc::clone(&counts), count)));
            if let Some(talkers) = &counts.talkers {
                talkers.merge();
            }
            if newest.contains(&counts.id) {
                gauges.append(&mut counts.gauges());
            }
            if is_in_use || self.pending.len() > before {
                self.ledgers.entry(Arc::as_ptr(&counts.ledger).addr()).or_insert_with(|| Arc::clone(&counts.ledger));
            }
        }
        self.fill_gauges(gauges);
    }

    fn fill_gauges(&mut self, gauges: Gauges) {
        let values: BTreeMap<_, _> =
            gauges.into_iter().map(|(metric, labels, value)| ((metric.name, labels), (metric, value))).collect();
        let mut before = std::mem::take(&mut self.shown);
        for ((name, labels), (metric, value)) in values {
            let before = before.remove(&(name, labels.clone()));
            self.shown.insert((name, labels.clone()), value);
            if before != Some(value) {
                self.gauges.push_back(GaugeChange { metric, labels, before: before.unwrap_or(0), value });
            }
        }
        for ((name, labels), before) in before.into_iter().filter(|(_, before)| *before > 0) {
            if let Some(metric) = GAUGES.iter().find(|metric| metric.name == name) {
                self.gauges.push_back(GaugeChange { metric: *metric, labels, before, value: 0 });
            }
        }
    }

    /// Writes a part of it. True if that was the last one.
    pub(super) fn step(&mut self, sink: &mut impl MetricsSink) -> bool {
        let mut sink = CountingSink { sink, series: 0 };
        while sink.series < MAX_SERIES {
            if let Some((counts, count)) = self.pending.pop_front() {
                counts.write(count, &mut sink);
            } else if let Some(GaugeChange { metric, labels, before, value }) = self.gauges.pop_front() {
                let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
                sink.set(metric, &labels, before, value);
            } else {
                break;
            }
        }
        self.is_empty()
    }
}

/// The newest configuration in use of each cluster, by [`ClusterCounts::id`].
fn newest(all: &[(bool, Arc<ClusterCounts>)]) -> BTreeSet<u64> {
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, counts) in all.iter().filter(|(is_in_use, _)| *is_in_use) {
        let id = newest.entry(&counts.cluster).or_insert(counts.id);
        *id = counts.id.max(*id);
    }
    newest.into_values().collect()
}

/// Counts the series that are written.
struct CountingSink<'a, S> {
    sink: &'a mut S,
    series: usize,
}

impl<S: MetricsSink> MetricsSink for CountingSink<'_, S> {
    fn add(&mut self, metric: Metric, labels: &[&str], count: u64) {
        self.series = self.series.saturating_add(1);
        self.sink.add(metric, labels, count);
    }

    fn set(&mut self, metric: Metric, labels: &[&str], before: u64, value: u64) {
        self.series = self.series.saturating_add(1);
        self.sink.set(metric, labels, before, value);
    }
}
