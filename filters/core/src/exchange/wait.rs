//! Waits of a request: for reviews, and for a seat of a fair queue. Neither changes it, and after either it is decided again.

use std::time::Duration;

use super::host::{Asked, Host};
use super::{Exchange, span};
use crate::fair::{Admission, SeatRequest, Ticket, Turn};
use crate::observe::RequestRecord;
use crate::refusal::Refusal;
use crate::review::Review;

/// Maximum number of times that a request waits: twice for its tokens, nine times for its impersonation, ten times for a grant of
/// constrained impersonation, and some more for a seat and for what was forgotten because the configuration changed meanwhile.
pub(super) const MAX_ROUNDS: u8 = 24;

/// The thing that a paused request waits for.
#[derive(Debug, Default)]
pub(super) enum WaitingFor {
    /// It does not wait.
    #[default]
    Nothing,
    /// Reviews, since that uptime.
    Reviews(Duration),
    /// A seat, since that uptime.
    Seat(Ticket, Duration),
}

impl WaitingFor {
    /// The wait begins at that uptime.
    pub(super) fn begin(&mut self, at: Duration) {
        match self {
            WaitingFor::Seat(_, since) => *since = at,
            WaitingFor::Nothing | WaitingFor::Reviews(_) => *self = WaitingFor::Reviews(at),
        }
    }
}

impl<T: Clone> Exchange<T> {
    /// Takes what the request has waited for. False if it has not come, or if the request does not wait: decided again, a request
    /// that was forwarded would be another user's, because what it presented was removed.
    pub(super) fn end_wait(&mut self, host: &mut impl Host<Stream = T>) -> bool {
        match std::mem::take(&mut self.waiting) {
            WaitingFor::Nothing => false,
            WaitingFor::Reviews(since) => {
                let Some(answers) = host.take_answers() else {
                    self.waiting = WaitingFor::Reviews(since);
                    return false;
                };
                self.answers.extend(answers);
                host.end_wait();
                let waited = waited_since(since, host);
                self.timeline.waited = self.timeline.waited.saturating_add(waited);
                host.record_review_wait(milliseconds(waited));
                true
            }
            WaitingFor::Seat(ticket, since) => {
                self.admission = match ticket.turn() {
                    Turn::Waiting(ticket) => {
                        self.waiting = WaitingFor::Seat(ticket, since);
                        return false;
                    }
                    Turn::Seat(seat) => Admission::Seat(seat),
                    Turn::Expired => Admission::Expired,
                };
                self.end_queueing(since, host);
                true
            }
        }
    }

    /// Sends reviews, and waits for them.
    pub(super) fn ask(
        &mut self,
        mut reviews: Vec<Review>,
        seen: &RequestRecord,
        host: &mut impl Host<Stream = T>,
    ) -> Result<Asked, Refusal> {
        if self.rounds >= MAX_ROUNDS {
            return Err(Refusal::review_failed());
        }
        if let Some(span) = &seen.span {
            span::describe_waiting(span, host);
            span::begin_wait(&mut reviews, span.is_certain(), host);
        }
        let asked = host.ask(reviews);
        if asked == Ok(Asked::Waiting) {
            self.rounds = self.rounds.saturating_add(1);
        } else {
            host.end_wait();
        }
        self.fault.strike("asked");
        asked
    }

    /// Waits for a seat. `full` is the answer if the request cannot wait.
    pub(super) fn queue(
        &mut self,
        wanted: SeatRequest,
        full: Refusal,
        seen: &RequestRecord,
        host: &mut impl Host<Stream = T>,
    ) -> Result<Asked, Refusal> {
        if self.rounds >= MAX_ROUNDS {
            return Err(full);
        }
        self.rounds = self.rounds.saturating_add(1);
        if let Some(span) = &seen.span {
            span::describe_waiting(span, host);
        }
        let (Some(waker), Some(now)) = (host.waker(), host.uptime()) else { return Err(full) };
        let Ok(wait) = wanted.wait(waker, now) else { return Err(full) };
        // Without a timer it could wait forever.
        if wait.call_at.is_some_and(|at| !host.expire_at(wait.ticket.queue(), at)) {
            wait.ticket.queue().timer_failed();
            return Err(full);
        }
        host.gauges_changed();
        match wait.ticket.turn() {
            Turn::Waiting(ticket) => {
                self.waiting = WaitingFor::Seat(ticket, now);
                Ok(Asked::Waiting)
            }
            Turn::Seat(seat) => {
                self.admission = Admission::Seat(seat);
                Ok(Asked::Found)
            }
            Turn::Expired => Err(full),
        }
    }

    /// Leaves the queue, gives the seat back, and notes how long a request waited that leaves.
    pub(super) fn leave_queue(&mut self, host: &mut impl Host<Stream = T>) {
        self.admission = Admission::None;
        if let WaitingFor::Seat(ticket, since) = std::mem::take(&mut self.waiting) {
            drop(ticket);
            self.end_queueing(since, host);
        }
        self.release_seat(host);
    }

    /// Gives the seat back.
    pub(super) fn release_seat(&mut self, host: &mut impl Host<Stream = T>) {
        if let Some(seat) = self.seat.take() {
            seat.release(host.uptime());
            host.gauges_changed();
        }
    }

    fn end_queueing(&mut self, since: Duration, host: &mut impl Host<Stream = T>) {
        let waited = waited_since(since, host);
        self.timeline.queued = self.timeline.queued.saturating_add(waited);
        host.record_queue_wait(milliseconds(waited));
        host.gauges_changed();
    }
}

fn waited_since(since: Duration, host: &impl Host) -> Duration {
    host.uptime().map_or(Duration::ZERO, |now| now.saturating_sub(since))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
