use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::queue::{AwaitedAnswers, CalloutResult, ReviewQueue};
use super::{Review, ReviewAnswers, ReviewKey, ReviewResult};
use crate::fault;
use crate::refusal::Refusal;
use crate::schedule::Wake;

/// The reviews of a filter configuration where workers share memory, by [`ReviewQueue`]. Streams ask on their workers and are
/// woken by `W`; callouts, named by `C`, run on the main thread, which `M` wakes, and outlive the stream that asked first.
///
/// No lock is held while the proxy is called: it may respond before the call returns.
#[derive(Debug)]
pub struct ReviewCallouts<W, M, C> {
    main: M,
    via: String,
    queue: Mutex<ReviewQueue<Weak<WaitingStream<W>>, C>>,
}

/// A stream that waits for answers.
#[derive(Debug)]
pub struct WaitingStream<W> {
    waker: W,
    answers: Mutex<AwaitedAnswers>,
}

impl<W: Wake> WaitingStream<W> {
    /// The answers, once all are there.
    pub fn take_answers(&self) -> Option<ReviewAnswers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn push(&self, key: ReviewKey, result: ReviewResult) {
        if self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(key, result) {
            self.waker.wake();
        }
    }
}

impl<W: Wake, M: Wake, C: Copy + Eq + Hash> ReviewCallouts<W, M, C> {
    /// None under way. `via` goes into every question, so that a gateway recognises its own.
    pub fn new(main: M, via: String) -> Self {
        ReviewCallouts { main, via, queue: Mutex::default() }
    }

    /// Has the questions answered for a stream that waits, for as long as what is returned is kept.
    ///
    /// # Errors
    /// A refusal where too many reviews or waiters are under way; the stream is then never woken.
    pub fn ask(&self, reviews: Vec<Review>, waker: W, uptime: Duration) -> Result<Arc<WaitingStream<W>>, Refusal> {
        let stream = Arc::new(WaitingStream { waker, answers: Mutex::new(AwaitedAnswers::new(reviews.len())) });
        let is_waiting = |waiter: &Weak<WaitingStream<W>>| waiter.strong_count() > 0;
        self.lock().ask(reviews, &Arc::downgrade(&stream), is_waiting, uptime, || self.main.wake())?;
        Ok(stream)
    }

    /// Has a question answered for which no stream waits, if there is a slot.
    pub fn ask_aside(&self, review: Review, uptime: Duration) {
        if self.lock().ask_aside(review, uptime) {
            self.main.wake();
        }
    }

    /// Sends what was asked for: `callout` gets an Envoy cluster, headers, a body and a timeout in milliseconds, and gives the
    /// callout's id, or `None` where none was made.
    pub fn send(&self, uptime: Duration, mut callout: impl FnMut(&str, &[(&str, &str)], &[u8], u64) -> Option<C>) {
        let (mut unsent, retries) = {
            let mut queue = self.lock();
            (queue.take_unsent(), queue.take_retries())
        };
        unsent.extend(retries);
        let unsent: Vec<_> = unsent.into_iter().map(|key| Unsent { reviews: self, key: Some(key), uptime }).collect();
        for question in unsent {
            let found = question.key.and_then(|key| self.lock().get(&key, uptime));
            let Some((review, left)) = found else { continue };
            fault::strike_once("send");
            let (headers, body) = (review.headers(&self.via), review.body().as_bytes());
            // Envoy responds within the call where it cannot connect.
            self.lock().sending();
            match callout(review.cluster(), &headers, body, left) {
                Some(id) => question.sent(id),
                None => self.lock().not_sent(),
            }
        }
    }

    /// Takes the response to a callout.
    pub fn done(&self, id: C, result: &CalloutResult, uptime: Duration) {
        let key = self.lock().response(id, result);
        if let Some(key) = key {
            self.answered(&key, result, uptime);
            self.lock().forget(id);
        }
    }

    fn answered(&self, key: &ReviewKey, result: &CalloutResult, uptime: Duration) {
        let should_retry = self.lock().should_retry(key, result, uptime);
        if should_retry {
            self.main.wake();
        } else {
            self.finish(key, result, uptime);
        }
    }

