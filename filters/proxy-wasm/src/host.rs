//! [`Host`] by proxy-wasm hostcalls, for one stream of a VM.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::exchange::{Asked, Edit, Host};
use portcullis_core::long_streams::StreamRegistry;
use portcullis_core::observe::{ClusterMetrics, Outcome, RequestAttributes, RequestRecord, Response};
use portcullis_core::review::{AwaitedAnswers, Review, ReviewAnswers, ReviewKey};
use portcullis_core::state_store::SharedState;
use portcullis_core::x509::KnownChains;
use portcullis_core::{Moment, Refusal};
use portcullis_filter_config::names;
use portcullis_filter_config::names::span::Attribute;
use rustls_pki_types::UnixTime;

use crate::abi::header_map::OwnedHeaders;
use crate::abi::{Hostcalls, LocalResponse, Map};
use crate::long_streams::LongStreams;
use crate::reviews::{ReviewCallouts, ReviewContext};
use crate::root::Root;

/// [`names::CLIENT_CERTIFICATE`].
const CLIENT_CERTIFICATE: &str = "filter_state\0portcullis.client_certificate";
const CERTIFICATE_DIGEST: &str = "connection\0sha256_peer_certificate_digest";
const CODE_DETAILS: &str = "response\0code_details";
const SERVER_ADDRESS: &str = "upstream\0address";
const CODE: &str = "response\0code";
const SIZE: &str = "response\0size";

/// The host's own state of a stream.
#[derive(Default)]
pub(crate) struct LocalState {
    /// Answers that the stream waits for.
    pub(crate) waiting: Option<AwaitedAnswers>,
    /// Reviews whose answer was looked for with the other workers.
    looked_up: Vec<ReviewKey>,
    /// The status of the response, once its headers were read.
    status: Cell<Option<u16>>,
}

/// State that all streams of a VM share.
#[derive(Default)]
pub(crate) struct VmState<H> {
    pub(crate) hostcalls: H,
    /// From the first configuration on.
    pub(crate) state: Option<SharedState<H>>,
    /// By root context.
    pub(crate) reviews: HashMap<u32, ReviewCallouts>,
    /// Contexts of streams that have not ended.
    pub(crate) live: HashSet<u32>,
    pub(crate) long_streams: LongStreams,
    pub(crate) known_chains: RefCell<KnownChains>,
}

/// A stream of Envoy's during one hook.
pub(crate) struct StreamHost<'a, H> {
    pub(crate) vm: &'a mut VmState<H>,
    pub(crate) id: u32,
    pub(crate) root_id: u32,
    pub(crate) root: Option<&'a Rc<Root>>,
    /// The uptime, if it was read just now: each call into Envoy costs.
    pub(crate) uptime: Cell<Option<Duration>>,
    /// The uptime that was read last in this hook.
    pub(crate) seen_uptime: Cell<Option<Duration>>,
    /// The request's headers, if they were read just now.
    pub(crate) headers: Cell<Option<OwnedHeaders>>,
    pub(crate) local: &'a mut LocalState,
}

impl<H: Hostcalls> StreamHost<'_, H> {
    /// A number among the stream's properties.
    fn number(&self, property: &str) -> Option<u64> {
        let bytes = self.vm.hostcalls.property(property)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Whether another worker knows some answer; looked for once only, because by then it may be too old.
    fn finds_answers(&mut self, reviews: &[Review]) -> bool {
        let mut has_found = false;
        for review in reviews.iter().filter(|review| !self.local.looked_up.contains(&review.key())) {
            has_found |= self.vm.state.as_ref().is_some_and(|state| state.find_answer(review));
        }
        self.local.looked_up.extend(reviews.iter().map(Review::key));
        has_found
    }
}

