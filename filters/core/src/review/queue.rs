use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::pending::PendingReviews;
use super::{MAX_ANSWER, Review, ReviewAnswers, ReviewKey, ReviewResult};
use crate::refusal::Refusal;

/// The reviews of a filter configuration and their callouts: each question once at a time, for all requests that wait for its
/// answer. `W` is how the host reaches a waiting request, `C` names a callout.
///
/// The host sends what [`ReviewQueue::take_unsent`] and [`ReviewQueue::take_retries`] return, and reports every callout and every
/// response. A lock around the queue is held for one method at a time: a proxy may respond before its call has returned.
#[derive(Debug)]
pub struct ReviewQueue<W, C> {
    pending: PendingReviews<W>,
    unsent: Vec<ReviewKey>,
    /// Questions that the proxy gave up.
    retries: Vec<ReviewKey>,
    callouts: HashMap<C, ReviewKey>,
    early: Early<C>,
}

/// The response to a callout that the proxy has not returned from yet: some proxies respond within the call.
#[derive(Debug)]
enum Early<C> {
    /// No call is being made, and a response to an unknown callout is to none of ours.
    NotSending,
    /// None has come.
    Sending,
    /// The last one that came. A callout has one response.
    Came(C, CalloutResult),
}

/// The response to a callout.
#[derive(Clone, Debug)]
pub struct CalloutResult {
    status: u16,
    body: Vec<u8>,
    is_given_up: bool,
}

impl CalloutResult {
    /// A response that came, in chunks. A body that is too long is not worth a copy: none is as good.
    pub fn from_chunks(status: u16, chunks: &[&[u8]]) -> Self {
        let length = chunks.iter().fold(0usize, |sum, chunk| sum.saturating_add(chunk.len()));
        let body = if length > MAX_ANSWER { Vec::new() } else { chunks.concat() };
        CalloutResult { status, body, is_given_up: false }
    }

    /// A response that came in chunks, unless the proxy gave the callout up.
    pub fn from_response(is_given_up: bool, status: u16, chunks: &[&[u8]]) -> Self {
        if is_given_up { Self::given_up() } else { Self::from_chunks(status, chunks) }
    }

    /// The proxy could not send the question.
    pub fn unsent() -> Self {
        CalloutResult { status: 0, body: Vec::new(), is_given_up: false }
    }

    /// The proxy gave the callout up without a response, as it does where it replaces the cluster.
    pub fn given_up() -> Self {
        CalloutResult { is_given_up: true, ..Self::unsent() }
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Reads the answer and keeps it in the caches of the review.
    pub fn accept_answer(&self, review: &Review, uptime: Duration) -> ReviewResult {
        review.accept_answer(self.status, &self.body, uptime)
    }
}

impl<W, C> Default for ReviewQueue<W, C> {
    fn default() -> Self {
        ReviewQueue {
            pending: PendingReviews::default(),
            unsent: Vec::new(),
            retries: Vec::new(),
            callouts: HashMap::new(),
            early: Early::NotSending,
        }
    }
}

impl<W: Clone, C: Copy + Eq + Hash> ReviewQueue<W, C> {
    /// Has a waiting request wait for answers. `is_waiting` is false for a request that has left; `on_new` is called once if any
    /// question is new, also where a later one is refused.
    ///
    /// # Errors
    /// A refusal if too many reviews or waiters are under way; the request may then get answers all the same.
    pub fn ask(
        &mut self,
        reviews: Vec<Review>,
        waiter: &W,
        is_waiting: impl Fn(&W) -> bool,
        uptime: Duration,
        on_new: impl FnOnce(),
    ) -> Result<(), Refusal> {
        let mut on_new = Some(on_new);
        for review in reviews {
            let key = review.key();
            if self.pending.join(review, waiter.clone(), &is_waiting, uptime)? {
                self.unsent.push(key);
                if let Some(on_new) = on_new.take() {
                    on_new();
                }
            }
        }
        Ok(())
    }

    /// Has a question answered for which no request waits, if there is a slot. True if it is new.
    pub fn ask_aside(&mut self, review: Review, uptime: Duration) -> bool {
        let key = review.key();
        let is_new = self.pending.begin(review, uptime);
        if is_new {
            self.unsent.push(key);
        }
        is_new
    }

    /// New questions, to be sent.
    pub fn take_unsent(&mut self) -> Vec<ReviewKey> {
        std::mem::take(&mut self.unsent)
    }

    /// Questions that the proxy gave up, to be sent again a moment later: it may be about to replace the cluster.
    pub fn take_retries(&mut self) -> Vec<ReviewKey> {
        std::mem::take(&mut self.retries)
    }

