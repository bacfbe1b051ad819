use portcullis_filter_config::activity::LATENCY_BOUNDS;

use super::counts::BUCKETS;
use super::view::Numbers;

/// Rates and gauges that add up: of a cluster at several gateways, or of a gateway's clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) answers: f64,
    pub(super) errors: f64,
    /// Answers that errors are compared with.
    pub(super) conclusive: f64,
    pub(super) refusals: f64,
    /// Answers by duration.
    pub(super) latency: [f64; BUCKETS],
    pub(super) running: u32,
    pub(super) watches: u32,
    pub(super) sessions: u32,
}

impl Rates {
    pub(super) fn add(&mut self, other: &Self) {
        self.answers += other.answers;
        self.errors += other.errors;
        self.conclusive += other.conclusive;
        self.refusals += other.refusals;
        self.latency.iter_mut().zip(other.latency).for_each(|(sum, one)| *sum += one);
        self.running = self.running.saturating_add(other.running);
        self.watches = self.watches.saturating_add(other.watches);
        self.sessions = self.sessions.saturating_add(other.sessions);
    }

    pub(super) fn numbers(&self) -> Numbers {
        Numbers {
            requests_per_second: self.answers,
            errors_per_second: self.errors,
            refusals_per_second: self.refusals,
            p50: quantile(&self.latency, 0.50),
            p99: quantile(&self.latency, 0.99),
            running: self.running,
            watches: self.watches,
            sessions: self.sessions,
        }
    }
}

/// The quantile of a histogram in milliseconds, as Prometheus' `histogram_quantile` finds it: linear within a bucket, the
/// highest bound for what is above all of them. `None` if it is empty.
pub(super) fn quantile(buckets: &[f64; BUCKETS], quantile: f64) -> Option<f64> {
    let total: f64 = buckets.iter().sum();
    if total <= 0.0 {
        return None;
    }
    let wanted = total * quantile;
    let (mut below, mut lower) = (0.0, 0.0);
    for (count, bound) in buckets.iter().zip(LATENCY_BOUNDS) {
        let upper = milliseconds(bound);
        if below + count >= wanted && *count > 0.0 {
            return Some(lower + (upper - lower) * ((wanted - below) / count).clamp(0.0, 1.0));
        }
        below += count;
        lower = upper;
    }
    Some(lower)
}

#[expect(clippy::cast_precision_loss, reason = "bounds are far below 2^53")]
fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1_000.0
}
