use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use portcullis_filter_config::names;
use portcullis_filter_config::names::span::Attribute;
use rustls_pki_types::UnixTime;

use super::host::{Asked, HeaderLines, Host};
use crate::fair::{BoxedWake, FairQueue};
use crate::gateway::Edit;
use crate::long_streams::StreamRegistry;
use crate::moment::Moment;
use crate::observe::{ClusterMetrics, Outcome, Publisher, RequestAttributes, RequestRecord, Response, Server};
use crate::refusal::Refusal;
use crate::review::{Review, ReviewAnswers, ReviewResult};
use crate::schedule::Wake;
use crate::x509::KnownChains;

/// A proxy in memory that runs one stream: for tools and tests. `A` answers reviews, at once.
#[derive(Debug)]
pub struct MemoryHost<A> {
    /// Request headers, names in lower case; edited in place.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Request trailers.
    pub trailers: Vec<(Vec<u8>, Vec<u8>)>,
    /// `:status` of the response.
    pub status: Option<&'static str>,
    /// The server that the request went to.
    pub server: Option<String>,
    /// The address of that server.
    pub address: Option<&'static str>,
    /// The client's chain as a certificate validator records it.
    pub chain: Option<Vec<u8>>,
    /// Whether the TLS handshake had a certificate of which no chain was recorded.
    pub lost_chain: bool,
    /// The SHA-256 digest of the handshake's certificate in hexadecimal digits, as Envoy writes it.
    pub digest: Option<Vec<u8>>,
    /// That certificate as the connection's filter state has it.
    pub certificate: Option<String>,
    /// Chains that were parsed from headers.
    pub known_chains: RefCell<KnownChains>,
    /// The time. `None` is a proxy without a clock.
    pub moment: Option<Moment>,
    /// Answers a review.
    pub reviewer: A,
    /// A name that the proxy refuses to remove or to write, of headers, trailers and filter state.
    pub refuses: Option<Vec<u8>>,
    /// The server name of the client's handshake.
    pub server_name: Option<&'static str>,
    /// Whether the proxy can close a connection for further requests.
    pub drains: bool,
    /// Random numbers.
    pub random: u64,
    /// Whether answers to reviews get lost, as they do when the configuration changes meanwhile.
    pub loses_answers: bool,
    /// How often the stream was woken, if it can wait for a seat.
    pub woken: Option<Arc<AtomicU32>>,
    /// Whether it has no timer for requests that wait.
    pub timer_fails: bool,
    /// The filter state that opened a route.
    pub destination: Option<String>,
    /// Exported attributes.
    pub exported: Vec<(&'static str, String)>,
    /// The response of the gateway's own, if it answered.
    pub reply: Option<Refusal>,
    /// Every other effect in order, as one word and its argument.
    pub effects: Vec<String>,
    /// Counts decisions and answers as well.
    pub publisher: Option<Arc<Publisher>>,
    /// The name and the attributes of the span, and its waits, in order.
    pub span: Vec<String>,
    /// Counted answers: whether the request reached the cluster, status, server and milliseconds.
    pub responses: RefCell<Vec<String>>,
    answers: ReviewAnswers,
}

impl<A> MemoryHost<A> {
    /// A proxy with a request of these headers at that time.
    pub fn new(headers: Vec<(Vec<u8>, Vec<u8>)>, now: UnixTime, uptime: Duration, reviewer: A) -> Self {
        MemoryHost {
            headers,
            trailers: Vec::new(),
            status: None,
            server: None,
            address: None,
            chain: None,
            lost_chain: false,
            digest: None,
            certificate: None,
            known_chains: RefCell::default(),
            moment: Some(Moment { now, uptime }),
            reviewer,
            refuses: None,
            server_name: None,
            drains: false,
            random: u64::MAX,
            loses_answers: false,
            woken: None,
            timer_fails: false,
            destination: None,
            exported: Vec::new(),
            reply: None,
            effects: Vec::new(),
            publisher: None,
            span: Vec::new(),
            responses: RefCell::default(),
            answers: ReviewAnswers::default(),
        }
    }

    fn takes(&self, name: &[u8]) -> bool {
        self.refuses.as_deref() != Some(name)
    }

