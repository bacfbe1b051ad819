use std::sync::Arc;
use std::time::{Duration, Instant};

use envoy_abi::http::{
    BodyStatus, CalloutId, CalloutResponse, ConfigHandle, FilterConfig, FilterHandle, HeaderMap, Headers,
    HeadersStatus, MainThread,
};
use envoy_abi::log;
use portcullis_core::farewell::End;
use portcullis_core::hygiene::PassedOn;
use portcullis_core::limit::Place;
use portcullis_core::observe::{Entry, Outcome, Seen, Series};
use portcullis_core::review::{PassedToken, Review, Settled};
use portcullis_core::tunnel::Tunnel;
use portcullis_core::{Cluster, Decision, Gateway, Refusal, RequestFacts};
use portcullis_filter_config as config;
use portcullis_filter_config::names;
use rustls_pki_types::UnixTime;
use serde::de::DeserializeOwned;

use crate::apply::{apply, refuse, show};
use crate::farewell::{Route, Visit};
use crate::fault::{self, Fault};
use crate::leave;
use crate::memory::{ProcessMemory, uptime};
use crate::metrics::Metrics;
use crate::peer::Presented;
use crate::reviews::{Pending, Reviews};

/// How often a request may wait for reviews: twice for its tokens, nine times for its impersonation, and some more for what
/// was forgotten because the configuration changed meanwhile.
const ROUNDS: u8 = 14;

/// The HTTP filter in a listener.
pub(crate) struct Filter {
    gateway: Gateway,
    metrics: Metrics,
    reviews: Reviews,
}

/// What is kept of a stream between its hooks.
#[derive(Default)]
pub(crate) struct Kept {
    owns_unauthorized: bool,
    token: Option<PassedToken>,
    /// Given back when Envoy destroys the stream's filter, which it does exactly once, however the stream ends.
    place: Option<Place>,
    waiting: Option<Arc<Pending>>,
    rounds: u8,
    /// Whether the request waits for its connection to be drained, before anything else.
    drains: bool,
    /// Whether the request came here at all.
    is_met: bool,
    /// How long it was worked on so far, and since when it waits.
    judged: Duration,
    waits_since: Option<Instant>,
    /// What it was counted as.
    counted: Option<(Arc<Series>, Seen)>,
    /// The access log's line, if there is to be one.
    line: Option<(Entry, Outcome)>,
    tunnel: Tunnel,
    visit: Visit,
    /// Whether it was told that it ends here.
    is_ended: bool,
    fault: Fault,
}

/// How far a request has come.
enum Judged {
    Waits,
    Goes,
    Ends(Refusal),
}

impl FilterConfig for Filter {
    type Route = Route;
    type Stream = Kept;

    fn new(name: &[u8], body: &[u8], handle: &mut ConfigHandle) -> Option<Self> {
        if name != names::HTTP_FILTER.as_bytes() {
            log::error("portcullis: the module has no filter of this name");
            return None;
        }
        fault::strike_if_named("config", body);
        let config = read::<config::FilterConfig>(body)?;
        let gateway = Gateway::compile(&config).map_err(|error| log::error(&format!("portcullis: {error}"))).ok()?;
        let metrics = Metrics::new(handle)?;
        let reviews = Reviews::new(handle.scheduler(), gateway.via().to_owned());
        leave::listen();
        Some(Filter { gateway, metrics, reviews })
    }

    // Envoy up to 1.39 and from 1.40 on carry the name in different fields; one filter needs none.
    fn new_route(_name: &[u8], body: &[u8]) -> Option<Route> {
        fault::strike_if_named("route", body);
        let config = read::<config::ClusterConfig>(body)?;
        let cluster = Cluster::compile(&config, &ProcessMemory::new()?)
            .map_err(|error| log::error(&format!("portcullis: {}: {error}", config.name)))
            .ok()?;
        Some(Route::new(cluster, &config))
    }

    fn request_headers(&self, route: Option<&Route>, kept: &mut Kept, stream: &mut FilterHandle) -> HeadersStatus {
        self.metrics.on_stream(stream);
        kept.is_met = true;
        kept.fault.read(stream);
        kept.fault.strike("request-headers");
        if route.is_some_and(|route| route.closes_connections()) {
            // Within this hook Envoy would take it as the end of the request.
            kept.drains = true;
            stream.scheduler().wake();
            return HeadersStatus::Wait;
        }
        self.judge(route, Settled::default(), kept, stream)
    }

    fn resumed(&self, route: Option<&Route>, kept: &mut Kept, stream: &mut FilterHandle) {
        if let Some(why) = kept.visit.over() {
            self.end(why, kept, stream);
            return;
        }
        kept.visit.obey(stream);
        kept.fault.strike("resumed");
        let settled = if std::mem::take(&mut kept.drains) {
            stream.drain_connection();
            Settled::default()
        } else {
            let Some(settled) = kept.waiting.as_ref().and_then(|pending| pending.settled()) else { return };
            settled
        };
        kept.waiting = None;
        if let Some(since) = kept.waits_since.take() {
            self.metrics.waited(stream, since.elapsed());
        }
        if self.judge(route, settled, kept, stream) == HeadersStatus::Continue {
            stream.continue_decoding();
        }
    }

