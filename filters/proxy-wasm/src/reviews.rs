//! Carries reviews to the upstream: each question once at a time for this VM, for all streams that wait for its answer.
//! Callouts belong to the root context, so that they outlive the stream that asked first.

use std::collections::HashMap;
use std::time::Duration;

use portcullis_core::Refusal;
use portcullis_core::review::{MAX_ANSWER, PendingReviews, Review, ReviewKey, ReviewResult};

use crate::hostcalls::{Hostcalls, Map};
use crate::shared_reviews;

/// After how long a question that Envoy gave up is put again.
pub(crate) const AGAIN: Duration = Duration::from_millis(20);

/// Reviews that are under way for one root context.
#[derive(Default)]
pub(crate) struct Reviews {
    flights: PendingReviews<u32>,
    callouts: HashMap<u32, ReviewKey>,
    /// To be put again.
    again: Vec<ReviewKey>,
}

/// An answer, and the streams that wait for it.
pub(crate) struct ReviewOutcome {
    pub(crate) key: ReviewKey,
    pub(crate) result: ReviewResult,
    pub(crate) waiters: Vec<u32>,
}

/// When and for whom something is asked.
pub(crate) struct Asking<'a, H> {
    pub(crate) hostcalls: &'a H,
    pub(crate) root: u32,
    pub(crate) via: &'a str,
    pub(crate) uptime: Duration,
}

impl Reviews {
    /// Has the questions answered for a waiting stream; `is_waiting` is false for a stream that has left. Returns the answers
    /// that come at once, because Envoy cannot ask.
    ///
    /// # Errors
    /// A refusal if too many reviews or waiters are under way; the stream may then get answers all the same.
    pub(crate) fn ask<H: Hostcalls>(
        &mut self,
        reviews: Vec<Review>,
        stream: u32,
        is_waiting: impl Fn(&u32) -> bool,
        asking: &Asking<'_, H>,
    ) -> Result<Vec<ReviewOutcome>, Refusal> {
        let mut answers = Vec::new();
        for review in reviews {
            let key = review.key();
            if !self.flights.join(review, stream, &is_waiting, asking.uptime)? {
                continue;
            }
            answers.extend(self.send(&key, asking));
            // The callout is the root context's; what follows is the stream's again.
            if !asking.hostcalls.act_for(stream) {
                return Err(Refusal::internal());
            }
        }
        Ok(answers)
    }

    /// Puts questions again that Envoy gave up. Returns what is answered by that, because Envoy cannot ask.
    pub(crate) fn ask_again<H: Hostcalls>(&mut self, asking: &Asking<'_, H>) -> Vec<ReviewOutcome> {
        std::mem::take(&mut self.again).iter().filter_map(|key| self.send(key, asking)).collect()
    }

    /// Whether a question is to be put again.
    pub(crate) fn has_more(&self) -> bool {
        !self.again.is_empty()
    }

    fn send<H: Hostcalls>(&mut self, key: &ReviewKey, asking: &Asking<'_, H>) -> Option<ReviewOutcome> {
        let (review, left) = self.flights.get(key, asking.uptime)?;
        match callout(&review, u32::try_from(left).unwrap_or(1), asking) {
            Some(token) => {
                self.callouts.insert(token, *key);
                None
            }
            None => self.finish(key, 0, &[], asking.uptime),
        }
    }

    /// Takes the answer of a callout. Without headers, Envoy gave the question up.
    pub(crate) fn done<H: Hostcalls>(
        &mut self,
        token: u32,
        has_headers: bool,
        asking: &Asking<'_, H>,
    ) -> Option<ReviewOutcome> {
        let key = self.callouts.remove(&token)?;
        if !has_headers && self.flights.should_retry(&key, asking.uptime) {
            self.again.push(key);
            return None;
        }
        let status = asking.hostcalls.header(Map::Callout, ":status").filter(|_| has_headers);
        let status = status.and_then(|status| std::str::from_utf8(&status).ok()?.parse().ok()).unwrap_or(0);
        // One that is too long is cut, and does not parse.
        let body = asking.hostcalls.callout_body(MAX_ANSWER).unwrap_or_default();
        let answer = self.finish(&key, status, &body, asking.uptime)?;
        shared_reviews::put(asking.hostcalls, &key, &answer.result, &body, asking.uptime.as_secs());
        Some(answer)
    }

    fn finish(&mut self, key: &ReviewKey, status: u16, body: &[u8], uptime: Duration) -> Option<ReviewOutcome> {
        let (review, _) = self.flights.get(key, uptime)?;
        let result = review.settle(status, body, uptime);
        Some(ReviewOutcome { key: *key, result, waiters: self.flights.finish(key) })
    }

    /// Ends everything without an answer.
    pub(crate) fn give_up(&mut self, uptime: Duration) -> Vec<ReviewOutcome> {
        self.flights.keys().iter().filter_map(|key| self.finish(key, 0, &[], uptime)).collect()
    }
}

fn callout<H: Hostcalls>(review: &Review, left: u32, asking: &Asking<'_, H>) -> Option<u32> {
    if !asking.hostcalls.act_for(asking.root) {
        return None;
    }
    asking.hostcalls.callout(review.cluster(), &review.headers(asking.via), review.body().as_bytes(), left)
}