    /// Whether a question is to be sent again.
    pub fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// A review under way, and the milliseconds that are left for its answer.
    pub fn get(&self, key: &ReviewKey, uptime: Duration) -> Option<(Arc<Review>, u64)> {
        self.pending.get(key, uptime)
    }

    /// A call to the proxy begins that may respond before it has returned. [`ReviewQueue::sent`] or [`ReviewQueue::not_sent`]
    /// follows. Not for a proxy that never does.
    pub fn sending(&mut self) {
        self.early = Early::Sending;
    }

    /// The call has made no callout.
    pub fn not_sent(&mut self) {
        self.early = Early::NotSending;
    }

    /// Registers the callout of a question. Returns its response if that came within the call.
    pub fn sent(&mut self, key: ReviewKey, callout: C) -> Option<CalloutResult> {
        match std::mem::replace(&mut self.early, Early::NotSending) {
            Early::Came(one, result) if one == callout => Some(result),
            _ => {
                self.callouts.insert(callout, key);
                None
            }
        }
    }

    /// The question of a callout that was responded to. `None` if the callout is not registered: [`ReviewQueue::sent`] returns the
    /// response if a call is being made, and else it is forgotten.
    pub fn response(&mut self, callout: C, result: &CalloutResult) -> Option<ReviewKey> {
        let key = self.callouts.get(&callout).copied();
        if key.is_none() && !matches!(self.early, Early::NotSending) {
            self.early = Early::Came(callout, result.clone());
        }
        key
    }

    /// Forgets a callout. Called after its response was worked on: a panic meanwhile does not lose the question.
    pub fn forget(&mut self, callout: C) {
        self.callouts.remove(&callout);
    }

    /// Whether a question is sent again after this response; then it is one of [`ReviewQueue::take_retries`].
    pub fn should_retry(&mut self, key: &ReviewKey, result: &CalloutResult, uptime: Duration) -> bool {
        let should_retry = result.is_given_up && self.pending.should_retry(key, uptime);
        if should_retry {
            self.retries.push(*key);
        }
        should_retry
    }

    /// Ends a review with this response to it. `None` if there is no such review.
    pub fn end(&mut self, key: &ReviewKey, result: &CalloutResult, uptime: Duration) -> Option<ReviewOutcome<W>> {
        let (review, _) = self.get(key, uptime)?;
        let result = result.accept_answer(&review, uptime);
        Some(ReviewOutcome { key: *key, result, waiters: self.finish(key) })
    }

    /// Ends all reviews without an answer.
    pub fn give_up(&mut self, uptime: Duration) -> Vec<ReviewOutcome<W>> {
        self.keys().iter().filter_map(|key| self.end(key, &CalloutResult::unsent(), uptime)).collect()
    }

    /// Ends a review. Returns the requests that wait for its answer.
    pub(super) fn finish(&mut self, key: &ReviewKey) -> Vec<W> {
        self.pending.finish(key)
    }

    fn keys(&self) -> Vec<ReviewKey> {
        self.pending.keys()
    }
}

/// An answer, and the requests that wait for it.
#[derive(Clone, Debug)]
pub struct ReviewOutcome<W> {
    /// The question.
    pub key: ReviewKey,
    /// Its answer.
    pub result: ReviewResult,
    /// Those that wait for it.
    pub waiters: Vec<W>,
}

/// Answers that one request waits for.
#[derive(Debug)]
pub struct AwaitedAnswers {
    answers: ReviewAnswers,
    missing: usize,
}

impl AwaitedAnswers {
    /// Waits for that many answers.
    pub fn new(missing: usize) -> Self {
        AwaitedAnswers { answers: ReviewAnswers::default(), missing }
    }

    /// Adds an answer. True if it was the last one.
    pub fn push(&mut self, key: ReviewKey, result: ReviewResult) -> bool {
        self.answers.push(key, result);
        self.missing = self.missing.saturating_sub(1);
        self.missing == 0
    }

