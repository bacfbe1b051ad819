use std::borrow::Cow;
use std::time::Duration;

use super::host::{HeaderLines, Host};
use super::timeline::{Timeline, between};
use super::tracking::{KnownPart, Tracking, reached_server};
use super::{Exchange, Next, RouteConfig, reply};
use crate::fault;
use crate::gateway::Gateway;
use crate::header_scan::{HeaderScan, Reserved};
use crate::long_streams::{StreamCommand, StreamHandle, StreamStart, TerminationReason};
use crate::observe::{AccessLogEntry, ClusterMetrics, Outcome, RequestRecord, Response, Server};
use crate::refusal::{Refusal, details};
use crate::request_id::request_id;
use crate::schedule::Wake;

impl<T: Clone> Exchange<T> {
    /// Takes a piece of the request's body, after [`Exchange::follow_body`]. [`Next::Pause`] holds it back: an upgrade's body goes
    /// upstream only after the upstream's 101, and nothing of a request that was not forwarded.
    pub fn request_body(&mut self) -> Next {
        self.fault.strike("request-body");
        if !self.is_forwarded() || self.upgrade.buffer_body() { Next::Pause } else { Next::Continue }
    }

    /// Takes the request's trailers, and removes those that no client may send.
    pub fn request_trailers<H: Host<Stream = T>>(
        &mut self,
        gateway: &Gateway,
        route: Option<&RouteConfig<T>>,
        host: &mut H,
    ) -> Next {
        self.fault.strike("request-trailers");
        if !self.is_forwarded() {
            return Next::Stop;
        }
        let cluster = route.map(|route| &route.cluster);
        let reserved: Option<Vec<Box<[u8]>>> = host.request_trailers().and_then(|trailers| {
            if fault::is_named("remove", trailers.lines()) {
                return None;
            }
            let names = trailers.lines().map(|(name, _)| name);
            Some(names.filter(|name| gateway.reserves(cluster, name)).map(Into::into).collect())
        });
        let is_clean = reserved.is_some_and(|names| names.iter().all(|name| host.remove_trailer(name)));
        if is_clean {
            return Next::Continue;
        }
        self.is_answered = true;
        host.reset(Refusal::internal().details());
        Next::Stop
    }

    /// Takes the response's headers.
    pub fn response_headers(&mut self, host: &mut impl Host<Stream = T>) -> Next {
        self.fault.strike("response-headers");
        if self.is_answered {
            return Next::Continue;
        }
        self.timeline.answered = host.uptime();
        if self.is_start {
            // A watch has started.
            self.release_seat(host);
        }
        self.note_unseen_request(host);
        let token = self.token.take();
        let needs_status = self.owns_unauthorized || token.is_some() || self.upgrade.is_closed();
        let status = if needs_status { host.response_status() } else { None };
        let is_unauthorized = status.as_deref() == Some(b"401");
        let is_session = self.upgrade.is_closed() && status.as_deref() == Some(b"101");
        drop(status);
        if self.owns_unauthorized && is_unauthorized {
            let refusal = Refusal::gateway_credential();
            self.note(Outcome::Replaced(refusal.cause), host);
            self.is_answered = true;
            self.tracking = Tracking::None;
            reply(&refusal, host);
            return Next::Stop;
        }
        if let (true, Some(token), Some(now)) = (is_unauthorized, token, self.timeline.answered) {
            token.report_rejected(now);
            host.token_rejected(&token.key(), now);
        }
        if is_session {
            // It has started, as a watch has.
            self.release_seat(host);
            if self.upgrade.open() {
                host.continue_request();
            }
        }
        self.track_answer(is_session, host);
        if self.is_long && !self.is_counted {
            self.count_long_talker(host);
        }
        Next::Continue
    }

    /// The server has nothing more to do for the request: gives back its seat and its permit, which a client that does not read the
    /// answer would hold until the stream ends.
    pub fn response_ended(&mut self, host: &mut impl Host<Stream = T>) {
        self.fault.strike("response-ended");
        self.leave_queue(host);
        self.release_permit(host);
    }

    fn release_permit(&mut self, host: &mut impl Host<Stream = T>) {
        self.record.end_shadow();
        if self.permit.take().is_some() {
            host.gauges_changed();
        }
    }

    /// Counts a request that the proxy answered before the filter saw it, such as malformed HTTP. For hosts to which the proxy
    /// does not show the response of such a request.
    pub fn note_unseen_request(&mut self, host: &mut impl Host<Stream = T>) {
        if !std::mem::replace(&mut self.saw_request, true) {
            host.count(None, &RequestRecord::default(), Outcome::Malformed);
            (self.log_entry, self.outcome) = (Some(AccessLogEntry::bare()), Some(Outcome::Malformed));
        }
    }

