use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(10);

/// How long to wait before the next try: doubled each time, and then between half and all of it by chance, so that
/// replicas do not come back in step.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// `chance` is any number.
    pub(super) fn next(&mut self, chance: u64) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let half = whole / 2;
        half + half.mul_f64((chance % 1024) as f64 / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_are_spread() {
        for (chance, share) in [(0, 0.5), (512, 0.75), (1024, 0.5)] {
            let mut backoff = Backoff::default();
            let waits: Vec<Duration> = (0..70).map(|_| backoff.next(chance)).collect();
            assert_eq!(waits[0], FIRST.mul_f64(share));
            assert_eq!(waits[1], waits[0] * 2);
            assert_eq!(waits[69], LONGEST.mul_f64(share));
            backoff.reset();
            assert_eq!(backoff.next(chance), waits[0]);
        }
    }
}
