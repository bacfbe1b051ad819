//! Tokens of a rate that is allocated, on their way from buckets that shrank to buckets that grow.

use std::time::Duration;

use crate::issue::TOKEN;
use crate::message::nanoseconds;

/// Tokens that buckets had above their new size. They decay at the rate of the limit, since the other buckets are refilled at that
/// rate meanwhile: all of them together never hold more than the burst.
#[derive(Debug, Default)]
pub(crate) struct SpareTokens {
    /// Billionths of a token.
    level: u64,
    /// The time up to which they have decayed.
    at: Duration,
}

impl SpareTokens {
    /// The level, and the time in nanoseconds: what [`SpareTokens::read`] goes on with.
    pub(crate) fn write(&self) -> (u64, u64) {
        (self.level, nanoseconds(self.at))
    }

    pub(crate) fn read(level: u64, at: u64) -> Self {
        Self { level, at: Duration::from_nanos(at) }
    }

    /// Adds tokens that a bucket has lost.
    pub(crate) fn add(&mut self, tokens: u32, qps: u32, burst: u32, now: Duration) {
        self.decay(qps, now);
        let full = u64::from(burst).saturating_mul(TOKEN);
        self.level = self.level.saturating_add(u64::from(tokens).saturating_mul(TOKEN)).min(full);
    }

    /// Takes up to that many tokens; returns how many there were. The burst may have been another one when they were added.
    pub(crate) fn take(&mut self, wanted: u32, qps: u32, burst: u32, now: Duration) -> u32 {
        self.decay(qps, now);
        self.level = self.level.min(u64::from(burst).saturating_mul(TOKEN));
        let taken = u64::from(wanted).min(self.level.checked_div(TOKEN).unwrap_or_default());
        self.level = self.level.saturating_sub(taken.saturating_mul(TOKEN));
        u32::try_from(taken).unwrap_or(u32::MAX)
    }

    fn decay(&mut self, qps: u32, now: Duration) {
        let passed = nanoseconds(now.saturating_sub(self.at));
        self.level = self.level.saturating_sub(passed.saturating_mul(u64::from(qps)));
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_tokens_decay_at_the_rate() {
        let seconds = Duration::from_secs;
        let mut spare = SpareTokens::default();
        spare.add(100, 7, 60, seconds(10));
        let rows = [(10, 20, 20), (12, 10, 10), (12, 100, 16), (12, 1, 0), (100, 1, 0)];
        for (at, wanted, taken) in rows {
            assert_eq!(spare.take(wanted, 7, 60, seconds(at)), taken, "{wanted} at {at} s");
        }
        spare.add(10, 7, 60, seconds(99));
        assert_eq!(spare.take(100, 7, 60, seconds(101)), 3, "time never goes back");
        spare.add(60, 7, 60, seconds(200));
        assert_eq!(spare.take(100, 7, 8, seconds(200)), 8, "of a smaller burst no more");
    }
}
