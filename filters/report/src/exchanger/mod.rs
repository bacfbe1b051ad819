//! The exchanges of one filter configuration about limits that gateways share: a report of their use goes to a control plane, and
//! the answer has this process's parts. One at a time in a process. Calls nothing: the time and the ids of callouts are arguments.

#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_filter_config::LimitExchanges;
use portcullis_filter_config::limits::LEASE;

use crate::envelope::{EXCHANGE_HEADERS, exchange_body, response_message};
use crate::limits::PartsMessage;

/// Time for an answer. After it the next control plane is asked, with a newer report.
pub const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);
/// The headers of a request.
pub const HEADERS: [(&str, &str); 5] = EXCHANGE_HEADERS;
/// Most bytes of a response: those of the parts in the answer to the longest report.
pub const MAX_RESPONSE: usize = 512 << 10;
/// The pause where there are no limits to share, and until a configuration looks again that another one of the process exchanges for.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause before another control plane is asked.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// Time after which a configuration that says nothing more has lost its turn: another one exchanges before the lease ends.
const TURN_TIMEOUT: Duration = Duration::from_millis(1_400);
const _: () = assert!(TURN_TIMEOUT.as_millis() > ANSWER_TIMEOUT.as_millis());
const _: () = assert!(TURN_TIMEOUT.as_millis() + PAUSE.as_millis() < LEASE.as_millis());

/// The turn to exchange, for all configurations of a process: each listener has one, and all report the same limits.
pub trait ExchangeClaim {
    /// Claims the turn until then, if it has come.
    fn claim(&self, now: Duration, until: Duration) -> bool;

    /// Gives the turn back until that uptime.
    fn set(&self, at: Duration);
}

/// The turn in a process whose threads share memory: the uptime of the next exchange.
#[derive(Debug, Default)]
pub struct ExchangeTurn(Mutex<Duration>);

/// The exchanges of one filter configuration. `Id` is that of a callout.
#[derive(Debug)]
pub struct Exchanger<Id> {
    node: String,
    clusters: Vec<String>,
    state: Mutex<ExchangeState<Id>>,
}

#[derive(Debug)]
struct ExchangeState<Id> {
    under_way: Option<ExchangeStep<Id>>,
    /// The control plane that is asked.
    asked: usize,
    /// How many in a row gave no parts.
    failed: usize,
    /// The failure that was named last.
    named: Option<ExchangeFailure>,
}

impl<Id> Default for ExchangeState<Id> {
    fn default() -> Self {
        Self { under_way: None, asked: 0, failed: 0, named: None }
    }
}

#[derive(Debug)]
enum ExchangeStep<Id> {
    /// The body of a request that is to be sent.
    Unsent(Vec<u8>),
    /// A callout that is being started: Envoy may respond within the call. The last response that came, if any did, is its own if
    /// the ids are the same.
    Starting(Option<(Id, Answered)>),
    Sent(Id),
}

/// A response, as far as it counts.
type Answered = Result<Option<PartsMessage>, ExchangeFailure>;

/// A response to a callout.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeResponse<'a> {
    /// HTTP status; 0 where there is no answer.
    pub status: u16,
    /// The header `grpc-status`, if there is one.
    pub grpc_status: Option<u16>,
    /// The body, in pieces.
    pub chunks: &'a [&'a [u8]],
}

/// The reason that an exchange has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExchangeFailure {
    /// No callout was made.
    Cluster,
    /// No answer came.
    Unanswered,
    /// An HTTP status.
    Status(u16),
    /// A gRPC status.
    Grpc(u16),
    /// No message came that could be read.
    Refused,
}

/// A report that is written, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Whether there is one to send.
    pub is_written: bool,
    /// The uptime at which to try again, if nothing ends before.
    pub next: Duration,
}

/// An exchange that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeEnd {
    /// The parts to apply.
    pub parts: Option<PartsMessage>,
    /// The uptime of the next one.
    pub next: Duration,
    /// A line for the log, if no control plane gives parts, and the reason is another one than before.
    pub failure: Option<String>,
}

impl ExchangeTurn {
    /// The turn of a process that has exchanged nothing.
    pub const fn new() -> Self {
        ExchangeTurn(Mutex::new(Duration::ZERO))
    }

    fn lock(&self) -> MutexGuard<'_, Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExchangeClaim for ExchangeTurn {
    fn claim(&self, now: Duration, until: Duration) -> bool {
        let mut next = self.lock();
        let is_due = *next <= now;
        if is_due {
            *next = until;
        }
        is_due
    }

    fn set(&self, at: Duration) {
        *self.lock() = at;
    }
}

