//! A request and its response as one state machine, which every host drives: the dynamic module, the proxy-wasm filter,
//! `portcullis explain` and tests.
//!
//! The host calls [`Exchange`] from the proxy's hooks; the exchange decides ([`crate::Gateway::decide_recording`]), waits for
//! reviews, edits the request, opens its route, and counts and logs it. [`Host`] is its view of the proxy.
//!
//! # Invariants
//! - Nothing goes upstream unless every edit succeeded and the route was opened: each early return answers the request here.
//! - Headers that no client may send are removed from every request, also from one that is answered here, before anything is
//!   added.
//! - A request that waits, for reviews or a seat, has not been changed.
//! - A forwarded request is never decided again, and no body or trailers go on of a request that was not forwarded.

mod certificate;
mod compiled;
mod decide;
mod door_hosts;
mod drain;
mod host;
mod memory;
mod pending;
mod response;
mod route;
mod route_cache;
mod route_config;
mod route_judge;
mod route_update;
mod span;
#[cfg(test)]
mod tests;
mod timeline;
mod tracking;
mod wait;

use std::sync::Arc;
use std::time::Duration;

pub use compiled::CompiledClusters;
use decide::{Decided, decide};
use drain::Drain;
pub use host::{Asked, HeaderLines, Host};
pub use memory::MemoryHost;
pub use pending::PendingUpdates;
use portcullis_filter_config::SpanSettings;
pub use route::LoadError;
pub use route_cache::RouteCache;
pub use route_config::RouteConfig;
pub use route_update::{RouteUpdate, StreamCall};
use timeline::Timeline;
use tracking::Tracking;
use wait::WaitingFor;

use crate::fair::{Admission, Seat};
use crate::fault::Fault;
pub use crate::gateway::Edit;
use crate::gateway::{Decision, Forward, Gateway};
use crate::limit::InFlightPermit;
use crate::moment::Moment;
use crate::observe::{AccessLogEntry, ClusterMetrics, Outcome, RequestRecord, RunningRequest};
use crate::rebalance::RunningPlace;
use crate::refusal::Refusal;
use crate::review::{PassedToken, ReviewAnswers};
use crate::upgrade_gate::UpgradeGate;

/// The proxy's next step after a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The message goes on.
    Continue,
    /// The request waits until [`Host::continue_request`] or a reply.
    Pause,
    /// The stream was answered or reset: nothing of the message goes on.
    Stop,
}

/// One request and its response. Dropped with the stream, which gives its permit back.
#[derive(Debug)]
pub struct Exchange<T> {
    fault: Fault,
    /// False if the proxy answered before the filter saw the request.
    saw_request: bool,
    /// The request was answered here: nothing of it may be touched any more.
    is_answered: bool,
    drain: Drain,
    rounds: u8,
    answers: ReviewAnswers,
    waiting: WaitingFor,
    /// The outcome of its wait for a seat.
    admission: Admission,
    processing_time: Duration,
    timeline: Timeline,
    is_forwarded: bool,
    /// The request may run for as long as it likes.
    is_long: bool,
    /// The metrics and the labels of the request, to count what happens to it later. No metrics if it reached no cluster.
    metrics: Option<Arc<ClusterMetrics>>,
    record: RequestRecord,
    running: Option<RunningRequest>,
    /// The request counts among its client's already.
    is_counted: bool,
    log_entry: Option<AccessLogEntry>,
    outcome: Option<Outcome>,
    tracing: Option<SpanSettings>,
    /// The request has a span, to add to it what happens later.
    is_traced: bool,
    permit: Option<InFlightPermit>,
    seat: Option<Seat>,
    /// The seat is needed until the answer begins.
    is_start: bool,
    /// The place among the requests of the process by which connections are drained.
    place: Option<RunningPlace>,
    token: Option<PassedToken>,
    owns_unauthorized: bool,
    upgrade: UpgradeGate,
    tracking: Tracking<T>,
    /// It was reset because its load has to go.
    is_expelled: bool,
}

impl<T> Default for Exchange<T> {
    fn default() -> Self {
        Exchange {
            fault: Fault::default(),
            saw_request: false,
            is_answered: false,
            drain: Drain::None,
            rounds: 0,
            answers: ReviewAnswers::default(),
            waiting: WaitingFor::Nothing,
            admission: Admission::None,
            processing_time: Duration::ZERO,
            timeline: Timeline::default(),
            is_forwarded: false,
            is_long: false,
            metrics: None,
            record: RequestRecord::default(),
            running: None,
            is_counted: false,
            log_entry: None,
            outcome: None,
            tracing: None,
            is_traced: false,
            permit: None,
            seat: None,
            is_start: false,
            place: None,
            token: None,
            owns_unauthorized: false,
            upgrade: UpgradeGate::default(),
            tracking: Tracking::None,
            is_expelled: false,
        }
    }
}

