//! Carries reviews to the upstream: each question once at a time for this VM, whoever waits for its answer. Callouts belong to
//! the root context, so that they outlive the stream that asked first.

use std::collections::HashMap;
use std::time::Duration;

use portcullis_core::Refusal;
use portcullis_core::review::{DEADLINE_MS, MAX_ANSWER, Review, ReviewKey, ReviewPermit, ReviewResult};
use rustls_pki_types::UnixTime;

use crate::host::{Host, Map};
use crate::shelf;

/// Streams that may wait for the same answer.
const WAITERS: usize = 512;
/// How often a question that Envoy gave up is put again.
const GIVEN_UP: u32 = 3;
/// With less time left, milliseconds, it is not.
const SHORTEST_MS: u64 = 100;
/// How long one server may take, milliseconds: within the deadline another one is asked.
const TRY_MS: &str = "2400";
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
    since: Duration,
    given_up: u32,
    _permit: ReviewPermit,
}

impl Flight {
    /// Milliseconds that are left for an answer.
    fn left(&self, uptime: Duration) -> u64 {
        let spent = uptime.saturating_sub(self.since).as_millis();
        DEADLINE_MS.saturating_sub(u64::try_from(spent).unwrap_or(u64::MAX))
    }
}

/// An answer, and the streams that wait for it.
pub(crate) struct Answer {
    pub(crate) key: ReviewKey,
    pub(crate) result: ReviewResult,
    pub(crate) waiters: Vec<u32>,
}

/// When and for whom something is asked.
pub(crate) struct Asking<'a, H> {
    pub(crate) host: &'a H,
    pub(crate) root: u32,
    pub(crate) via: &'a str,
    pub(crate) uptime: Duration,
    pub(crate) now: UnixTime,
}

impl Reviews {
    /// Has the questions answered for a waiting stream. Returns what was answered at once, because Envoy cannot ask.
    ///
    /// # Errors
    /// A refusal where too many reviews or waiters are under way; the stream may then be told answers all the same.
    pub(crate) fn ask<H: Host>(
        &mut self,
        reviews: Vec<Review>,
        stream: u32,
        asking: &Asking<'_, H>,
    ) -> Result<Vec<Answer>, Refusal> {
        let mut answers = Vec::new();
        for review in reviews {
            let key = review.key();
            if let Some(flight) = self.flights.get_mut(&key) {
                if flight.waiters.len() >= WAITERS {
                    return Err(Refusal::too_many_reviews());
                }
                flight.waiters.push(stream);
                continue;
            }
            let permit = review.permit().ok_or_else(Refusal::too_many_reviews)?;
            let flight = Flight { review, waiters: vec![stream], since: asking.uptime, given_up: 0, _permit: permit };
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
        let left = u32::try_from(flight.left(asking.uptime)).unwrap_or(0).max(1);
        let token = callout(&flight.review, left, asking);
        match token {
            Some(token) => {
                self.callouts.insert(token, *key);
                None
            }
            None => self.finish(key, 0, &[], asking.now),
        }
    }

    /// Takes the answer of a callout. Without headers, Envoy gave the question up.
    pub(crate) fn done<H: Host>(&mut self, token: u32, has_headers: bool, asking: &Asking<'_, H>) -> Option<Answer> {
        let key = self.callouts.remove(&token)?;
        if !has_headers && self.may_ask_again(&key, asking.uptime) {
            self.again.push(key);
            return None;
        }
        let status = asking.host.header(Map::Callout, ":status").filter(|_| has_headers);
        let status = status.and_then(|status| std::str::from_utf8(&status).ok()?.parse().ok()).unwrap_or(0);
        // One that is too long is cut, and does not parse.
        let body = asking.host.callout_body(MAX_ANSWER).unwrap_or_default();
        let answer = self.finish(&key, status, &body, asking.now)?;
        shelf::put(asking.host, &key, &answer.result, &body, asking.now.as_secs());
        Some(answer)
    }

    /// Envoy gives a callout up without an answer when its cluster is replaced, as by a change of the servers' certificates
    /// or health check. The question is put to the new one.
    fn may_ask_again(&mut self, key: &ReviewKey, uptime: Duration) -> bool {
        let Some(flight) = self.flights.get_mut(key) else { return false };
        flight.given_up += 1;
        flight.given_up <= GIVEN_UP && flight.left(uptime) >= SHORTEST_MS
    }

    fn finish(&mut self, key: &ReviewKey, status: u16, body: &[u8], now: UnixTime) -> Option<Answer> {
        let flight = self.flights.remove(key)?;
        let result = flight.review.settle(status, body, now);
        Some(Answer { key: *key, result, waiters: flight.waiters })
    }

    /// Ends everything without an answer.
    pub(crate) fn give_up(&mut self, now: UnixTime) -> Vec<Answer> {
        let keys: Vec<_> = self.flights.keys().copied().collect();
        keys.iter().filter_map(|key| self.finish(key, 0, &[], now)).collect()
    }
}

fn callout<H: Host>(review: &Review, left: u32, asking: &Asking<'_, H>) -> Option<u32> {
    let mut headers = vec![
        (":method", "POST"),
        (":path", review.path()),
        (":authority", "kubernetes.default.svc"),
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("user-agent", "portcullis"),
        ("via", asking.via),
        // A question changes nothing, so others are asked where a server fails, within the same deadline. Envoy's router
        // reads these and takes them out.
        ("x-envoy-retry-on", "5xx,retriable-status-codes"),
        ("x-envoy-retriable-status-codes", "429"),
        ("x-envoy-max-retries", "2"),
        ("x-envoy-upstream-rq-per-try-timeout-ms", TRY_MS),
    ];
    headers.extend(review.user_header());
    if !asking.host.act_for(asking.root) {
        return None;
    }
    asking.host.callout(review.cluster(), &headers, review.body().as_bytes(), left)
}