impl<Id: Copy + Eq> Exchanger<Id> {
    /// Exchanges of this node; nothing is under way yet.
    pub fn new(config: &LimitExchanges, node: String) -> Self {
        Exchanger { node, clusters: config.clusters.clone(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, ExchangeState<Id>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a report if it is time for one: `report` encodes the use of all parts, and is empty where there are none.
    pub fn write(&self, turn: &impl ExchangeClaim, now: Duration, report: impl FnOnce() -> Vec<u8>) -> Written {
        let later = Written { is_written: false, next: now.saturating_add(PAUSE) };
        let lost = now.saturating_add(TURN_TIMEOUT);
        if !turn.claim(now, lost) {
            return later;
        }
        let report = report();
        if report.is_empty() {
            turn.set(later.next);
            return later;
        }
        self.state().under_way = Some(ExchangeStep::Unsent(exchange_body(&self.node, report)));
        Written { is_written: true, next: lost }
    }

    /// Sends the report that is written, if there is one: `callout` gets an Envoy cluster and the body, and gives the callout's id, or
    /// `None` where none was made. Returns the exchange if it has ended at once.
    pub fn send(
        &self,
        turn: &impl ExchangeClaim,
        now: Duration,
        callout: impl FnOnce(&str, &[u8]) -> Option<Id>,
    ) -> Option<ExchangeEnd> {
        let mut state = self.state();
        let body = match state.under_way.take() {
            Some(ExchangeStep::Unsent(body)) => body,
            other => {
                state.under_way = other;
                return None;
            }
        };
        state.under_way = Some(ExchangeStep::Starting(None));
        let cluster = self.clusters.get(state.asked).map(String::as_str).unwrap_or_default();
        drop(state);
        let id = callout(cluster, &body);
        let mut state = self.state();
        let Some(ExchangeStep::Starting(early)) = state.under_way.take() else { return None };
        let answer = match (id, early) {
            (None, _) => Err(ExchangeFailure::Cluster),
            (Some(id), Some((one, answer))) if one == id => answer,
            (Some(id), _) => {
                state.under_way = Some(ExchangeStep::Sent(id));
                return None;
            }
        };
        Some(self.end(&mut state, turn, answer, now))
    }

    /// Whether that callout is under way.
    pub fn has_sent(&self, id: &Id) -> bool {
        matches!(&self.state().under_way, Some(ExchangeStep::Sent(sent)) if sent == id)
    }

    /// Takes the response to a callout. `None` if the callout is not this one, or is being started: then [`Exchanger::send`] returns it.
    pub fn answered(
        &self,
        turn: &impl ExchangeClaim,
        id: &Id,
        response: ExchangeResponse<'_>,
        now: Duration,
    ) -> Option<ExchangeEnd> {
        let mut state = self.state();
        match &mut state.under_way {
            Some(ExchangeStep::Sent(sent)) if sent == id => {}
            Some(ExchangeStep::Starting(early)) => {
                *early = Some((*id, response.parts()));
                return None;
            }
            _ => return None,
        }
        state.under_way = None;
        Some(self.end(&mut state, turn, response.parts(), now))
    }

    /// Gives up what is under way, because its response does not come any more: another configuration may exchange at once.
    pub fn give_up(&self, turn: &impl ExchangeClaim) {
        if self.state().under_way.take().is_some() {
            turn.set(Duration::ZERO);
        }
    }

    fn end(
        &self,
        state: &mut ExchangeState<Id>,
        turn: &impl ExchangeClaim,
        answer: Answered,
        now: Duration,
    ) -> ExchangeEnd {
        let after = answer.as_ref().ok().and_then(Option::as_ref).map(|parts| parts.next_exchange());
        let next = now.saturating_add(after.unwrap_or(RETRY_AFTER));
        turn.set(next);
        let (parts, failure) = match answer {
            Ok(Some(parts)) => {
                (state.failed, state.named) = (0, None);
                (Some(parts), None)
            }
            // Another replica leads.
            Ok(None) => (None, self.fail(state, None)),
            Err(failure) => (None, self.fail(state, Some(failure))),
        };
        ExchangeEnd { parts, next, failure }
    }

    /// Turns to the next control plane. Returns a line for the log once all of them gave nothing, and not at every try.
    fn fail(&self, state: &mut ExchangeState<Id>, failure: Option<ExchangeFailure>) -> Option<String> {
        let cluster = self.clusters.get(state.asked).cloned().unwrap_or_default();
        state.asked = state.asked.saturating_add(1).checked_rem(self.clusters.len()).unwrap_or_default();
        state.failed = state.failed.saturating_add(1);
        let failure = failure.filter(|_| state.failed >= self.clusters.len())?;
        let is_news = state.named.replace(failure) != Some(failure);
        let reason = failure.reason(&self.node);
        is_news.then(|| format!("no control plane gives parts of limits of all gateways; {cluster:?}: {reason}"))
    }
}

impl ExchangeResponse<'_> {
    /// The parts, `None` from a control plane that divides no limits. Envoy hands no trailers on, and with them not the status of gRPC.
    fn parts(&self) -> Answered {
        if let Some(status) = self.grpc_status.filter(|status| *status != 0) {
            return Err(ExchangeFailure::Grpc(status));
        }
        match self.status {
            0 => return Err(ExchangeFailure::Unanswered),
            200 => {}
            status => return Err(ExchangeFailure::Status(status)),
        }
        let bytes: usize = self.chunks.iter().map(|chunk| chunk.len()).sum();
        if bytes > MAX_RESPONSE {
            return Err(ExchangeFailure::Refused);
        }
        let message = response_message(&self.chunks.concat()).ok_or(ExchangeFailure::Refused)?;
        if message.limits.is_empty() {
            return Ok(None);
        }
        PartsMessage::read(&message.limits).map(Some).ok_or(ExchangeFailure::Refused)
    }
}

impl ExchangeFailure {
    /// The reason in words, for a report of this node.
    fn reason(self, node: &str) -> String {
        match self {
            Self::Cluster => "there is no Envoy cluster of this name, or it has no endpoint".to_owned(),
            Self::Unanswered => "no answer came".to_owned(),
            Self::Status(status) => format!("HTTP status {status}"),
            Self::Grpc(status) => format!("gRPC status {status}"),
            Self::Refused => format!("it was refused; {node:?} has to be a name of the client certificate"),
        }
    }
}
