use super::{DEADLINE_MS, Review};
use super::{ReviewKey, ReviewPermit};
use crate::refusal::Refusal;
use portcullis_filter_config::names::TRACEPARENT;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Reviews under way: each question once at a time, for all requests that wait for its answer. `W` is how the host reaches a
/// waiting request.
#[derive(Debug)]
pub(super) struct PendingReviews<W>(HashMap<ReviewKey, Flight<W>>);

#[derive(Debug)]
struct Flight<W> {
    review: Arc<Review>,
    waiters: Vec<W>,
    budget: RetryBudget,
    _permit: ReviewPermit,
}

impl<W> Default for PendingReviews<W> {
    fn default() -> Self {
        PendingReviews(HashMap::new())
    }
}

impl<W> PendingReviews<W> {
    /// Adds a waiting request. True if the question is new and has to be sent. `is_waiting` is false for a request that has
    /// left: its place is given to another one where there is no more room.
    ///
    /// # Errors
    /// A refusal if too many reviews or waiters are under way. The client may retry.
    pub(super) fn join(
        &mut self,
        review: Review,
        waiter: W,
        is_waiting: impl Fn(&W) -> bool,
        uptime: Duration,
    ) -> Result<bool, Refusal> {
        let key = review.key();
        if let Some(flight) = self.0.get_mut(&key) {
            return if flight.join(waiter, is_waiting) { Ok(false) } else { Err(Refusal::too_many_reviews()) };
        }
        let permit = review.permit().ok_or_else(Refusal::too_many_reviews)?;
        let (waiters, budget) = (vec![waiter], RetryBudget::new(uptime));
        self.0.insert(key, Flight { review: Arc::new(review), waiters, budget, _permit: permit });
        Ok(true)
    }

    /// Begins a review that no request waits for. True if the question is new and has to be sent.
    pub(super) fn begin(&mut self, review: Review, uptime: Duration) -> bool {
        let key = review.key();
        if self.0.contains_key(&key) {
            // The answer is one to this question, too, if there is one.
            review.postpone(uptime);
            return false;
        }
        let Some(permit) = review.permit() else {
            review.postpone(uptime);
            return false;
        };
        let (waiters, budget) = (Vec::new(), RetryBudget::new(uptime));
        self.0.insert(key, Flight { review: Arc::new(review), waiters, budget, _permit: permit });
        true
    }

    /// A review that is under way, and the milliseconds that are left for its answer: at least one, since Envoy takes none for
    /// no bound.
    pub(super) fn get(&self, key: &ReviewKey, uptime: Duration) -> Option<(Arc<Review>, u64)> {
        let flight = self.0.get(key)?;
        Some((Arc::clone(&flight.review), flight.budget.left(uptime).max(1)))
    }

    /// Whether a question that Envoy gave up is to be sent again.
    pub(super) fn should_retry(&mut self, key: &ReviewKey, uptime: Duration) -> bool {
        self.0.get_mut(key).is_some_and(|flight| flight.budget.should_retry(uptime))
    }

    /// Ends a review, which gives its slot back. Returns the requests that wait for its answer.
    pub(super) fn finish(&mut self, key: &ReviewKey) -> Vec<W> {
        self.0.remove(key).map(|flight| flight.waiters).unwrap_or_default()
    }

    /// All that are under way.
    pub(super) fn keys(&self) -> Vec<ReviewKey> {
        self.0.keys().copied().collect()
    }
}

impl<W> Flight<W> {
    fn join(&mut self, waiter: W, is_waiting: impl Fn(&W) -> bool) -> bool {
        if self.waiters.len() >= MAX_WAITERS {
            self.waiters.retain(is_waiting);
        }
        let has_room = self.waiters.len() < MAX_WAITERS;
        if has_room {
            self.waiters.push(waiter);
        }
        has_room
    }
}

/// Requests that may wait for the same answer.
const MAX_WAITERS: usize = 512;

/// How often a question that Envoy gave up is put again.
const MAX_RETRIES: u32 = 3;
/// With less time left, milliseconds, it is not.
const SHORTEST_MS: u64 = 100;
/// How long one server may take, milliseconds: within the deadline another one is asked.
const PER_TRY_TIMEOUT_MS: &str = "2400";

/// The time and tries that are left for one question.
#[derive(Clone, Copy, Debug)]
struct RetryBudget {
    since: Duration,
    given_up: u32,
}

impl RetryBudget {
    /// For a question that is put at this time since any fixed point.
    fn new(uptime: Duration) -> Self {
        RetryBudget { since: uptime, given_up: 0 }
    }

    /// Milliseconds that are left for an answer.
    fn left(&self, uptime: Duration) -> u64 {
        let spent = uptime.saturating_sub(self.since).as_millis();
        DEADLINE_MS.saturating_sub(u64::try_from(spent).unwrap_or(u64::MAX))
    }

    /// Whether a question is put again that was given up. Envoy gives a callout up without an answer when its cluster is
    /// replaced, as by a change of the servers' certificates or health check; the question is put to the new one.
    fn should_retry(&mut self, uptime: Duration) -> bool {
        self.given_up = self.given_up.saturating_add(1);
        self.given_up <= MAX_RETRIES && self.left(uptime) >= SHORTEST_MS
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
            ("x-envoy-upstream-rq-per-try-timeout-ms", PER_TRY_TIMEOUT_MS),
        ];
        headers.extend(self.user_header());
        headers.extend(self.traceparent.as_deref().map(|parent| (TRACEPARENT, parent)));
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_is_put_again_a_few_times_within_its_deadline() {
        let at = |ms| Duration::from_millis(ms);
        let mut budget = RetryBudget::new(at(1_000));
        assert_eq!([1_000, 1_500, 6_000, 9_000, 0].map(|ms| budget.left(at(ms))), [5_000, 4_500, 0, 0, 5_000]);
        assert_eq!([(); 4].map(|()| budget.should_retry(at(1_500))), [true, true, true, false]);
        assert!(!RetryBudget::new(at(0)).should_retry(at(4_950)), "too little time is left");
    }
}
