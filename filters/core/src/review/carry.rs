//! How a question is carried, whichever host does it.

use std::time::Duration;

use super::{DEADLINE_MS, Review};

/// Requests that may wait for the same answer.
pub(super) const WAITERS: usize = 512;

/// How often a question that Envoy gave up is put again.
const GIVEN_UP: u32 = 3;
/// With less time left, milliseconds, it is not.
const SHORTEST_MS: u64 = 100;
/// How long one server may take, milliseconds: within the deadline another one is asked.
const TRY_MS: &str = "2400";

/// What there is of time and tries for one question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    since: Duration,
    given_up: u32,
}

impl Patience {
    /// For a question that is put at this time since any fixed point.
    pub(super) fn new(uptime: Duration) -> Self {
        Patience { since: uptime, given_up: 0 }
    }

    /// Milliseconds that are left for an answer.
    pub(super) fn left(&self, uptime: Duration) -> u64 {
        let spent = uptime.saturating_sub(self.since).as_millis();
        DEADLINE_MS.saturating_sub(u64::try_from(spent).unwrap_or(u64::MAX))
    }

    /// Whether a question is put again that was given up. Envoy gives a callout up without an answer when its cluster is
    /// replaced, as by a change of the servers' certificates or health check; the question is put to the new one.
    pub(super) fn asks_again(&mut self, uptime: Duration) -> bool {
        self.given_up = self.given_up.saturating_add(1);
        self.given_up <= GIVEN_UP && self.left(uptime) >= SHORTEST_MS
    }
}

impl Review {
    /// The question's headers. `via` is the gateway's, so that it recognises its own.
    pub fn headers<'a>(&'a self, via: &'a str) -> Vec<(&'a str, &'a str)> {
        let mut headers = vec![
            (":method", "POST"),
            (":path", self.path),
            (":authority", "kubernetes.default.svc"),
            ("content-type", "application/json"),
            ("accept", "application/json"),
            ("user-agent", "portcullis"),
            ("via", via),
            // A question changes nothing, so others are asked where a server fails, within the same deadline. Envoy's router
            // reads these and takes them out.
            ("x-envoy-retry-on", "5xx,retriable-status-codes"),
            ("x-envoy-retriable-status-codes", "429"),
            ("x-envoy-max-retries", "2"),
            ("x-envoy-upstream-rq-per-try-timeout-ms", TRY_MS),
        ];
        headers.extend(self.user_header());
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_put_again_a_few_times_within_its_deadline() {
        let at = |ms| Duration::from_millis(ms);
        let mut patience = Patience::new(at(1_000));
        assert_eq!([1_000, 1_500, 6_000, 9_000, 0].map(|ms| patience.left(at(ms))), [5_000, 4_500, 0, 0, 5_000]);
        assert_eq!([(); 4].map(|()| patience.asks_again(at(1_500))), [true, true, true, false]);
        assert!(!Patience::new(at(0)).asks_again(at(4_950)), "too little time is left");
    }
}
