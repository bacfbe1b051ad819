//! Drains of the client's connection, which a proxy can do only between two hooks about the request.

use super::host::Host;
use super::{Exchange, Next, reply};
use crate::fair::Admission;
use crate::rebalance::Fate;
use crate::refusal::{Cause, Refusal};

/// A drain that was scheduled.
#[derive(Debug, Default)]
pub(super) enum Drain {
    /// None was.
    #[default]
    None,
    /// The request waits for it and is decided afterwards.
    BeforeDecision,
    /// The request has gone on.
    Beside,
    /// The answer of the gateway's own waits for it: nothing could be done on the connection afterwards.
    BeforeReply(Box<Refusal>),
}

impl<T: Clone> Exchange<T> {
    /// Draws whether a forwarded request drains its connection, and counts it for the draws of others. An upgrade has its connection
    /// for itself, which takes no further requests anyway.
    pub(super) fn rebalance_forwarded(&mut self, host: &mut impl Host<Stream = T>) {
        let Some(metrics) = &self.metrics else { return };
        let (Some(rebalance), Some(now)) = (metrics.rebalance(), self.timeline.forwarded) else { return };
        let is_long = self.is_long;
        self.place = rebalance.start(is_long, now);
        if self.upgrade.is_closed() {
            return;
        }
        let random = host.random();
        let trigger = rebalance.trigger(Fate::Forwarded, random, now, || host.resident_memory());
        if let Some(trigger) = trigger
            && host.schedule_drain()
        {
            rebalance.count(trigger);
            self.drain = Drain::Beside;
        }
    }

    /// Answers a request. One beyond a limit of flow control may drain its connection first.
    pub(super) fn refuse(&mut self, mut refusal: Refusal, host: &mut impl Host<Stream = T>) -> Next {
        refusal.spread(host.uptime().unwrap_or_default());
        let is_limited = matches!(refusal.cause, Cause::FlowControl | Cause::QueueFull | Cause::QueueTimeout);
        if is_limited && self.drains_limited(host) {
            self.drain = Drain::BeforeReply(Box::new(refusal));
            return Next::Pause;
        }
        self.answer(&refusal, host)
    }

    fn drains_limited(&self, host: &mut impl Host<Stream = T>) -> bool {
        let rebalance = self.metrics.as_ref().and_then(|metrics| metrics.rebalance());
        let (Some(rebalance), Some(now)) = (rebalance, host.uptime()) else { return false };
        let random = host.random();
        let trigger = rebalance.trigger(Fate::Limited, random, now, || host.resident_memory());
        let Some(trigger) = trigger.filter(|_| host.schedule_drain()) else { return false };
        rebalance.count(trigger);
        true
    }

    pub(super) fn answer(&mut self, refusal: &Refusal, host: &mut impl Host<Stream = T>) -> Next {
        self.is_answered = true;
        // A seat that it waited for and needs no more.
        self.admission = Admission::None;
        reply(refusal, host);
        Next::Stop
    }
}
