//! Carries reviews to the upstream: each question once at a time, for all streams that wait for its answer.
//!
//! Streams ask on their workers; callouts run on Envoy's main thread and outlive the stream that asked first. No lock is held
//! while Envoy is called, because Envoy may answer before the call returns.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use envoy_abi::http::{CalloutId, CalloutResponse, ConfigScheduler, MainThread, StreamScheduler};
use portcullis_core::Refusal;
use portcullis_core::review::{MAX_ANSWER, PendingReviews, Review, ReviewAnswers, ReviewKey, ReviewResult};

use crate::fault;
use crate::memory::uptime;

/// Reviews that are under way for one filter configuration.
#[derive(Debug)]
pub(crate) struct Reviews {
    main: ConfigScheduler,
    via: String,
    inner: Mutex<PendingState>,
}

#[derive(Debug, Default)]
struct PendingState {
    flights: PendingReviews<Weak<Pending>>,
    /// Asked for, not yet sent.
    outbox: Vec<ReviewKey>,
    callouts: HashMap<CalloutId, ReviewKey>,
    /// Answers that came before their callout's id was known.
    early: HashMap<CalloutId, CalloutResult>,
}

/// A stream that waits for answers.
#[derive(Debug)]
pub(crate) struct Pending {
    stream: StreamScheduler,
    missing: AtomicUsize,
    settled: Mutex<ReviewAnswers>,
}

impl Pending {
    /// A stream that waits for `missing` answers.
    pub(crate) fn new(stream: StreamScheduler, missing: usize) -> Arc<Self> {
        Arc::new(Pending { stream, missing: AtomicUsize::new(missing), settled: Mutex::default() })
    }

    /// The answers, once all are there.
    pub(crate) fn take_answers(&self) -> Option<ReviewAnswers> {
        let is_complete = self.missing.load(Ordering::Acquire) == 0;
        is_complete.then(|| std::mem::take(&mut *self.settled.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn settle(&self, key: ReviewKey, result: ReviewResult) {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).push(key, result);
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.stream.wake();
        }
    }
}

impl Reviews {
    /// None under way. `via` goes into every question, so that a gateway recognises its own.
    pub(crate) fn new(main: ConfigScheduler, via: String) -> Self {
        Reviews { main, via, inner: Mutex::default() }
    }

    /// Has the questions answered for a waiting stream, for as long as it keeps `pending`.
    ///
    /// # Errors
    /// A refusal where too many reviews or waiters are under way; the stream is then never woken.
    pub(crate) fn ask(&self, reviews: Vec<Review>, pending: &Arc<Pending>) -> Result<(), Refusal> {
        let mut inner = self.lock();
        let mut is_first = true;
        let is_waiting = |waiter: &Weak<Pending>| waiter.strong_count() > 0;
        for review in reviews {
            let key = review.key();
            if inner.flights.join(review, Arc::downgrade(pending), is_waiting, uptime(Instant::now()))? {
                inner.outbox.push(key);
                // Before a later question can fail: the outbox is sent in any case.
                if std::mem::take(&mut is_first) {
                    self.main.wake();
                }
            }
        }
        Ok(())
    }

    /// Sends what was asked for.
    pub(crate) fn send(&self, main: &mut MainThread) {
        let outbox = std::mem::take(&mut self.lock().outbox);
        let outbox: Vec<_> = outbox.into_iter().map(|key| Unsent { reviews: self, key: Some(key) }).collect();
        for question in outbox {
            let now = uptime(Instant::now());
            let flight = question.key.and_then(|key| self.lock().flights.get(&key, now));
            let Some((review, left)) = flight else { continue };
            fault::strike_once("send");
            if let Some(id) = main.callout(review.cluster(), &review.headers(&self.via), review.body().as_bytes(), left)
            {
                question.sent(id);
            }
        }
    }

    fn register(&self, id: CalloutId, key: ReviewKey) {
        let early = {
            let mut inner = self.lock();
            let early = inner.early.remove(&id);
            if early.is_none() {
                inner.callouts.insert(id, key);
            }
            early
        };
        if let Some(answer) = early {
            self.answered(&key, &answer);
        }
    }

    /// Takes an answer.
    pub(crate) fn done(&self, id: CalloutId, response: &CalloutResponse<'_>) {
        let answer = CalloutResult::of(response);
        let key = {
            let mut inner = self.lock();
            let Some(key) = inner.callouts.get(&id).copied() else {
                inner.early.insert(id, answer);
                return;
            };
            key
        };
        self.answered(&key, &answer);
        // Known until here: after a panic it is asked about once more, without an answer.
        self.lock().callouts.remove(&id);
    }

    fn answered(&self, key: &ReviewKey, answer: &CalloutResult) {
        if !answer.is_given_up || !self.ask_again(key) {
            self.finish(key, answer.status, &answer.body);
        }
    }

    fn ask_again(&self, key: &ReviewKey) -> bool {
        let mut inner = self.lock();
        if !inner.flights.should_retry(key, uptime(Instant::now())) {
            return false;
        }
        inner.outbox.push(*key);
        drop(inner);
        // Not at once: Envoy may be about to replace the cluster.
        self.main.wake();
        true
    }

    fn finish(&self, key: &ReviewKey, status: u16, body: &[u8]) {
        let now = uptime(Instant::now());
        let Some((review, _)) = self.lock().flights.get(key, now) else { return };
        fault::strike_once("callout");
        let result = review.settle(status, body, now);
        let waiters = self.lock().flights.finish(key);
        for waiter in waiters.iter().filter_map(Weak::upgrade) {
            waiter.settle(*key, result.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that was taken out of the outbox. Dropped before it was sent, because Envoy cannot ask or a panic came between, it
/// has no answer: the streams that wait for it must not wait for ever.
struct Unsent<'a> {
    reviews: &'a Reviews,
    key: Option<ReviewKey>,
}

impl Unsent<'_> {
    fn sent(mut self, id: CalloutId) {
        if let Some(key) = self.key.take() {
            self.reviews.register(id, key);
        }
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.reviews.finish(&key, 0, &[]);
        }
    }
}

/// The result of a callout.
#[derive(Debug)]
struct CalloutResult {
    status: u16,
    body: Vec<u8>,
    is_given_up: bool,
}

impl CalloutResult {
    /// A body that is too long is not worth a copy: none is as good.
    fn of(response: &CalloutResponse<'_>) -> Self {
        let length = response.chunks.iter().fold(0usize, |sum, chunk| sum.saturating_add(chunk.len()));
        let body = if length > MAX_ANSWER { Vec::new() } else { response.chunks.concat() };
        CalloutResult { status: response.status, body, is_given_up: response.is_given_up }
    }
}