impl<H: Hostcalls> Host for StreamHost<'_, H> {
    type Headers<'h>
        = OwnedHeaders
    where
        Self: 'h;
    type Stream = u32;

    fn request_headers(&self) -> Option<OwnedHeaders> {
        self.headers.take().or_else(|| OwnedHeaders::read(self.vm.hostcalls.headers(Map::Request)?))
    }

    fn request_header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.vm.hostcalls.header(Map::Request, name).map(Cow::Owned)
    }

    fn request_trailers(&self) -> Option<OwnedHeaders> {
        OwnedHeaders::read(self.vm.hostcalls.headers(Map::RequestTrailers)?)
    }

    fn response_status(&self) -> Option<Cow<'_, [u8]>> {
        let status = self.vm.hostcalls.header(Map::Response, ":status")?;
        self.local.status.set(std::str::from_utf8(&status).ok().and_then(|status| status.parse().ok()));
        Some(Cow::Owned(status))
    }

    fn code_details(&self) -> Option<Cow<'_, [u8]>> {
        self.vm.hostcalls.property(CODE_DETAILS).map(Cow::Owned)
    }

    fn server(&self) -> Option<Cow<'_, [u8]>> {
        self.vm.hostcalls.property(names::wasm::SERVER).filter(|name| !name.is_empty()).map(Cow::Owned)
    }

    fn reached_server(&self) -> bool {
        self.vm.hostcalls.property(SERVER_ADDRESS).is_some_and(|address| !address.is_empty())
    }

    fn response_code(&self) -> Option<u16> {
        let known = self.local.status.get();
        known.or_else(|| u16::try_from(self.number(CODE)?).ok()).filter(|code| *code > 0)
    }

    fn response_bytes(&self) -> Option<u64> {
        self.number(SIZE)
    }

    fn moment(&self) -> Option<Moment> {
        let uptime = self.uptime.take().or_else(|| self.vm.hostcalls.uptime())?;
        self.seen_uptime.set(Some(uptime));
        let now = self.vm.hostcalls.now()?;
        Some(Moment { now: UnixTime::since_unix_epoch(now), uptime })
    }

    fn uptime(&self) -> Option<Duration> {
        let uptime = self.vm.hostcalls.uptime();
        self.seen_uptime.set(uptime);
        uptime
    }

    fn recorded_chain(&self) -> Option<&[u8]> {
        None
    }

    fn connection_certificate(&self) -> Option<Cow<'_, [u8]>> {
        self.vm.hostcalls.property(CLIENT_CERTIFICATE).filter(|text| !text.is_empty()).map(Cow::Owned)
    }

    fn certificate_digest(&self) -> Option<Cow<'_, [u8]>> {
        self.vm.hostcalls.property(CERTIFICATE_DIGEST).map(Cow::Owned)
    }

    fn presented_certificate(&self) -> bool {
        self.vm.hostcalls.property(CERTIFICATE_DIGEST).is_some_and(|digest| !digest.is_empty())
    }

    fn with_known_chains<R>(&self, f: impl FnOnce(&mut KnownChains) -> R) -> Option<R> {
        self.vm.known_chains.try_borrow_mut().ok().map(|mut known| f(&mut known))
    }

    fn edit(&mut self, edit: Edit<'_>) -> bool {
        match edit {
            Edit::Remove(name) => self.vm.hostcalls.remove_header(Map::Request, name),
            Edit::Set(name, value) => self.vm.hostcalls.set_header(name, value),
            Edit::Add(name, value) => self.vm.hostcalls.add_header(name, value),
        }
    }

    fn remove_trailer(&mut self, name: &[u8]) -> bool {
        self.vm.hostcalls.remove_header(Map::RequestTrailers, name)
    }

    fn export(&mut self, attributes: &RequestAttributes) -> bool {
        attributes.fields().all(|(field, value)| self.vm.hostcalls.set_filter_state(field.state, value.as_bytes()))
    }

    fn open_route(&mut self, destination: &str) -> bool {
        self.vm.hostcalls.set_filter_state(names::DESTINATION, destination.as_bytes())
            && self.vm.hostcalls.clear_route_cache()
    }

    fn continue_request(&mut self) {
        self.vm.hostcalls.continue_request();
    }

    fn reply(&mut self, refusal: &Refusal) -> bool {
        let (headers, body, details) = (refusal.headers(), refusal.body(), refusal.details());
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let response =
            LocalResponse { status: refusal.code, details: &details, headers: &headers, body: body.as_bytes() };
        // From here on it is Envoy's to say.
        self.local.status.set(None);
        self.vm.hostcalls.reply(&response)
    }

    fn reset(&mut self, _details: String) {
        self.vm.hostcalls.close_request();
    }

    fn finish(&mut self, _stream: &u32) {
        self.vm.hostcalls.close_request();
    }

    fn ask(&mut self, reviews: Vec<Review>) -> Result<Asked, Refusal> {
        let (Some(root), Some(uptime)) = (self.root, self.vm.hostcalls.uptime()) else {
            return Err(Refusal::internal());
        };
        if self.finds_answers(&reviews) {
            return Ok(Asked::Found);
        }
        self.local.waiting = Some(AwaitedAnswers::new(reviews.len()));
        let VmState { hostcalls, state, reviews: all, live, .. } = &mut *self.vm;
        let context =
            ReviewContext { hostcalls, state: state.as_ref(), root: self.root_id, via: root.gateway.via(), uptime };
        let is_waiting = |other: &u32| live.contains(other);
        let at_once = all.entry(self.root_id).or_default().ask(reviews, self.id, is_waiting, &context)?;
        // No other stream waits for a question that was new.
        if at_once.is_empty() { Ok(Asked::Waiting) } else { Err(Refusal::review_failed()) }
    }

    fn ask_aside(&mut self, review: Review) -> bool {
        let (Some(root), Some(uptime)) = (self.root, self.vm.hostcalls.uptime()) else { return false };
        let VmState { hostcalls, state, reviews: all, .. } = &mut *self.vm;
        let context =
            ReviewContext { hostcalls, state: state.as_ref(), root: self.root_id, via: root.gateway.via(), uptime };
        all.entry(self.root_id).or_default().ask_aside(review, self.id, &context)
    }

    fn take_answers(&mut self) -> Option<ReviewAnswers> {
        let answers = self.local.waiting.as_mut()?.take()?;
        self.local.waiting = None;
        Some(answers)
    }

    fn token_rejected(&mut self, key: &ReviewKey, uptime: Duration) {
        if let Some(state) = &self.vm.state {
            state.invalidate_answer(key, uptime);
        }
    }

    fn stream(&mut self, _is_watch: bool) -> u32 {
        self.id
    }

    fn call_at(&mut self, streams: &Arc<StreamRegistry<u32>>, at: Duration) {
        self.vm.long_streams.call_at(streams, at);
    }

    fn count(&mut self, series: Option<&Arc<ClusterMetrics>>, seen: &RequestRecord, outcome: Outcome) {
        if let Some(root) = self.root {
            root.metrics.count(series, seen, outcome);
        }
    }

    fn count_response(&self, series: Option<&Arc<ClusterMetrics>>, seen: &RequestRecord, response: &Response<'_>) {
        if let Some(root) = self.root {
            root.metrics.count_response(series, seen, response);
        }
    }

    fn record_processing(&mut self, microseconds: u64) {
        if let Some(id) = self.root.and_then(|root| root.metrics.processing) {
            self.vm.hostcalls.record_metric(id, microseconds);
        }
    }

    fn record_review_wait(&mut self, milliseconds: u64) {
        if let Some(id) = self.root.and_then(|root| root.metrics.review_wait) {
            self.vm.hostcalls.record_metric(id, milliseconds);
        }
    }

    fn gauges_changed(&mut self) {
        if let Some(root) = self.root {
            root.metrics.changed();
        }
    }

    fn log(&mut self, members: &str) {
        let _ = self.vm.hostcalls.set_filter_state(names::wasm::LOG_MEMBERS, members.as_bytes());
    }

    fn describe_span<'a>(&mut self, _name: &str, attributes: impl Iterator<Item = (Attribute, &'a str)>) {
        for (attribute, value) in attributes {
            let _ = self.vm.hostcalls.set_filter_state(attribute.state, value.as_bytes());
        }
    }
}
