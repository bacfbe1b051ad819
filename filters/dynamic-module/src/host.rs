//! [`Host`] by the dynamic module ABI: every method is one call into Envoy or into this process.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use envoy_abi::http::{CalloutId, ChildSpan, FilterHandle, HeaderMap, Headers, LocalReply};
use portcullis_core::exchange::{Asked, Edit, HeaderLines, Host};
use portcullis_core::fair::{BoxedWake, FairQueue};
use portcullis_core::long_streams::StreamRegistry;
use portcullis_core::observe::{ClusterMetrics, Outcome, RequestAttributes, RequestRecord, Response};
use portcullis_core::review::{Review, ReviewAnswers, ReviewCallouts, WaitingStream};
use portcullis_core::x509::KnownChains;
use portcullis_core::{Moment, Refusal};
use portcullis_filter_config::names;
use portcullis_filter_config::names::span::Attribute;
use rustls_pki_types::UnixTime;

use crate::long_streams::LongStream;
use crate::memory::uptime;
use crate::metrics::Metrics;
use crate::random::random_number;
use crate::resident_memory::resident_memory;
use crate::timer::{ConfigWaker, StreamWaker, Waker, run_at};

thread_local! {
    /// The chains that this worker has parsed.
    static KNOWN_CHAINS: RefCell<KnownChains> = RefCell::default();
}

/// The reviews of a filter configuration.
pub(crate) type Reviews = ReviewCallouts<StreamWaker, ConfigWaker, CalloutId>;

/// The host's own state of a stream.
#[derive(Default)]
pub(crate) struct LocalState {
    /// Reviews that the stream waits for.
    pub(crate) waiting: Option<Arc<WaitingStream<StreamWaker>>>,
    /// The span of this wait, if the request is traced.
    wait: Option<ChildSpan>,
}

/// A stream of Envoy's during one hook.
pub(crate) struct StreamHost<'a> {
    pub(crate) metrics: &'a Metrics,
    pub(crate) reviews: &'a Reviews,
    pub(crate) local: &'a mut LocalState,
    pub(crate) stream: &'a mut FilterHandle,
}

/// Headers as Envoy holds them.
pub(crate) struct EnvoyHeaders<'h>(Headers<'h>);

impl HeaderLines for EnvoyHeaders<'_> {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter()
    }
}

