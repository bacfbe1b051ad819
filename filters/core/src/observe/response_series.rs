//! The series of a cluster's answers, in the proxy's metrics.

use super::catalog::{
    DURATION_BOUNDS, DURATIONS, HistogramMetrics, MetricsSink, RESPONSE_SIZES, RESPONSES, SERVER_DURATIONS, SIZE_BOUNDS,
};
use super::histogram::{Histogram, Taken};
use super::resource::ResourceLabels;
use super::responses::{AnsweredRequests, ResponseTable};
use super::totals::ClusterSums;

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// Writes what was counted since the last time, and adds it to the cluster's totals.
pub(super) fn publish(
    cluster: &str,
    resources: &ResourceLabels,
    responses: &ResponseTable,
    sink: &mut impl MetricsSink,
    mut totals: Option<&mut ClusterSums>,
) {
    responses.for_each(|key, counts| {
        let count = counts.take_count();
        if count == 0 {
            return;
        }
        let (resource, subresource) = resources.labels(key.resource);
        let (server, verb, scope) = (responses.servers.label(key.server), key.verb.label(), key.scope.label());
        sink.add(RESPONSES, &[cluster, server, verb, resource, subresource, scope, &key.code_label()], count);
        // Without room, all clusters share the histograms of what has none.
        let cluster = if key.is_rest() { "other" } else { cluster };
        let labels = [cluster, verb, resource, subresource, scope];
        let durations = counts.durations.take(SECOND);
        if let Some(taken) = &durations {
            write(sink, &DURATIONS, &labels, &DURATION_BOUNDS, taken);
        }
        take_and_write(sink, &RESPONSE_SIZES, &labels, (&SIZE_BOUNDS, 1), &counts.sizes);
        let labels = [cluster, server, verb];
        take_and_write(sink, &SERVER_DURATIONS, &labels, (&DURATION_BOUNDS, SECOND), &counts.server_durations);
        if let Some(totals) = &mut totals {
            let mut answered = AnsweredRequests { class: key.class(), count, ..AnsweredRequests::default() };
            if let Some(taken) = &durations {
                answered.took(taken, counts.new_microseconds(taken, SECOND));
            }
            totals.answered(server, &answered);
        }
    });
}

fn take_and_write<const N: usize>(
    sink: &mut impl MetricsSink,
    metrics: &HistogramMetrics,
    labels: &[&str],
    (bounds, unit): (&[(u64, &str); N], u64),
    histogram: &Histogram<N>,
) {
    if let Some(taken) = histogram.take(unit) {
        write(sink, metrics, labels, bounds, &taken);
    }
}

/// Writes a histogram as Prometheus has it: a counter for each bound, of values up to it.
fn write<const N: usize>(
    sink: &mut impl MetricsSink,
    metrics: &HistogramMetrics,
    labels: &[&str],
    bounds: &[(u64, &str); N],
    taken: &Taken<N>,
) {
    let infinite = ("+Inf", taken.count);
    let buckets = bounds.iter().map(|(_, label)| *label).zip(taken.buckets).chain([infinite]);
    let mut labelled = labels.to_vec();
    labelled.push("");
    for (bound, count) in buckets.filter(|(_, count)| *count > 0) {
        if let Some(le) = labelled.last_mut() {
            *le = bound;
        }
        sink.add(metrics.bucket, &labelled, count);
    }
    sink.add(metrics.count, labels, taken.count);
    if taken.sum > 0 {
        sink.add(metrics.sum, labels, taken.sum);
    }
}