    /// Ends a stream. One that runs for long ends as if the server had ended its answer if it is a watch: its client opens it again.
    pub fn terminate(&mut self, why: TerminationReason, host: &mut impl Host<Stream = T>) {
        if why == TerminationReason::ConfigurationReplaced {
            self.expel(host);
            return;
        }
        let Tracking::Active { stream, is_watch, known, is_terminated, .. } = &mut self.tracking else { return };
        if std::mem::replace(is_terminated, true) {
            return;
        }
        if *is_watch && *known == KnownPart::Answer {
            host.finish(stream);
        } else {
            host.reset(details(why.as_str()));
        }
        self.note(Outcome::Terminated(why), host);
    }

    /// Resets a stream of which the proxy must give back memory, whatever it is doing: also one that was ended before and whose client
    /// does not read.
    #[cold]
    fn expel(&mut self, host: &mut impl Host<Stream = T>) {
        if std::mem::replace(&mut self.is_expelled, true) {
            return;
        }
        let outcome = Outcome::Terminated(TerminationReason::ConfigurationReplaced);
        if self.is_forwarded() {
            self.note(outcome, host);
        } else if self.outcome.is_none() {
            self.leave_undecided(outcome, host);
        }
        self.is_answered = true;
        host.end_wait();
        self.leave_queue(host);
        host.reset(details(TerminationReason::ConfigurationReplaced.as_str()));
    }

    /// The host's handle of this stream, once it is registered as one that runs for long.
    pub fn long_stream(&self) -> Option<&T> {
        match &self.tracking {
            Tracking::Active { stream, .. } => Some(stream),
            Tracking::None | Tracking::Pending { .. } => None,
        }
    }

    /// The stream has ended, however it did, and the access log is written next.
    pub fn complete(&mut self, host: &mut impl Host<Stream = T>) {
        self.fault.strike("stream-complete");
        host.end_wait();
        if self.saw_request && self.outcome.is_none() {
            self.leave_undecided(Outcome::Abandoned, host);
        }
        self.count_response(host);
        if let (Some(entry), Some(outcome)) = (self.log_entry.take(), self.outcome) {
            let members = entry.finish(outcome, host.code_details().as_deref());
            host.log(&members);
        }
        self.tracking = Tracking::None;
        self.leave_queue(host);
        self.release_permit(host);
    }

    /// Counts a request that left before it was decided.
    #[cold]
    fn leave_undecided(&mut self, outcome: Outcome, host: &mut impl Host<Stream = T>) {
        // It was compared with a decision that the client did not wait for.
        self.record.shadow = None;
        host.count(self.metrics.as_ref(), &self.record, outcome);
        self.outcome = Some(outcome);
        if let Some(metrics) = self.metrics.as_ref().filter(|metrics| self.record.is_logged(metrics)) {
            self.log_entry = late_entry(&self.record, metrics, host);
        }
    }

    /// Counts the answer, or the end without one.
    fn count_response(&mut self, host: &mut impl Host<Stream = T>) {
        let now = host.uptime();
        let end = if self.is_long { self.timeline.answered } else { None }.or(now);
        let metrics = self.metrics.as_ref().filter(|_| self.is_forwarded);
        let known = metrics.and_then(|metrics| metrics.server_at(host.server_address()?)).map(Server::Known);
        let named = if metrics.is_some() && known.is_none() { host.server() } else { None };
        let other = || if host.reached_server() { Server::Unnamed } else { Server::Missing };
        let server = metrics.map(|_| known.or(named.as_deref().map(Server::Named)).unwrap_or_else(other));
        let Timeline { received, forwarded, answered, .. } = self.timeline;
        let mut response = Response {
            code: host.response_code().unwrap_or(0),
            server,
            duration: between(received, end).filter(|_| server.is_some()),
            server_duration: between(forwarded, answered).filter(|_| server != Some(Server::Missing)),
            bytes: host.response_bytes(),
        };
        let is_known = self.record.is_known(&response);
        // Quick answers to strangers would hide a slow server.
        response.server_duration = response.server_duration.filter(|_| is_known);
        self.count_talker(response.bytes.unwrap_or(0), is_known, host);
        // The host shows gauges with it.
        (self.running, self.place) = (None, None);
        host.count_response(self.metrics.as_ref(), &self.record, &response);
        if let (Some(end), Some(now)) = (end, now) {
            self.log_conspicuous(&response, end, now, host);
        }
    }

    /// Counts the request among its client's, if the settings ask for it: when it ends, or already when it begins to run for
    /// long; bytes follow then. The user agent of a client that is not `is_known` has no name: it can be any.
    pub(super) fn count_talker(&mut self, bytes: u64, is_known: bool, host: &impl Host<Stream = T>) {
        let Some(talkers) = self.metrics.as_ref().and_then(|metrics| metrics.talkers()) else { return };
        let is_new = !std::mem::replace(&mut self.is_counted, true);
        let is_refused = matches!(self.outcome, Some(Outcome::Refused(_)));
        let agent = if is_known { host.request_header("user-agent") } else { None };
        let agent = is_known.then(|| agent.as_deref().unwrap_or_default());
        talkers.count(self.record.requester(), agent, self.record.amounts(is_new, bytes, is_refused));
    }

