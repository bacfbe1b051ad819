//! The store's clock, as a control plane follows it from connection to connection.

use std::time::{Duration, Instant};

/// Part of the time that passes by which two clocks may differ without a step, as gateways' clocks may.
const DRIFT: u32 = 50;
/// The time between two lines of the log about a clock that is set.
const QUIET: Duration = Duration::from_secs(60);
/// The store counts whole microseconds.
const ROUNDING: Duration = Duration::from_micros(2);

/// One reading of the store's clock, and when it was asked for and had.
#[derive(Clone, Copy, Debug)]
struct Reading {
    asked: Instant,
    had: Instant,
    time: Duration,
}

impl Reading {
    /// Whether the store's clock was set between an earlier reading and this one: it then says that leases have ended that have not, or
    /// that none ends for a long time.
    fn stepped_since(&self, earlier: &Reading) -> bool {
        let most = self.had.saturating_duration_since(earlier.asked);
        let least = self.asked.saturating_duration_since(earlier.had);
        let forward = self.time.checked_sub(earlier.time);
        let in_bounds =
            |passed: Duration| passed <= most + most / DRIFT + ROUNDING && passed + ROUNDING >= least - least / DRIFT;
        !forward.is_some_and(in_bounds)
    }
}

/// The clock of the server that was asked last.
#[derive(Debug, Default)]
pub(crate) struct StoreClock {
    /// The process of the server.
    run_id: Option<String>,
    /// Whether it was another one before, and does not know it yet.
    comes_from_another: bool,
    last: Option<Reading>,
    logged: Option<Instant>,
}

impl StoreClock {
    /// Begins with a server. Returns whether another one was asked before, until [`StoreClock::has_entered`].
    pub(crate) fn enter(&mut self, run_id: &str) -> bool {
        if self.run_id.as_deref() != Some(run_id) {
            self.last = None;
            self.comes_from_another |= self.run_id.replace(run_id.to_owned()).is_some();
        }
        self.comes_from_another
    }

    /// Notes that the server knows it.
    pub(crate) fn has_entered(&mut self) {
        self.comes_from_another = false;
    }

    /// Takes a reading. Returns whether the clock was set since the one before.
    pub(crate) fn has_stepped(&mut self, asked: Instant, had: Instant, time: Duration) -> bool {
        let reading = Reading { asked, had, time };
        let has_stepped = self.last.replace(reading).is_some_and(|last| reading.stepped_since(&last));
        let is_quiet = self.logged.is_some_and(|logged| had.saturating_duration_since(logged) < QUIET);
        if has_stepped && !is_quiet {
            self.logged = Some(had);
            tracing::warn!("the clock of the store of limits was set; for three seconds gateways keep what they have");
        }
        has_stepped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_was_set_is_noticed() {
        let start = Instant::now();
        let reading = |asked: u64, had: u64, time: u64| Reading {
            asked: start + Duration::from_millis(asked),
            had: start + Duration::from_millis(had),
            time: Duration::from_millis(1_800_000_000_000 + time),
        };
        let first = reading(1_000, 1_100, 0);
        let rows = [
            (2_000, 2_100, 1_000, false, "in the middle"),
            (2_000, 2_100, 900, false, "answered late, then at once"),
            (2_000, 2_100, 1_100, false, "the other way round"),
            (2_000, 2_100, 1_121, false, "a clock that is two percent fast"),
            (2_000, 2_100, 1_130, true, "set forward by little"),
            (2_000, 2_100, 860, true, "set back by little"),
            (2_000, 2_100, 3_600_000, true, "set forward"),
            (11_100, 11_200, 9_850, false, "a clock that is two percent slow"),
            (11_100, 11_200, 9_700, true, "slower"),
        ];
        for (asked, had, time, stepped, what) in rows {
            assert_eq!(reading(asked, had, time).stepped_since(&first), stepped, "{what}");
        }
        let back = Reading { time: first.time - Duration::from_secs(1), ..reading(2_000, 2_100, 0) };
        assert!(back.stepped_since(&first));
    }

    #[test]
    fn clock_is_followed_from_connection_to_connection() {
        let (start, mut clock) = (Instant::now(), StoreClock::default());
        let second = Duration::from_secs(1);
        assert!(!clock.enter("a"), "the first one");
        assert!(!clock.has_stepped(start, start, second * 100));
        assert!(!clock.enter("a"), "the same one");
        assert!(clock.has_stepped(start + second, start + second, second * 90), "set while there was no connection");
        assert!(clock.enter("b") && clock.enter("b"), "it may not have come to know");
        clock.has_entered();
        assert!(!clock.enter("b"));
        assert!(!clock.has_stepped(start + second, start + second, second * 50), "another server's clock");
        assert!(clock.enter("a"), "the first one again");
    }
}
