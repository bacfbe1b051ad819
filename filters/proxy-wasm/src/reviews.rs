//! Carries reviews to the upstream: each question once at a time for this VM, whoever waits for its answer. Callouts belong to
//! the root context, so that they outlive the stream that asked first.

use std::collections::HashMap;
use std::time::Duration;

use portcullis_core::Refusal;
use portcullis_core::review::{MAX_ANSWER, Patience, Review, ReviewKey, ReviewPermit, ReviewResult, WAITERS};

use crate::host::{Host, Map};
use crate::shelf;

/// After how long a question that Envoy gave up is put again.
pub(crate) const AGAIN: Duration = Duration::from_millis(20);

/// Reviews that are under way for one root context.
#[derive(Default)]
pub(crate) struct Reviews {
    flights: HashMap<ReviewKey, Flight>,
    callouts: HashMap<u32, ReviewKey>,
    /// To be put again.
    again: Vec<ReviewKey>,
}

struct Flight {
    review: Review,
    /// Stream contexts.
    waiters: Vec<u32>,
    patience: Patience,
    _permit: ReviewPermit,
}

/// An answer, and the streams that wait for it.
pub(crate) struct Answer {
    pub(crate) key: ReviewKey,
    pub(crate) result: ReviewResult,
    pub(crate) waiters: Vec<u32>,
}

impl Flight {
    /// Adds a stream. False if too many wait already, those aside that have left.
    fn join(&mut self, stream: u32, is_there: impl Fn(u32) -> bool) -> bool {
        if self.waiters.len() >= WAITERS {
            self.waiters.retain(|waiter| is_there(*waiter));
        }
        let has_room = self.waiters.len() < WAITERS;
        if has_room {
            self.waiters.push(stream);
        }
        has_room
    }
}

/// When and for whom something is asked.
pub(crate) struct Asking<'a, H> {
    pub(crate) host: &'a H,
    pub(crate) root: u32,
    pub(crate) via: &'a str,
    pub(crate) uptime: Duration,
}

impl Reviews {
    /// Has the questions answered for a waiting stream; `is_there` says which others still are. Returns what was answered at once, because Envoy cannot ask.
    ///
    /// # Errors
    /// A refusal where too many reviews or waiters are under way; the stream may then be told answers all the same.
    pub(crate) fn ask<H: Host>(
        &mut self,
        reviews: Vec<Review>,
        stream: u32,
        is_there: impl Fn(u32) -> bool,
        asking: &Asking<'_, H>,
    ) -> Result<Vec<Answer>, Refusal> {
        let mut answers = Vec::new();
        for review in reviews {
            let key = review.key();
            if let Some(flight) = self.flights.get_mut(&key) {
                if !flight.join(stream, &is_there) {
                    return Err(Refusal::too_many_reviews());
                }
                continue;
            }
            let permit = review.permit().ok_or_else(Refusal::too_many_reviews)?;
            let patience = Patience::new(asking.uptime);
            let flight = Flight { review, waiters: vec![stream], patience, _permit: permit };
            self.flights.insert(key, flight);
            answers.extend(self.send(&key, asking));
            // The callout is the root context's; what follows is the stream's again.
            if !asking.host.act_for(stream) {
                return Err(Refusal::internal());
            }
        }
        Ok(answers)
    }

    /// Puts questions again that Envoy gave up. Returns what is answered by that, because Envoy cannot ask.
    pub(crate) fn ask_again<H: Host>(&mut self, asking: &Asking<'_, H>) -> Vec<Answer> {
        std::mem::take(&mut self.again).iter().filter_map(|key| self.send(key, asking)).collect()
    }

    /// Whether a question is to be put again.
    pub(crate) fn has_more(&self) -> bool {
        !self.again.is_empty()
    }

    fn send<H: Host>(&mut self, key: &ReviewKey, asking: &Asking<'_, H>) -> Option<Answer> {
        let flight = self.flights.get(key)?;
        let left = u32::try_from(flight.patience.left(asking.uptime)).unwrap_or(0).max(1);
        let token = callout(&flight.review, left, asking);
        match token {
            Some(token) => {
                self.callouts.insert(token, *key);
                None
            }
            None => self.finish(key, 0, &[], asking.uptime),
        }
    }

    /// Takes the answer of a callout. Without headers, Envoy gave the question up.
    pub(crate) fn done<H: Host>(&mut self, token: u32, has_headers: bool, asking: &Asking<'_, H>) -> Option<Answer> {
        let key = self.callouts.remove(&token)?;
        let asks_again = |flight: &mut Flight| flight.patience.asks_again(asking.uptime);
        if !has_headers && self.flights.get_mut(&key).is_some_and(asks_again) {
            self.again.push(key);
            return None;
        }
        let status = asking.host.header(Map::Callout, ":status").filter(|_| has_headers);
        let status = status.and_then(|status| std::str::from_utf8(&status).ok()?.parse().ok()).unwrap_or(0);
        // One that is too long is cut, and does not parse.
        let body = asking.host.callout_body(MAX_ANSWER).unwrap_or_default();
        let answer = self.finish(&key, status, &body, asking.uptime)?;
        shelf::put(asking.host, &key, &answer.result, &body, asking.uptime.as_secs());
        Some(answer)
    }

    fn finish(&mut self, key: &ReviewKey, status: u16, body: &[u8], uptime: Duration) -> Option<Answer> {
        let flight = self.flights.remove(key)?;
        let result = flight.review.settle(status, body, uptime);
        Some(Answer { key: *key, result, waiters: flight.waiters })
    }

    /// Ends everything without an answer.
    pub(crate) fn give_up(&mut self, uptime: Duration) -> Vec<Answer> {
        let keys: Vec<_> = self.flights.keys().copied().collect();
        keys.iter().filter_map(|key| self.finish(key, 0, &[], uptime)).collect()
    }
}

fn callout<H: Host>(review: &Review, left: u32, asking: &Asking<'_, H>) -> Option<u32> {
    if !asking.host.act_for(asking.root) {
        return None;
    }
    asking.host.callout(review.cluster(), &review.headers(asking.via), review.body().as_bytes(), left)
}