    /// Counts a long-running request whose credential the server has judged.
    fn count_long_talker(&mut self, host: &impl Host<Stream = T>) {
        if self.metrics.as_ref().is_some_and(|metrics| metrics.talkers().is_some()) {
            let status = host.response_status();
            let code = status.as_deref().and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
            let is_known = self.record.is_authenticated() || self.record.is_let_in(code.unwrap_or(0));
            drop(status);
            self.count_talker(0, is_known, host);
        }
    }

    /// Writes the log entry of a request that was slow or failed, or adds to the one that it has. Its own time ended at `end`; it
    /// is `now`.
    fn log_conspicuous(&mut self, response: &Response<'_>, end: Duration, now: Duration, host: &impl Host<Stream = T>) {
        let Some(metrics) = &self.metrics else { return };
        // A stranger may take any time to read an answer.
        let is_known = self.record.is_known(response);
        let Some(why) = metrics.conspicuous(response.code, response.duration.filter(|_| is_known)) else { return };
        if self.log_entry.is_none() {
            let Some(suppressed) = metrics.admit_line(why, is_known, now) else { return };
            let Some(mut entry) = late_entry(&self.record, metrics, host) else { return };
            entry.suppressed(suppressed);
            self.log_entry = Some(entry);
        }
        let phases = self.timeline.phases(end);
        if let Some(entry) = &mut self.log_entry {
            entry.conspicuous(why, phases);
        }
    }

    /// Counts what happened to a forwarded request, for its log entry too.
    fn note(&mut self, outcome: Outcome, host: &mut impl Host<Stream = T>) {
        if self.is_forwarded {
            host.count(self.metrics.as_ref(), &self.record, outcome);
        }
        if self.is_traced {
            self.amend_span(outcome, host);
        }
        self.outcome = Some(outcome);
    }

    /// Registers a stream, with its answer or before it.
    pub(super) fn track(&mut self, known: KnownPart, is_session: bool, host: &mut impl Host<Stream = T>) {
        if !matches!(self.tracking, Tracking::Pending { .. }) {
            return;
        }
        let is_answered = known == KnownPart::Answer;
        let reached = if is_answered { reached_server(host) } else { None };
        let pending = std::mem::take(&mut self.tracking);
        let Tracking::Pending { streams, kept, load, origin, is_watch, is_ordinary } = pending else { return };
        // A response of Envoy's own may have no server.
        let is_running = !is_answered || reached.is_some() || is_session || is_ordinary;
        let (true, Some(now)) = (is_running, host.moment()) else { return };
        let server = reached.flatten();
        // A watch without an answer cannot end as one.
        let stream = host.stream(is_watch && is_answered);
        let arrival = StreamStart {
            server: server.as_deref(),
            is_session,
            is_answer: is_ordinary && !is_session,
            kept: &kept,
            load,
            // It had come when it was decided.
            received: self.timeline.received.unwrap_or_default(),
            origin: origin.as_ref(),
        };
        let (guard, next) = streams.register(arrival, stream.clone(), now);
        if let Some(at) = next {
            host.call_at(&streams, at);
        }
        let edition = kept.edition();
        self.tracking = Tracking::Active { stream, is_watch, edition, known, is_terminated: false, guard };
    }
}

/// The log entry of a request that its policy does not log, or that has none yet, once it has ended. `None` if its headers
/// cannot be read.
#[cold]
fn late_entry(record: &RequestRecord, metrics: &ClusterMetrics, host: &impl Host) -> Option<AccessLogEntry> {
    let headers = host.request_headers()?;
    let scan = HeaderScan::from_headers(headers.lines(), b"", Reserved::default());
    let header = |wanted: &[u8]| headers.lines().find(|(name, _)| *name == wanted).map(|(_, value)| value);
    let mut entry = record.late_entry(metrics, &scan);
    let id = match (scan.request_id, &record.id) {
        (b"", Some(own)) => Cow::Borrowed(own.as_bytes()),
        (b"", None) => Cow::Owned(request_id().into_bytes()),
        (envoys, _) => Cow::Borrowed(envoys),
    };
    entry.client(header(b"user-agent"), &id);
    Some(entry)
}

impl<W: Wake> Exchange<StreamHandle<W>> {
    /// Obeys other threads that end this stream or send it commands, and goes on with a request that paused. For hosts whose
    /// workers share memory.
    pub fn wake<H: Host<Stream = StreamHandle<W>>>(
        &mut self,
        gateway: &Gateway,
        route: Option<&RouteConfig<StreamHandle<W>>>,
        host: &mut H,
    ) {
        if route.is_some_and(RouteConfig::is_ended) {
            self.terminate(TerminationReason::ConfigurationReplaced, host);
            return;
        }
        if let Some(stream) = self.long_stream().cloned() {
            if let Some(why) = stream.termination() {
                self.terminate(why, host);
                return;
            }
            let [drains, ends] = stream.take_commands([StreamCommand::DrainConnection, StreamCommand::End]);
            if drains {
                host.drain_connection();
            }
            if ends {
                host.finish(&stream);
            }
        }
        self.resume(gateway, route, host);
    }
}
