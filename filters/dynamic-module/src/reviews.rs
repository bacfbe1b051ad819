//! Carries reviews to the upstream, by [`ReviewQueue`]. Streams ask on their workers; callouts run on Envoy's main thread and
//! outlive the stream that asked first. No lock is held while Envoy is called, because Envoy may answer before the call returns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use envoy_abi::http::{CalloutId, CalloutResponse, ConfigScheduler, MainThread, StreamScheduler};
use portcullis_core::review::{
    AwaitedAnswers, CalloutResult, Review, ReviewAnswers, ReviewKey, ReviewQueue, ReviewResult,
};
use portcullis_core::{Refusal, fault};

use crate::memory::uptime;

/// Reviews that are under way for one filter configuration.
#[derive(Debug)]
pub(crate) struct ReviewCallouts {
    main: ConfigScheduler,
    via: String,
    queue: Mutex<ReviewQueue<Weak<Pending>, CalloutId>>,
}

/// A stream that waits for answers.
#[derive(Debug)]
pub(crate) struct Pending {
    stream: StreamScheduler,
    answers: Mutex<AwaitedAnswers>,
}

impl Pending {
    /// A stream that waits for `missing` answers.
    pub(crate) fn new(stream: StreamScheduler, missing: usize) -> Arc<Self> {
        Arc::new(Pending { stream, answers: Mutex::new(AwaitedAnswers::new(missing)) })
    }

    /// The answers, once all are there.
    pub(crate) fn take_answers(&self) -> Option<ReviewAnswers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn settle(&self, key: ReviewKey, result: ReviewResult) {
        if self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(key, result) {
            self.stream.wake();
        }
    }
}

impl ReviewCallouts {
    /// None under way. `via` goes into every question, so that a gateway recognises its own.
    pub(crate) fn new(main: ConfigScheduler, via: String) -> Self {
        ReviewCallouts { main, via, queue: Mutex::default() }
    }

    /// Has the questions answered for a waiting stream, for as long as it keeps `pending`.
    ///
    /// # Errors
    /// A refusal where too many reviews or waiters are under way; the stream is then never woken.
    pub(crate) fn ask(&self, reviews: Vec<Review>, pending: &Arc<Pending>) -> Result<(), Refusal> {
        let is_waiting = |waiter: &Weak<Pending>| waiter.strong_count() > 0;
        let (waiter, now) = (Arc::downgrade(pending), uptime(Instant::now()));
        self.lock().ask(reviews, &waiter, is_waiting, now, || self.main.wake())
    }

    /// Sends what was asked for.
    pub(crate) fn send(&self, main: &mut MainThread) {
        let (mut unsent, retries) = {
            let mut queue = self.lock();
            (queue.take_unsent(), queue.take_retries())
        };
        unsent.extend(retries);
        let unsent: Vec<_> = unsent.into_iter().map(|key| Unsent { reviews: self, key: Some(key) }).collect();
        for question in unsent {
            let found = question.key.and_then(|key| self.lock().get(&key, uptime(Instant::now())));
            let Some((review, left)) = found else { continue };
            fault::strike_once("send");
            let (headers, body) = (review.headers(&self.via), review.body().as_bytes());
            // Envoy responds within the call where it cannot connect.
            self.lock().sending();
            match main.callout(review.cluster(), &headers, body, left) {
                Some(id) => question.sent(id),
                None => self.lock().not_sent(),
            }
        }
    }

    /// Takes the response to a callout.
    pub(crate) fn done(&self, id: CalloutId, response: &CalloutResponse<'_>) {
        let result = match response.is_given_up {
            true => CalloutResult::given_up(),
            false => CalloutResult::from_chunks(response.status, &response.chunks),
        };
        let key = self.lock().response(id, &result);
        if let Some(key) = key {
            self.answered(&key, &result);
            self.lock().forget(id);
        }
    }

    fn answered(&self, key: &ReviewKey, result: &CalloutResult) {
        let should_retry = self.lock().should_retry(key, result, uptime(Instant::now()));
        if should_retry {
            self.main.wake();
        } else {
            self.finish(key, result);
        }
    }

    fn finish(&self, key: &ReviewKey, result: &CalloutResult) {
        let now = uptime(Instant::now());
        let Some((review, _)) = self.lock().get(key, now) else { return };
        fault::strike_once("callout");
        let result = result.settle(&review, now);
        let waiters = self.lock().finish(key);
        for waiter in waiters.iter().filter_map(Weak::upgrade) {
            waiter.settle(*key, result.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReviewQueue<Weak<Pending>, CalloutId>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that was taken out of the queue. Dropped before it was sent, because Envoy cannot ask or a panic came between, it
/// has no answer: the streams that wait for it must not wait for ever.
struct Unsent<'a> {
    reviews: &'a ReviewCallouts,
    key: Option<ReviewKey>,
}

impl Unsent<'_> {
    fn sent(mut self, id: CalloutId) {
        let Some(key) = self.key.take() else { return };
        let early = self.reviews.lock().sent(key, id);
        if let Some(result) = early {
            self.reviews.answered(&key, &result);
        }
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.reviews.finish(&key, &CalloutResult::unsent());
        }
    }
}