    fn remove(lines: &mut Vec<(Vec<u8>, Vec<u8>)>, name: &[u8]) {
        lines.retain(|(line, _)| !line.eq_ignore_ascii_case(name));
    }
}

struct WakeCounter(Arc<AtomicU32>);

impl Wake for WakeCounter {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lines of a [`MemoryHost`].
#[derive(Debug)]
pub struct MemoryLines<'h>(&'h [(Vec<u8>, Vec<u8>)]);

impl HeaderLines for MemoryLines<'_> {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }
}

impl<A: FnMut(&Review) -> ReviewResult> Host for MemoryHost<A> {
    type Headers<'h>
        = MemoryLines<'h>
    where
        Self: 'h;
    type Stream = ();

    fn request_headers(&self) -> Option<MemoryLines<'_>> {
        Some(MemoryLines(&self.headers))
    }

    fn request_header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let line = self.headers.iter().find(|(line, _)| line == name.as_bytes());
        line.map(|(_, value)| Cow::Borrowed(value.as_slice()))
    }

    fn request_trailers(&self) -> Option<MemoryLines<'_>> {
        Some(MemoryLines(&self.trailers))
    }

    fn response_status(&self) -> Option<Cow<'_, [u8]>> {
        self.status.map(|status| Cow::Borrowed(status.as_bytes()))
    }

    fn code_details(&self) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn server(&self) -> Option<Cow<'_, [u8]>> {
        self.server.as_ref().map(|name| Cow::Borrowed(name.as_bytes()))
    }

    fn server_address(&self) -> Option<&[u8]> {
        self.address.map(str::as_bytes)
    }

    fn server_name(&self) -> Option<Cow<'_, [u8]>> {
        self.server_name.map(|name| Cow::Borrowed(name.as_bytes()))
    }

    fn response_code(&self) -> Option<u16> {
        let of_reply = self.reply.as_ref().map(|reply| reply.code);
        of_reply.or_else(|| self.status.and_then(|status| status.parse().ok()))
    }

    fn response_bytes(&self) -> Option<u64> {
        Some(0)
    }

    fn moment(&self) -> Option<Moment> {
        self.moment
    }

    fn uptime(&self) -> Option<Duration> {
        self.moment.map(|moment| moment.uptime)
    }

    fn recorded_chain(&self) -> Option<&[u8]> {
        self.chain.as_deref()
    }

    fn connection_certificate(&self) -> Option<Cow<'_, [u8]>> {
        self.certificate.as_deref().map(|text| Cow::Borrowed(text.as_bytes()))
    }

    fn certificate_digest(&self) -> Option<Cow<'_, [u8]>> {
        self.digest.as_deref().map(Cow::Borrowed)
    }

    fn presented_certificate(&self) -> bool {
        self.chain.is_some() || self.lost_chain || self.digest.as_ref().is_some_and(|digest| !digest.is_empty())
    }

    fn with_known_chains<R>(&self, f: impl FnOnce(&mut KnownChains) -> R) -> Option<R> {
        self.known_chains.try_borrow_mut().ok().map(|mut known| f(&mut known))
    }

    fn edit(&mut self, edit: Edit<'_>) -> bool {
        let (Edit::Remove(name) | Edit::Set(name, _) | Edit::Add(name, _)) = edit;
        if !self.takes(name) {
            return false;
        }
        if matches!(edit, Edit::Remove(_) | Edit::Set(..)) {
            Self::remove(&mut self.headers, name);
        }
        if let Edit::Set(name, value) | Edit::Add(name, value) = edit {
            self.headers.push((name.to_vec(), value.to_vec()));
        }
        true
    }

    fn remove_trailer(&mut self, name: &[u8]) -> bool {
        let takes = self.takes(name);
        if takes {
            Self::remove(&mut self.trailers, name);
        }
        takes
    }

    fn export(&mut self, attributes: &RequestAttributes) -> bool {
        attributes.fields().all(|(field, value)| {
            let takes = self.takes(field.state.as_bytes());
            if takes {
                self.exported.push((field.state, value.to_owned()));
            }
            takes
        })
    }

    fn open_route(&mut self, destination: &str) -> bool {
        let takes = self.takes(names::DESTINATION.as_bytes());
        if takes {
            self.destination = Some(destination.to_owned());
        }
        takes
    }

    fn continue_request(&mut self) {
        self.effects.push("continue".to_owned());
    }

    fn reply(&mut self, refusal: &Refusal) -> bool {
        self.reply = Some(refusal.clone());
        true
    }

    fn reset(&mut self, details: String) {
        self.effects.push(format!("reset {details}"));
    }

    fn finish(&mut self, _stream: &()) {
        self.effects.push("finish".to_owned());
    }

    fn schedule_drain(&mut self) -> bool {
        self.drains
    }

    fn drain_connection(&mut self) {
        self.effects.push("drain".to_owned());
    }

    fn random(&mut self) -> u64 {
        self.random
    }

    fn ask(&mut self, reviews: Vec<Review>) -> Result<Asked, Refusal> {
        for review in &reviews {
            let has_joined = review.headers("").iter().any(|(name, _)| *name == names::TRACEPARENT);
            if let Some(wait) = self.span.last_mut().filter(|last| last.starts_with("wait") && !has_joined) {
                wait.push_str(" apart from the trace");
            }
            let answer = (self.reviewer)(review);
            if !self.loses_answers {
                self.answers.push(review.key(), answer);
            }
        }
        Ok(Asked::Waiting)
    }

    fn ask_aside(&mut self, review: Review) -> bool {
        let _ = (self.reviewer)(&review);
        self.effects.push("ask aside".to_owned());
        true
    }

    fn take_answers(&mut self) -> Option<ReviewAnswers> {
        Some(std::mem::take(&mut self.answers))
    }

    fn waker(&mut self) -> Option<BoxedWake> {
        Some(Box::new(WakeCounter(Arc::clone(self.woken.as_ref()?))))
    }

    fn expire_at(&mut self, _queue: &Arc<FairQueue>, at: Duration) -> bool {
        self.effects.push(format!("expire at {}", at.as_secs()));
        !self.timer_fails
    }

    fn record_queue_wait(&mut self, milliseconds: u64) {
        self.effects.push(format!("queued {milliseconds}"));
    }

    fn stream(&mut self, _is_watch: bool) {}

    fn call_at(&mut self, _streams: &Arc<StreamRegistry<()>>, at: Duration) {
        self.effects.push(format!("call at {}", at.as_secs()));
    }

    fn count(&mut self, series: Option<&Arc<ClusterMetrics>>, seen: &RequestRecord, outcome: Outcome) {
        if let Some(publisher) = &self.publisher {
            publisher.count(series, seen, outcome);
        }
        self.effects.push(format!("count {} {} {}", reached(series), outcome.decision(), outcome.reason()));
    }

    fn count_response(&self, series: Option<&Arc<ClusterMetrics>>, seen: &RequestRecord, response: &Response<'_>) {
        if let Some(publisher) = &self.publisher {
            publisher.count_response(series, seen, response);
        }
        let Response { code, server, duration, server_duration, .. } = response;
        let times = [duration, server_duration].map(|time| time.map(|time| time.as_millis()));
        let server = match server {
            Some(Server::Named(name)) => String::from_utf8_lossy(name),
            Some(Server::Known(_)) => "known".into(),
            Some(Server::Unnamed) => "unnamed".into(),
            Some(Server::Missing) => "missing".into(),
            None => "-".into(),
        };
        self.responses.borrow_mut().push(format!("{} {code} {server} {times:?}", reached(series)));
    }

    fn record_processing(&mut self, _microseconds: u64) {}

    fn record_review_wait(&mut self, _milliseconds: u64) {}

    fn gauges_changed(&mut self) {
        self.effects.push("gauges".to_owned());
    }

    fn log(&mut self, members: &str) {
        self.effects.push(format!("log {members}"));
    }

    fn describe_span<'a>(&mut self, name: &str, attributes: impl Iterator<Item = (Attribute, &'a str)>) {
        if !name.is_empty() {
            self.span.push(format!("name {name}"));
        }
        self.span.extend(attributes.map(|(attribute, value)| format!("{} {value}", attribute.name)));
    }

    fn begin_wait(&mut self, name: &str, reviews: usize) -> Option<(String, String)> {
        self.span.push(format!("wait for {reviews} {name}"));
        Some(("trace".to_owned(), "wait".to_owned()))
    }

    fn end_wait(&mut self) {
        if self.span.last().is_some_and(|last| last.starts_with("wait")) {
            self.span.push("waited".to_owned());
        }
    }
}

fn reached(series: Option<&Arc<ClusterMetrics>>) -> &'static str {
    if series.is_some() { "cluster" } else { "unrouted" }
}