/// How far a request has come.
enum Progress {
    Waiting,
    Retry,
    Forwarded,
    Refused(Refusal),
}

impl<T: Clone> Exchange<T> {
    /// Takes a request's headers. Called once.
    pub fn request_headers<H: Host<Stream = T>>(
        &mut self,
        gateway: &Gateway,
        route: Option<&RouteConfig<T>>,
        host: &mut H,
    ) -> Next {
        self.fault.read(|name| host.request_header(name));
        self.fault.strike("request-headers");
        self.saw_request = true;
        self.tracing = gateway.tracing();
        // The proxy may drop the route's configuration once the route is chosen again, and the request may leave before that.
        self.metrics = route.map(|route| Arc::clone(route.cluster.series()));
        if let Some(route) = route {
            route.load.note_use();
        }
        if route.is_some_and(|route| route.cluster.closes_connections()) && host.schedule_drain() {
            self.describe_undecided(host);
            self.drain = Drain::BeforeDecision;
            return Next::Pause;
        }
        self.process(gateway, route, host)
    }

    /// Goes on with a request that paused, if what it waited for has come.
    pub fn resume<H: Host<Stream = T>>(
        &mut self,
        gateway: &Gateway,
        route: Option<&RouteConfig<T>>,
        host: &mut H,
    ) -> Next {
        self.fault.strike("resumed");
        if self.is_answered {
            return Next::Stop;
        }
        match std::mem::take(&mut self.drain) {
            Drain::None => {
                if !self.end_wait(host) {
                    return Next::Pause;
                }
            }
            Drain::BeforeDecision => host.drain_connection(),
            Drain::Beside => {
                host.drain_connection();
                return Next::Pause;
            }
            Drain::BeforeReply(refusal) => {
                host.drain_connection();
                return self.answer(&refusal, host);
            }
        }
        let next = self.process(gateway, route, host);
        if next == Next::Continue {
            host.continue_request();
        }
        next
    }

    fn is_forwarded(&self) -> bool {
        self.is_forwarded && !self.is_answered
    }

    /// The answers that the request has waited for.
    pub fn answers(&self) -> &ReviewAnswers {
        &self.answers
    }

    /// Answers a stream after a panic, or where the host lacks what a decision needs.
    pub fn fail_closed(&mut self, host: &mut impl Host<Stream = T>) {
        let refusal = Refusal::internal();
        let outcome = Outcome::Refused(refusal.cause);
        // The proxy's answer to a request that it did not show is another matter.
        (self.saw_request, self.is_answered) = (true, true);
        (self.log_entry, self.outcome) = (Some(AccessLogEntry::bare()), Some(outcome));
        // First, because what follows may panic as well, and nothing catches that but an end without an answer.
        reply(&refusal, host);
        host.count(self.metrics.as_ref(), &RequestRecord::default(), outcome);
        host.end_wait();
        self.describe_failure(outcome, host);
    }

    /// Decides a request, the first time or with the answers that it waited for, and carries the decision out.
    fn process<H: Host<Stream = T>>(
        &mut self,
        gateway: &Gateway,
        route: Option<&RouteConfig<T>>,
        host: &mut H,
    ) -> Next {
        let Some(start) = host.moment() else {
            self.fail_closed(host);
            return Next::Stop;
        };
        let mut seen = RequestRecord::default();
        self.timeline.received.get_or_insert(start.uptime);
        let progress = self.decide_or_ask(gateway, route, start, &mut seen, host);
        let end = host.uptime().unwrap_or(start.uptime);
        self.processing_time = self.processing_time.saturating_add(end.saturating_sub(start.uptime));
        let outcome = match &progress {
            Progress::Waiting | Progress::Retry => {
                // For the case that it leaves while it waits.
                self.record = seen;
                self.waiting.begin(end);
                return Next::Pause;
            }
            Progress::Forwarded => Outcome::Forwarded,
            Progress::Refused(refusal) => Outcome::Refused(refusal.cause),
        };
        host.record_processing(u64::try_from(self.processing_time.as_micros()).unwrap_or(u64::MAX));
        host.count(self.metrics.as_ref(), &seen, outcome);
        if let Some(mut span) = seen.span.take() {
            self.describe_span(&mut span, outcome, host);
        }
        (self.log_entry, self.outcome) = (seen.entry.take(), Some(outcome));
        self.record = seen;
        if let Progress::Refused(refusal) = progress {
            return self.refuse(refusal, host);
        }
        // One that reached no cluster is not forwarded.
        self.is_forwarded = self.metrics.is_some();
        self.timeline.forwarded = Some(end);
        self.running = self.metrics.as_ref().map(|metrics| metrics.start(self.record.key, self.is_long));
        if self.is_long && self.record.is_authenticated() {
            self.count_talker(0, true, host);
        }
        self.rebalance_forwarded(host);
        self.track_forwarded(host);
        self.fault.strike("decided");
        Next::Continue
    }

