//! Carries reviews to the upstream, by [`ReviewQueue`]. Callouts belong to the root context, so that they outlive the stream that
//! asked first.

use std::time::Duration;

use portcullis_core::Refusal;
use portcullis_core::review::{CalloutResult, MAX_ANSWER, Review, ReviewKey, ReviewOutcome, ReviewQueue};
use portcullis_core::state_store::SharedState;

use crate::abi::{Hostcalls, Map};

/// Time after which a question that Envoy gave up is sent again.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Reviews that are under way for one root context.
#[derive(Default)]
pub(crate) struct ReviewCallouts(ReviewQueue<u32, u32>);

/// When and for whom something is asked.
pub(crate) struct ReviewContext<'a, H> {
    pub(crate) hostcalls: &'a H,
    pub(crate) state: Option<&'a SharedState<H>>,
    pub(crate) root: u32,
    pub(crate) via: &'a str,
    pub(crate) uptime: Duration,
}

impl ReviewCallouts {
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
        context: &ReviewContext<'_, H>,
    ) -> Result<Vec<ReviewOutcome<u32>>, Refusal> {
        let asked = self.0.ask(reviews, &stream, is_waiting, context.uptime, || ());
        let unsent = self.0.take_unsent();
        let outcomes: Vec<_> = unsent.iter().filter_map(|key| self.send(key, context)).collect();
        // Callouts are the root context's; what follows is the stream's again.
        if !unsent.is_empty() && !context.hostcalls.act_for(stream) {
            return Err(Refusal::internal());
        }
        asked.map(|()| outcomes)
    }

    /// Has a question answered for which no stream waits, if there is a slot. False if what follows cannot be the stream's again.
    pub(crate) fn ask_aside<H: Hostcalls>(
        &mut self,
        review: Review,
        stream: u32,
        context: &ReviewContext<'_, H>,
    ) -> bool {
        if !self.0.ask_aside(review, context.uptime) {
            return true;
        }
        // No stream waits for what is answered at once.
        for key in self.0.take_unsent() {
            drop(self.send(&key, context));
        }
        context.hostcalls.act_for(stream)
    }

    /// Sends questions again that Envoy gave up. Returns what is answered by that, because Envoy cannot ask.
    pub(crate) fn retry<H: Hostcalls>(&mut self, context: &ReviewContext<'_, H>) -> Vec<ReviewOutcome<u32>> {
        self.0.take_retries().iter().filter_map(|key| self.send(key, context)).collect()
    }

    /// Whether a question is to be sent again.
    pub(crate) fn has_retries(&self) -> bool {
        self.0.has_retries()
    }

    fn send<H: Hostcalls>(&mut self, key: &ReviewKey, context: &ReviewContext<'_, H>) -> Option<ReviewOutcome<u32>> {
        let (review, left) = self.0.get(key, context.uptime)?;
        let left = u32::try_from(left).unwrap_or(1);
        let (headers, body) = (review.headers(context.via), review.body().as_bytes());
        let is_root = context.hostcalls.act_for(context.root);
        match is_root.then(|| context.hostcalls.callout(review.cluster(), &headers, body, left)).flatten() {
            Some(token) => {
                // Envoy calls no VM within a call of the VM's own, and reports a failure later: no response is early.
                let early = self.0.sent(*key, token)?;
                self.0.end(key, &early, context.uptime)
            }
            None => self.0.end(key, &CalloutResult::unsent(), context.uptime),
        }
    }

    /// Takes the answer of a callout. Without headers, Envoy gave the question up.
    pub(crate) fn done<H: Hostcalls>(
        &mut self,
        token: u32,
        has_headers: bool,
        context: &ReviewContext<'_, H>,
    ) -> Option<ReviewOutcome<u32>> {
        let result = if has_headers { response(context.hostcalls) } else { CalloutResult::given_up() };
        let key = self.0.response(token, &result)?;
        self.0.forget(token);
        if self.0.should_retry(&key, &result, context.uptime) {
            return None;
        }
        let (review, _) = self.0.get(&key, context.uptime)?;
        let outcome = self.0.end(&key, &result, context.uptime)?;
        if let Some(state) = context.state {
            state.share_answer(&review, &outcome.result, result.body(), context.uptime);
        }
        Some(outcome)
    }

    /// Ends everything without an answer.
    pub(crate) fn give_up(&mut self, uptime: Duration) -> Vec<ReviewOutcome<u32>> {
        self.0.give_up(uptime)
    }
}

/// The response to the present callout. One that is too long is cut, and does not parse.
fn response(hostcalls: &impl Hostcalls) -> CalloutResult {
    let status = hostcalls.header(Map::Callout, ":status");
    let status = status.and_then(|status| std::str::from_utf8(&status).ok()?.parse().ok()).unwrap_or(0);
    CalloutResult::from_chunks(status, &[&hostcalls.callout_body(MAX_ANSWER).unwrap_or_default()])
}