    fn on_main_thread(&self, main: &mut MainThread) {
        self.reviews.send(main);
        fault::strike_once("metrics");
        self.metrics.on_main_thread(main);
    }

    fn callout_done(&self, id: CalloutId, response: &CalloutResponse<'_>) {
        self.reviews.done(id, response);
        self.metrics.changed();
    }

    fn response_headers(&self, kept: &mut Kept, stream: &mut FilterHandle) -> HeadersStatus {
        kept.fault.strike("response-headers");
        if kept.owns_unauthorized && stream.header(HeaderMap::Response, b":status") == Some(b"401") {
            let refusal = Refusal::gateway_credential();
            self.tell(Outcome::Replaced(refusal.cause), kept);
            return refuse(&refusal, stream);
        }
        if let Some(token) = kept.token.take()
            && stream.header(HeaderMap::Response, b":status") == Some(b"401")
        {
            token.is_rejected(uptime(Instant::now()));
        }
        if !std::mem::replace(&mut kept.is_met, true) {
            // Envoy answers what it does not let through to any filter.
            self.metrics.count(None, &Seen::default(), Outcome::Malformed);
            kept.line = Some((Entry::bare(), Outcome::Malformed));
        }
        let is_session = kept.tunnel.is_closed() && stream.header(HeaderMap::Response, b":status") == Some(b"101");
        if is_session && kept.tunnel.open() {
            stream.continue_decoding();
        }
        kept.visit.begin(is_session, stream);
        HeadersStatus::Continue
    }

    fn request_body(&self, kept: &mut Kept) -> BodyStatus {
        kept.fault.strike("request-body");
        if kept.tunnel.holds() { BodyStatus::Hold } else { BodyStatus::Continue }
    }

    fn request_trailers(&self, route: Option<&Route>, kept: &mut Kept, stream: &mut FilterHandle) -> bool {
        kept.fault.strike("request-trailers");
        let is_clean = self.removes_reserved_trailers(route, stream);
        if !is_clean {
            stream.reset(format!("{}{}", names::REPLY_DETAILS_PREFIX, Refusal::internal().cause.as_str()));
        }
        is_clean
    }

    fn stream_complete(&self, kept: &mut Kept, stream: &mut FilterHandle) {
        kept.fault.strike("stream-complete");
        if let Some((entry, outcome)) = kept.line.take() {
            let members = entry.finish(outcome, stream.code_details());
            stream.set_metadata(names::LOG, names::LOG_MEMBERS, &members);
        }
        kept.visit = Visit::None;
        if kept.place.take().is_some() {
            self.metrics.changed();
        }
        self.metrics.on_stream(stream);
    }

    fn fail_closed(&self, kept: &mut Kept, stream: &mut FilterHandle) {
        let refusal = Refusal::internal();
        let outcome = Outcome::Refused(refusal.cause);
        self.metrics.count(None, &Seen::default(), outcome);
        kept.line = Some((Entry::bare(), outcome));
        refuse(&refusal, stream);
    }
}

impl Filter {
    /// Removes the trailers that no client may send on. False if one of them may still be there.
    fn removes_reserved_trailers(&self, route: Option<&Route>, stream: &mut FilterHandle) -> bool {
        let Some(trailers) = stream.headers(HeaderMap::RequestTrailers) else { return false };
        let refuses = fault::is_named("remove", &trailers);
        let cluster = route.map(|route| &**route);
        let names = trailers.iter().map(|(name, _)| name);
        let reserved: Vec<Box<[u8]>> =
            names.filter(|name| self.gateway.reserves(cluster, name)).map(Into::into).collect();
        let mut is_clean = !refuses || reserved.is_empty();
        for name in &reserved {
            is_clean &= stream.remove_header(HeaderMap::RequestTrailers, name);
        }
        is_clean
    }

    /// Counts what became of a request that was forwarded, and puts it into its line.
    fn tell(&self, outcome: Outcome, kept: &mut Kept) {
        if let Some((series, seen)) = &kept.counted {
            self.metrics.count(Some(series), seen, outcome);
        }
        if let Some((_, told)) = &mut kept.line {
            *told = outcome;
        }
    }

    fn end(&self, why: End, kept: &mut Kept, stream: &mut FilterHandle) {
        // Woken for another reason, it may come here twice.
        if !std::mem::replace(&mut kept.is_ended, true) {
            self.tell(Outcome::Ended(why), kept);
        }
        kept.visit.end(why, stream);
    }