    fn finish(&self, key: &ReviewKey, result: &CalloutResult, uptime: Duration) {
        let Some((review, _)) = self.lock().get(key, uptime) else { return };
        fault::strike_once("callout");
        // Not under the lock: workers that ask need not wait until the answer is read.
        let result = result.accept_answer(&review, uptime);
        let waiters = self.lock().finish(key);
        for waiter in waiters.iter().filter_map(Weak::upgrade) {
            waiter.push(*key, result.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReviewQueue<Weak<WaitingStream<W>>, C>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that was taken out of the queue. Dropped before it was sent, because Envoy cannot ask or a panic came between, it
/// has no answer: the streams that wait for it must not wait for ever.
struct Unsent<'a, W: Wake, M: Wake, C: Copy + Eq + Hash> {
    reviews: &'a ReviewCallouts<W, M, C>,
    key: Option<ReviewKey>,
    uptime: Duration,
}

impl<W: Wake, M: Wake, C: Copy + Eq + Hash> Unsent<'_, W, M, C> {
    fn sent(mut self, id: C) {
        let Some(key) = self.key else { return };
        let early = self.reviews.lock().sent(key, id);
        if let Some(result) = early {
            self.reviews.answered(&key, &result, self.uptime);
        }
        // Last: after a panic before it the streams that wait get no answer, but an end.
        self.key = None;
    }
}

impl<W: Wake, M: Wake, C: Copy + Eq + Hash> Drop for Unsent<'_, W, M, C> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.reviews.finish(&key, &CalloutResult::unsent(), self.uptime);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::review::{CredentialCaches, Lifetimes, Store};
    use crate::testing::reviewer;

    const NOW: Duration = Duration::ZERO;
    const REJECTED: &[u8] = br#"{"kind":"TokenReview","status":{"authenticated":false}}"#;

    type Woken = Arc<AtomicU32>;

    fn review(token: &[u8]) -> Review {
        let caches = Arc::new(CredentialCaches::new(&[7; 32], Lifetimes::default(), &Store::default()));
        Review::of_token(token, &reviewer(), &caches)
    }

    fn callouts() -> (ReviewCallouts<Woken, Woken, u64>, Woken) {
        let main = Woken::default();
        (ReviewCallouts::new(Arc::clone(&main), "gateway".to_owned()), main)
    }

    fn count(woken: &Woken) -> u32 {
        woken.load(Ordering::Relaxed)
    }

    /// Results of the tokens that a stream has waited for, once all are there.
    fn results<const N: usize>(stream: &WaitingStream<Woken>, tokens: [&[u8]; N]) -> Option<[Option<ReviewResult>; N]> {
        let answers = stream.take_answers()?;
        Some(tokens.map(|token| answers.get(&review(token).key())))
    }

    #[test]
    fn streams_of_equal_questions_are_woken_with_their_last_answer() {
        let ((reviews, main), [one, other]) = (callouts(), [(); 2].map(|()| Woken::default()));
        let waits = reviews.ask(vec![review(b"a"), review(b"b")], Arc::clone(&one), NOW).unwrap();
        let shares = reviews.ask(vec![review(b"a")], Arc::clone(&other), NOW).unwrap();
        let has_left = reviews.ask(vec![review(b"b")], Arc::clone(&other), NOW).unwrap();
        drop(has_left);
        assert_eq!(count(&main), 1, "nothing is new but the first");
        let mut ids = 0..;
        let mut sent = Vec::new();
        reviews.send(NOW, |cluster, headers, body, left| {
            assert!(headers.contains(&("via", "gateway")) && left == 5_000, "{cluster}");
            sent.push(String::from_utf8_lossy(body).into_owned());
            ids.next()
        });
        assert_eq!(sent.len(), 2, "{sent:?}");
        reviews.send(NOW, |_, _, _, _| panic!("all are sent"));
        let rejected = CalloutResult::from_chunks(201, &[REJECTED]);
        reviews.done(0, &rejected, NOW);
        assert_eq!((count(&one), count(&other)), (0, 1));
        assert_eq!(results(&shares, [b"a"]), Some([Some(ReviewResult::Rejected)]));
        assert!(waits.take_answers().is_none());
        reviews.done(1, &CalloutResult::unsent(), NOW);
        assert_eq!((count(&one), count(&other)), (1, 1));
        assert_eq!(results(&waits, [b"a", b"b"]), Some([Some(ReviewResult::Rejected), Some(ReviewResult::Failed)]));
    }

    #[test]
    fn stream_is_woken_without_an_answer_where_nothing_was_sent() {
        for is_panic in [false, true] {
            let ((reviews, _), woken) = (callouts(), Woken::default());
            let stream = reviews.ask(vec![review(b"a"), review(b"b")], Arc::clone(&woken), NOW).unwrap();
            let callout = |_: &str, _: &[(&str, &str)], _: &[u8], _: u64| {
                assert!(!is_panic, "a panic");
                None
            };
            let ended = catch_unwind(AssertUnwindSafe(|| reviews.send(NOW, callout)));
            assert_eq!((ended.is_err(), count(&woken)), (is_panic, 1));
            assert_eq!(results(&stream, [b"a", b"b"]), Some([Some(ReviewResult::Failed), Some(ReviewResult::Failed)]));
        }
    }

    #[test]
    fn response_within_the_call_answers_its_own_question_alone() {
        let ((reviews, main), woken) = (callouts(), Woken::default());
        let first = reviews.ask(vec![review(b"a")], Arc::clone(&woken), NOW).unwrap();
        reviews.send(NOW, |_, _, _, _| Some(1));
        let second = reviews.ask(vec![review(b"b")], Arc::clone(&woken), NOW).unwrap();
        // The response to the first callout and one to a callout for something else come while the second is made.
        reviews.send(NOW, |_, _, _, _| {
            reviews.done(1, &CalloutResult::from_chunks(201, &[REJECTED]), NOW);
            reviews.done(9, &CalloutResult::from_chunks(201, &[REJECTED]), NOW);
            Some(2)
        });
        assert_eq!(results(&first, [b"a"]), Some([Some(ReviewResult::Rejected)]));
        assert!(second.take_answers().is_none(), "none of these was its own");
        reviews.done(2, &CalloutResult::given_up(), NOW);
        assert_eq!((count(&main), count(&woken)), (3, 1), "the main thread sends it again");
        reviews.send(NOW, |_, _, _, _| {
            reviews.done(3, &CalloutResult::from_chunks(201, &[REJECTED]), NOW);
            Some(3)
        });
        assert_eq!(results(&second, [b"b"]), Some([Some(ReviewResult::Rejected)]));
    }
}
