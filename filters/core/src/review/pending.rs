use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{MAX_WAITERS, RetryBudget, Review, ReviewKey, ReviewPermit};
use crate::refusal::Refusal;

/// Reviews under way: each question once at a time, for all requests that wait for its answer. `W` is how the host reaches a
/// waiting request.
#[derive(Debug)]
pub struct PendingReviews<W>(HashMap<ReviewKey, Flight<W>>);

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
    pub fn join(
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

    /// A review that is under way, and the milliseconds that are left for its answer: at least one, since Envoy takes none for
    /// no bound.
    pub fn get(&self, key: &ReviewKey, uptime: Duration) -> Option<(Arc<Review>, u64)> {
        let flight = self.0.get(key)?;
        Some((Arc::clone(&flight.review), flight.budget.left(uptime).max(1)))
    }

    /// Whether a question that Envoy gave up is to be sent again.
    pub fn should_retry(&mut self, key: &ReviewKey, uptime: Duration) -> bool {
        self.0.get_mut(key).is_some_and(|flight| flight.budget.should_retry(uptime))
    }

    /// Ends a review, which gives its slot back. Returns the requests that wait for its answer.
    pub fn finish(&mut self, key: &ReviewKey) -> Vec<W> {
        self.0.remove(key).map(|flight| flight.waiters).unwrap_or_default()
    }

    /// All that are under way.
    pub fn keys(&self) -> Vec<ReviewKey> {
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