    /// Judges a request, the first time or with answers that it waited for.
    fn judge(
        &self,
        route: Option<&Route>,
        settled: Settled,
        kept: &mut Kept,
        stream: &mut FilterHandle,
    ) -> HeadersStatus {
        let start = Instant::now();
        // The route may be gone once its cache is cleared.
        let series = route.map(|cluster| Arc::clone(cluster.series()));
        let (mut seen, judged) = self.decide(route, settled, uptime(start), kept, stream);
        kept.judged = kept.judged.saturating_add(start.elapsed());
        let outcome = match &judged {
            Judged::Waits => {
                kept.waits_since = Some(Instant::now());
                return HeadersStatus::Wait;
            }
            Judged::Goes => Outcome::Forwarded,
            Judged::Ends(refusal) => Outcome::Refused(refusal.cause),
        };
        self.metrics.judged(stream, kept.judged);
        self.metrics.count(series.as_ref(), &seen, outcome);
        kept.line = seen.entry.take().map(|entry| (entry, outcome));
        match judged {
            Judged::Ends(refusal) => refuse(&refusal, stream),
            _ => {
                kept.counted = series.map(|series| (series, seen));
                kept.fault.strike("decided");
                HeadersStatus::Continue
            }
        }
    }

    fn decide(
        &self,
        route: Option<&Route>,
        settled: Settled,
        uptime: Duration,
        kept: &mut Kept,
        stream: &mut FilterHandle,
    ) -> (Seen, Judged) {
        let mut seen = Seen::default();
        let Some(headers) = stream.headers(HeaderMap::Request) else {
            return (seen, Judged::Ends(Refusal::internal()));
        };
        let refuses = kept.fault.is("remove");
        let scan = self.gateway.scan(route.map(|route| &**route), headers.iter());
        let decision = match route {
            Some(cluster) => {
                kept.fault.strike("decide");
                let presented = Presented::find(self.gateway.peer_source(), &scan, stream);
                let peer = presented.peer();
                let now = UnixTime::now();
                let request = RequestFacts { scan: &scan, peer, settled: &settled, now, uptime };
                self.gateway.decide_seen(cluster, &request, &mut seen)
            }
            None => Decision::Refuse(Gateway::unrouted(&scan)),
        };
        if let Some(entry) = &mut seen.entry {
            tell_client(entry, &headers);
        }
        let passed_on = match &decision {
            Decision::Forward(forward) => forward.passed_on,
            Decision::Review(_) | Decision::Refuse(_) => PassedOn::default(),
        };
        // What is borrowed from Envoy ends here: the first setter invalidates it.
        let (taken_out, has_connection) = (scan.taken_out(passed_on), scan.has_connection);

        if let (Decision::Forward(forward), Some(route)) = (&decision, route)
            && forward.is_long
        {
            kept.visit = route.visit(forward.is_watch);
        }
        let decision = match decision {
            // The headers stay as they are until they are judged again; nothing goes upstream meanwhile.
            Decision::Review(reviews) => match self.wait(reviews, settled, kept, stream) {
                Ok(()) => return (seen, Judged::Waits),
                Err(refusal) => Decision::Refuse(refusal),
            },
            decided => decided,
        };
        let mut is_clean = !refuses;
        for name in taken_out.names() {
            is_clean &= stream.remove_header(HeaderMap::Request, name);
        }
        kept.fault.strike("removed");
        let is_shown = seen.shown.take().is_none_or(|shown| show(&shown, stream));
        // A header that is still there could tell another identity than the one decided.
        let decision = if is_clean && is_shown { decision } else { Decision::Refuse(Refusal::internal()) };
        (seen, carry_out(decision, has_connection, kept, stream))
    }

    fn wait(
        &self,
        reviews: Vec<Review>,
        settled: Settled,
        kept: &mut Kept,
        stream: &mut FilterHandle,
    ) -> Result<(), Refusal> {
        kept.rounds = kept.rounds.saturating_add(1);
        if kept.rounds > ROUNDS {
            return Err(Refusal::review_failed());
        }
        let pending = Pending::new(stream.scheduler(), reviews.len(), settled);
        self.reviews.ask(reviews, &pending)?;
        kept.fault.strike("asked");
        kept.waiting = Some(pending);
        Ok(())
    }
}

fn carry_out(decision: Decision<'_>, has_connection: bool, kept: &mut Kept, stream: &mut FilterHandle) -> Judged {
    match decision {
        Decision::Forward(mut forward) => match apply(&forward, has_connection, stream) {
            Ok(()) => {
                kept.fault.strike("applied");
                kept.place = forward.place.take();
                kept.owns_unauthorized = forward.owns_unauthorized;
                kept.token = forward.token.take();
                kept.tunnel = Tunnel::of(forward.is_upgrade);
                Judged::Goes
            }
            Err(refusal) => Judged::Ends(refusal),
        },
        Decision::Refuse(refusal) => Judged::Ends(refusal),
        Decision::Review(_) => Judged::Ends(Refusal::internal()),
    }
}

fn tell_client(entry: &mut Entry, headers: &Headers<'_>) {
    let header = |wanted: &[u8]| headers.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
    entry.client(header(b"user-agent"), header(b"x-request-id"));
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body)
        .map_err(|error| log::error(&format!("portcullis: the configuration does not parse: {error}")))
        .ok()
}
