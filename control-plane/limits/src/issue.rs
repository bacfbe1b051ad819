//! Tokens of a rate that is counted: one bucket for all gateways, from which each takes some ahead.

use std::time::Duration;

use crate::message::nanoseconds;

/// A token. In billionths of one a rate per second is a whole number per nanosecond, so that nothing is rounded.
pub(crate) const TOKEN: u64 = 1_000_000_000;

/// The bucket. Empty at first: after a restart nothing is issued a second time.
#[derive(Debug)]
pub(crate) struct Issue {
    /// Billionths of a token.
    level: u64,
    /// The time up to which it is refilled.
    at: Duration,
}

impl Issue {
    pub(crate) fn new(now: Duration) -> Self {
        Self { level: 0, at: now }
    }

    /// The level, and the time in nanoseconds: what [`Issue::read`] goes on with.
    pub(crate) fn write(&self) -> (u64, u64) {
        (self.level, nanoseconds(self.at))
    }

    pub(crate) fn read(level: u64, at: u64) -> Self {
        Self { level, at: Duration::from_nanos(at) }
    }

    /// The tokens that there are.
    pub(crate) fn available(&self, qps: u32, burst: u32, now: Duration) -> u32 {
        let tokens = self.refilled(qps, burst, now).checked_div(TOKEN).unwrap_or_default();
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Takes up to that many tokens; returns how many there were.
    pub(crate) fn take(&mut self, wanted: u32, qps: u32, burst: u32, now: Duration) -> u32 {
        self.level = self.refilled(qps, burst, now);
        self.at = self.at.max(now);
        let taken = u64::from(wanted).min(self.level.checked_div(TOKEN).unwrap_or_default());
        self.level = self.level.saturating_sub(taken.saturating_mul(TOKEN));
        u32::try_from(taken).unwrap_or(u32::MAX)
    }

    fn refilled(&self, qps: u32, burst: u32, now: Duration) -> u64 {
        let nanoseconds = u64::try_from(now.saturating_sub(self.at).as_nanos()).unwrap_or(u64::MAX);
        let full = u64::from(burst).saturating_mul(TOKEN);
        self.level.saturating_add(nanoseconds.saturating_mul(u64::from(qps))).min(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_is_burst_and_rate_exactly() {
        let seconds = Duration::from_secs;
        let mut issue = Issue::new(seconds(10));
        let rows =
            [(10, 5, 0), (11, 5, 3), (11, 5, 0), (12, 2, 2), (13, 9, 4), (1_000, 100, 7), (1_000, 1, 0), (999, 1, 0)];
        for (at, wanted, taken) in rows {
            assert_eq!(issue.available(3, 7, seconds(at)).min(wanted), taken, "{wanted} at {at} s");
            assert_eq!(issue.take(wanted, 3, 7, seconds(at)), taken, "{wanted} at {at} s");
        }
        let mut issue = Issue::new(seconds(0));
        let sum: u32 = (1..=1_000).map(|step| issue.take(u32::MAX, 7, 9, Duration::from_millis(step * 13))).sum();
        assert_eq!(sum, 91, "7 a second in 13 s, whatever the steps");
    }
}
