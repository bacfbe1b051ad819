use std::time::Duration;

use tokio::time::Instant;

/// The least time between two reads in the long run, so that many objects are read less often: 500 each 25 seconds.
pub(super) const PACE: Duration = Duration::from_millis(50);
/// The time for which reads may be ahead: 100 reads at once.
const AHEAD: Duration = Duration::from_secs(5);

/// Bounds the reads of all objects, however often authors of Gateways name others.
#[derive(Debug)]
pub(super) struct ReadPace {
    /// The time at which no read is ahead any more.
    even_at: Instant,
}

impl ReadPace {
    pub(super) fn new(now: Instant) -> Self {
        ReadPace { even_at: now }
    }

    /// Whether an object may be read now; counts the read if so.
    pub(super) fn allows(&mut self, now: Instant) -> bool {
        let even_at = self.even_at.max(now) + PACE;
        let is_allowed = even_at.saturating_duration_since(now) <= AHEAD;
        if is_allowed {
            self.even_at = even_at;
        }
        is_allowed
    }

    /// The time from which on a read is allowed; it may have passed.
    pub(super) fn next(&self) -> Instant {
        (self.even_at + PACE).checked_sub(AHEAD).unwrap_or(self.even_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_bounded_in_the_long_run() {
        let start = Instant::now();
        let mut pace = ReadPace::new(start);
        assert_eq!((0..1000).filter(|_| pace.allows(start)).count(), 100);
        assert_eq!(pace.next(), start + PACE);
        assert!(!pace.allows(start) && pace.allows(start + PACE) && !pace.allows(start + PACE));
        let later = start + Duration::from_secs(10);
        assert_eq!((0..1000).filter(|_| pace.allows(later)).count(), 100);
    }
}
