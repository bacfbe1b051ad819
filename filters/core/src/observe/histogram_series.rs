use super::catalog::{HistogramMetrics, MetricsSink};
use super::histogram::Taken;

/// Series of a histogram beside its finite bounds: `+Inf`, the sum and the count.
pub(super) const SERIES_BESIDE_BOUNDS: u32 = 3;

/// Writes a histogram as Prometheus has it: a counter for each bound, of values up to it.
pub(super) fn write<const N: usize>(
    sink: &mut impl MetricsSink,
    metrics: &HistogramMetrics,
    labels: &[&str],
    bounds: &[(u64, &str); N],
    taken: Option<&Taken<N>>,
) {
    let Some(taken) = taken else { return };
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