    /// The answers, once all have come.
    pub fn take(&mut self) -> Option<ReviewAnswers> {
        (self.missing == 0).then(|| std::mem::take(&mut self.answers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::review::{CredentialCaches, Lifetimes, Store};
    use crate::testing::reviewer;

    const NOW: Duration = Duration::ZERO;

    fn review(token: &[u8]) -> Review {
        let caches = Arc::new(CredentialCaches::new(&[7; 32], Lifetimes::default(), &Store::default()));
        Review::of_token(token, &reviewer(), &caches)
    }

    fn ask(queue: &mut ReviewQueue<u8, u32>, token: &[u8], waiter: u8) -> bool {
        let mut is_new = false;
        queue.ask(vec![review(token)], &waiter, |_| true, NOW, || is_new = true).unwrap();
        is_new
    }

    #[test]
    fn equal_questions_are_sent_once_for_all_that_wait() {
        let mut queue = ReviewQueue::default();
        assert_eq!([ask(&mut queue, b"a", 1), ask(&mut queue, b"a", 2), ask(&mut queue, b"b", 3)], [true, false, true]);
        let keys = queue.take_unsent();
        assert_eq!((keys.len(), queue.take_unsent().len()), (2, 0));
        assert!(queue.sent(keys[0], 5).is_none());
        let response = CalloutResult::from_chunks(503, &[b"{", b"}"]);
        assert_eq!((response.body(), queue.response(5, &response)), (&b"{}"[..], Some(keys[0])));
        assert!(!queue.should_retry(&keys[0], &response, NOW));
        let (review, _) = queue.get(&keys[0], NOW).unwrap();
        assert_eq!(response.accept_answer(&review, NOW), ReviewResult::Failed);
        assert_eq!((queue.finish(&keys[0]), queue.keys()), (vec![1, 2], vec![keys[1]]));
    }

    #[test]
    fn early_response_is_returned_where_its_callout_is_registered() {
        let mut queue = ReviewQueue::default();
        ask(&mut queue, b"a", 1);
        let key = queue.take_unsent()[0];
        queue.sending();
        assert_eq!(queue.response(5, &CalloutResult::from_chunks(201, &[b"early"])), None);
        assert_eq!(queue.sent(key, 5).unwrap().body(), b"early");
        assert!(queue.sent(key, 6).is_none());
        assert_eq!(queue.response(6, &CalloutResult::unsent()), Some(key));
        assert_eq!(queue.response(6, &CalloutResult::unsent()), Some(key), "known until it is forgotten");
        queue.forget(6);
        assert_eq!(queue.response(6, &CalloutResult::unsent()), None);
    }

    /// An id may come again, and what was said under it before is no answer.
    #[test]
    fn response_to_an_unknown_callout_answers_no_later_one() {
        let mut queue = ReviewQueue::default();
        ask(&mut queue, b"a", 1);
        let key = queue.take_unsent()[0];
        for id in 0..1_000 {
            assert_eq!(queue.response(id, &CalloutResult::from_chunks(201, &[b"stray"])), None);
        }
        assert!(matches!(queue.early, Early::NotSending), "nothing is kept");
        assert!(queue.sent(key, 7).is_none());
        queue.sending();
        assert_eq!(queue.response(8, &CalloutResult::from_chunks(201, &[b"stray"])), None);
        queue.not_sent();
        queue.sending();
        assert!(queue.sent(key, 8).is_none());
        queue.sending();
        assert_eq!(queue.response(9, &CalloutResult::from_chunks(201, &[b"stray"])), None);
        assert!(queue.sent(key, 10).is_none() && queue.sent(key, 9).is_none());
    }

    #[test]
    fn question_that_was_given_up_is_sent_again_within_its_budget() {
        let mut queue = ReviewQueue::default();
        ask(&mut queue, b"a", 1);
        let key = queue.take_unsent()[0];
        let given_up = CalloutResult::given_up();
        let mut retry = || queue.should_retry(&key, &given_up, NOW);
        assert_eq!([(); 4].map(|()| retry()), [true, true, true, false]);
        assert!(queue.has_retries() && queue.take_unsent().is_empty());
        assert_eq!(queue.take_retries().first(), Some(&key));
        assert!(!queue.has_retries());
    }

    #[test]
    fn answers_are_taken_once_all_have_come() {
        let mut awaited = AwaitedAnswers::new(2);
        assert!(!awaited.push([1; 32], ReviewResult::Allowed) && awaited.take().is_none());
        assert!(awaited.push([2; 32], ReviewResult::Denied));
        let answers = awaited.take().unwrap();
        assert_eq!(
            (answers.get(&[1; 32]), answers.get(&[2; 32])),
            (Some(ReviewResult::Allowed), Some(ReviewResult::Denied))
        );
    }

    #[test]
    fn response_that_is_too_long_has_no_body() {
        let chunk = vec![b' '; MAX_ANSWER];
        assert_eq!(CalloutResult::from_chunks(201, &[&chunk]).body().len(), MAX_ANSWER);
        assert!(CalloutResult::from_chunks(201, &[&chunk, b" "]).body().is_empty());
    }
}