    /// Decides until an answer is missing that the host does not have.
    fn decide_or_ask<H: Host<Stream = T>>(
        &mut self,
        gateway: &Gateway,
        route: Option<&RouteConfig<T>>,
        at: Moment,
        seen: &mut RequestRecord,
        host: &mut H,
    ) -> Progress {
        loop {
            self.fault.strike("decide");
            let Some(decided) = decide(gateway, route, &self.answers, &mut self.admission, at, host, seen) else {
                return Progress::Refused(Refusal::internal());
            };
            if seen.revocation_check.take().is_some_and(|review| !host.ask_aside(*review)) {
                return Progress::Refused(Refusal::internal());
            }
            self.is_traced = seen.span.is_some();
            match self.carry_out(decided, route, seen, host) {
                Progress::Retry => *seen = RequestRecord::default(),
                progress => return progress,
            }
        }
    }

    /// Removes the headers that no client may send on, then forwards or refuses. If the host fails to remove one, a request is
    /// not forwarded. Nothing is read back: [`Host::edit`] is false if the proxy refused.
    fn carry_out<H: Host<Stream = T>>(
        &mut self,
        decided: Decided<'_>,
        route: Option<&RouteConfig<T>>,
        seen: &mut RequestRecord,
        host: &mut H,
    ) -> Progress {
        let decision = match decided.decision {
            // The headers stay as they are until they are read again; nothing goes upstream meanwhile.
            Decision::Review(reviews) => match self.ask(reviews, seen, host) {
                Ok(Asked::Waiting) => return Progress::Waiting,
                Ok(Asked::Found) => return Progress::Retry,
                Err(refusal) => Decision::Refuse(refusal),
            },
            Decision::Queue(wanted, full) => match self.queue(wanted, full, seen, host) {
                Ok(Asked::Waiting) => return Progress::Waiting,
                Ok(Asked::Found) => return Progress::Retry,
                Err(refusal) => Decision::Refuse(refusal),
            },
            decision => decision,
        };
        let mut is_clean = !self.fault.is("remove");
        for name in decided.removals.names() {
            is_clean &= host.edit(Edit::Remove(name));
        }
        self.fault.strike("removed");
        let attributes = seen.attributes.take();
        let is_exported = attributes.is_none_or(|attributes| host.export(&attributes));
        match decision {
            // A header that is still there could carry another identity than the one decided, an attribute that is missing
            // could lead to another route.
            Decision::Forward(forward) if is_clean && is_exported => {
                self.forward(forward, decided.has_connection, route, host)
            }
            Decision::Refuse(refusal) => {
                span::shorten(host);
                Progress::Refused(refusal)
            }
            Decision::Forward(_) | Decision::Review(_) | Decision::Queue(..) => Progress::Refused(Refusal::internal()),
        }
    }

    fn forward<H: Host<Stream = T>>(
        &mut self,
        mut forward: Forward<'_>,
        has_connection: bool,
        route: Option<&RouteConfig<T>>,
        host: &mut H,
    ) -> Progress {
        let is_edited = forward.edits(has_connection).all(|edit| host.edit(edit));
        // Before the route is opened, which may free the configuration of the one before.
        let tracked = route.filter(|_| forward.is_long).map(|route| Tracking::of(route, &mut forward, host));
        if !is_edited || !host.open_route(forward.destination) {
            return Progress::Refused(Refusal::internal());
        }
        self.fault.strike("applied");
        self.permit = forward.permit.take();
        self.seat = forward.seat.take();
        self.is_start = forward.is_start;
        self.token = forward.token.take();
        self.owns_unauthorized = forward.owns_unauthorized;
        self.upgrade = UpgradeGate::for_request(forward.is_upgrade);
        self.is_long = forward.is_long;
        self.tracking = tracked.unwrap_or_default();
        Progress::Forwarded
    }
}

/// Answers the stream.
///
/// Envoy answers a gRPC request with 200 and a `grpc-status`, which is 0 for a `Status` body: success. No kube-apiserver speaks
/// gRPC to its clients, so that such a request is reset.
fn reply(refusal: &Refusal, host: &mut impl Host) {
    let is_grpc = host.request_header("content-type").is_some_and(|kind| kind.starts_with(b"application/grpc"));
    if is_grpc || !host.reply(refusal) {
        host.reset(refusal.details());
    }
}