impl Host for StreamHost<'_> {
    type Headers<'h>
        = EnvoyHeaders<'h>
    where
        Self: 'h;
    type Stream = LongStream;

    fn request_headers(&self) -> Option<EnvoyHeaders<'_>> {
        self.stream.headers(HeaderMap::Request).map(EnvoyHeaders)
    }

    fn request_header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.stream.header(HeaderMap::Request, name.as_bytes()).map(Cow::Borrowed)
    }

    fn request_trailers(&self) -> Option<EnvoyHeaders<'_>> {
        self.stream.headers(HeaderMap::RequestTrailers).map(EnvoyHeaders)
    }

    fn response_status(&self) -> Option<Cow<'_, [u8]>> {
        self.stream.header(HeaderMap::Response, b":status").map(Cow::Borrowed)
    }

    fn code_details(&self) -> Option<Cow<'_, [u8]>> {
        self.stream.code_details().map(Cow::Borrowed)
    }

    fn server(&self) -> Option<Cow<'_, [u8]>> {
        self.stream.endpoint_metadata(names::HOST, names::HOST_SERVER).map(Cow::Borrowed)
    }

    fn server_address(&self) -> Option<&[u8]> {
        self.stream.upstream_address()
    }

    fn server_name(&self) -> Option<Cow<'_, [u8]>> {
        self.stream.requested_server_name().map(Cow::Borrowed)
    }

    fn response_code(&self) -> Option<u16> {
        self.stream.response_code()
    }

    fn response_bytes(&self) -> Option<u64> {
        self.stream.response_bytes()
    }

    fn moment(&self) -> Option<Moment> {
        Some(Moment { now: UnixTime::now(), uptime: uptime(Instant::now()) })
    }

    fn uptime(&self) -> Option<Duration> {
        Some(uptime(Instant::now()))
    }

    fn recorded_chain(&self) -> Option<&[u8]> {
        self.stream.filter_state(names::CLIENT_CHAIN)
    }

    fn connection_certificate(&self) -> Option<Cow<'_, [u8]>> {
        self.stream.filter_state(names::CLIENT_CERTIFICATE).map(Cow::Borrowed)
    }

    fn certificate_digest(&self) -> Option<Cow<'_, [u8]>> {
        self.stream.certificate_digest().map(Cow::Borrowed)
    }

    fn presented_certificate(&self) -> bool {
        self.stream.presented_certificate()
    }

    fn with_known_chains<R>(&self, f: impl FnOnce(&mut KnownChains) -> R) -> Option<R> {
        KNOWN_CHAINS.with(|known| known.try_borrow_mut().ok().map(|mut known| f(&mut known)))
    }

    fn edit(&mut self, edit: Edit<'_>) -> bool {
        match edit {
            Edit::Remove(name) => self.stream.remove_header(HeaderMap::Request, name),
            Edit::Set(name, value) => self.stream.set_header(name, value),
            Edit::Add(name, value) => self.stream.add_header(name, value),
        }
    }

    fn remove_trailer(&mut self, name: &[u8]) -> bool {
        self.stream.remove_header(HeaderMap::RequestTrailers, name)
    }

    fn export(&mut self, attributes: &RequestAttributes) -> bool {
        if attributes.are_metadata {
            let entries = attributes.fields().map(|(field, value)| (field.key, value));
            self.stream.set_metadata(names::request::METADATA, entries);
        }
        attributes.fields().all(|(field, value)| self.stream.set_filter_state(field.state, value.as_bytes()))
    }

    fn open_route(&mut self, destination: &str) -> bool {
        let is_written = self.stream.set_filter_state(names::DESTINATION, destination.as_bytes());
        if is_written {
            self.stream.clear_route_cache();
        }
        is_written
    }

    fn continue_request(&mut self) {
        self.stream.continue_decoding();
    }

    fn reply(&mut self, refusal: &Refusal) -> bool {
        let (status, headers) = (refusal.code, refusal.headers());
        let (body, details) = (refusal.body(), refusal.details());
        self.stream.send_response(LocalReply { status, headers, body, details });
        true
    }

    fn reset(&mut self, details: String) {
        self.stream.reset(details);
    }

    fn finish(&mut self, stream: &LongStream) {
        if stream.finish_once() {
            self.stream.finish();
        }
    }

    // Within a hook about the request Envoy would take it as the end of the request.
    fn schedule_drain(&mut self) -> bool {
        self.stream.scheduler().wake();
        true
    }

    fn drain_connection(&mut self) {
        self.stream.drain_connection();
    }

    fn random(&mut self) -> u64 {
        random_number()
    }

    fn resident_memory(&self) -> Option<u64> {
        resident_memory(uptime(Instant::now()))
    }

    fn ask(&mut self, reviews: Vec<Review>) -> Result<Asked, Refusal> {
        let waker = Waker(self.stream.scheduler());
        self.local.waiting = Some(self.reviews.ask(reviews, waker, uptime(Instant::now()))?);
        Ok(Asked::Waiting)
    }

    fn ask_aside(&mut self, review: Review) -> bool {
        self.reviews.ask_aside(review, uptime(Instant::now()));
        true
    }

    fn take_answers(&mut self) -> Option<ReviewAnswers> {
        let answers = self.local.waiting.as_ref()?.take_answers()?;
        self.local.waiting = None;
        Some(answers)
    }

    fn waker(&mut self) -> Option<BoxedWake> {
        Some(Box::new(Waker(self.stream.scheduler())))
    }

    fn expire_at(&mut self, queue: &Arc<FairQueue>, at: Duration) -> bool {
        run_at(queue, at)
    }

    fn stream(&mut self, is_watch: bool) -> LongStream {
        LongStream::new(Waker(self.stream.scheduler()), is_watch)
    }

    fn call_at(&mut self, streams: &Arc<StreamRegistry<LongStream>>, at: Duration) {
        // Without a timer they go on.
        run_at(streams, at);
    }

    fn count(&mut self, series: Option<&Arc<ClusterMetrics>>, seen: &RequestRecord, outcome: Outcome) {
        self.metrics.flusher.count(series, seen, outcome);
    }

    fn count_response(&self, series: Option<&Arc<ClusterMetrics>>, seen: &RequestRecord, response: &Response<'_>) {
        self.metrics.flusher.count_response(series, seen, response);
    }

    fn record_processing(&mut self, microseconds: u64) {
        self.stream.record(self.metrics.processing, microseconds);
    }

    fn record_review_wait(&mut self, milliseconds: u64) {
        self.stream.record(self.metrics.review_wait, milliseconds);
    }

    fn record_queue_wait(&mut self, milliseconds: u64) {
        self.stream.record(self.metrics.queue_wait, milliseconds);
    }

    fn gauges_changed(&mut self) {
        self.metrics.flusher.changed();
    }

    fn log(&mut self, members: &str) {
        self.stream.set_metadata(names::LOG, [(names::LOG_MEMBERS, members)].into_iter());
    }

    fn describe_span<'a>(&mut self, name: &str, attributes: impl Iterator<Item = (Attribute, &'a str)>) {
        let Some(mut span) = self.stream.span() else { return };
        if !name.is_empty() {
            span.set_name(name);
        }
        for (attribute, value) in attributes {
            if names::span::OF_ENVOY.contains(&attribute) {
                // One that is there already is the same.
                let _ = span.stream().set_filter_state(attribute.state, value.as_bytes());
            } else {
                span.set_tag(attribute.name, value);
            }
        }
    }

    fn begin_wait(&mut self, name: &str, reviews: usize) -> Option<(String, String)> {
        let mut span = self.stream.span()?.start_child(name)?;
        span.set_tag(names::span::REVIEWS, &reviews.to_string());
        let ids = span.ids();
        self.local.wait = Some(span);
        ids
    }

    fn end_wait(&mut self) {
        self.local.wait = None;
    }
}
