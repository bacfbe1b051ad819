//! An HTTP filter as safe traits and handles.

pub mod entry;
mod handle;
mod headers;
mod main_thread;
mod metadata;
mod metrics;
mod scheduler;
mod span;
mod worker_streams;

pub use handle::{ConfigHandle, FilterHandle, LocalReply};
pub use headers::Headers;
pub use main_thread::{CalloutId, CalloutResponse, MainThread};
pub use metrics::{Counter, Gauge, Histogram, MetricSink};
pub use scheduler::{ConfigScheduler, StreamScheduler};
pub use span::{ChildSpan, StreamSpan};

use crate::raw;

/// A filter's answer to request headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadersStatus {
    /// On to the next filter.
    Continue,
    /// The stream was answered; nothing goes on.
    StopIteration,
    /// The stream waits, its body held back at the sender, until [`FilterHandle::continue_decoding`] or an answer.
    Wait,
}

impl HeadersStatus {
    pub(crate) const fn code(self) -> u32 {
        match self {
            HeadersStatus::Continue => 0,
            HeadersStatus::StopIteration => 1,
            HeadersStatus::Wait => 4,
        }
    }
}

/// A filter's answer to a piece of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStatus {
    /// On to the next filter.
    Continue,
    /// It is kept back, at the sender where it is too much to keep, until [`FilterHandle::continue_decoding`].
    Hold,
}

impl BodyStatus {
    pub(crate) const fn code(self) -> u32 {
        match self {
            BodyStatus::Continue => 0,
            BodyStatus::Hold => 2,
        }
    }
}

/// Which of a stream's header maps is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderMap {
    /// Request headers, pseudo-headers included.
    Request,
    /// Request trailers.
    RequestTrailers,
    /// Response headers.
    Response,
}

impl HeaderMap {
    pub(crate) const fn code(self) -> u32 {
        match self {
            HeaderMap::Request => raw::REQUEST_HEADERS,
            HeaderMap::RequestTrailers => raw::REQUEST_TRAILERS,
            HeaderMap::Response => raw::RESPONSE_HEADERS,
        }
    }
}

/// A filter's configuration in a listener, shared by all workers.
pub trait FilterConfig: Sized + Send + Sync + 'static {
    /// The configuration of this filter on a route or virtual host.
    type Route: Send + Sync + 'static;

    /// The state of a stream between its hooks.
    type Stream: Default + 'static;

    /// Reads the configuration. `None` refuses it: Envoy keeps what it had. Main thread.
    fn new(name: &[u8], config: &[u8], handle: &mut ConfigHandle) -> Option<Self>;

    /// Reads a route's configuration; as above.
    fn new_route(name: &[u8], config: &[u8]) -> Option<Self::Route>;

    /// Judges a request. Called once for each stream.
    fn request_headers(
        &self,
        route: Option<&Self::Route>,
        kept: &mut Self::Stream,
        stream: &mut FilterHandle,
    ) -> HeadersStatus;

    /// Goes on with a stream that answered [`HeadersStatus::Wait`], after its [`StreamScheduler`] was woken. Either answers
    /// the stream, lets it continue, or leaves it waiting.
    fn resumed(&self, route: Option<&Self::Route>, kept: &mut Self::Stream, stream: &mut FilterHandle);

    /// Runs after the [`ConfigScheduler`] was woken, on the main thread.
    fn on_main_thread(&self, main: &mut MainThread);

    /// Takes the answer to a callout of [`FilterConfig::on_main_thread`], on the main thread. May come before the call that
    /// starts the callout has returned.
    fn callout_done(&self, id: CalloutId, response: &CalloutResponse<'_>);

    /// Asks what becomes of a piece of the request's body.
    fn request_body(&self, kept: &mut Self::Stream, stream: &mut FilterHandle) -> BodyStatus;

    /// Sees the request's trailers, if it has any. False if they must not go on; the stream has then been reset.
    fn request_trailers(&self, route: Option<&Self::Route>, kept: &mut Self::Stream, stream: &mut FilterHandle)
    -> bool;

    /// Sees the upstream's answer. Not called for answers that the filter itself made.
    fn response_headers(&self, kept: &mut Self::Stream, stream: &mut FilterHandle) -> HeadersStatus;

    /// The response is complete: nothing more of it comes, but the client may not have read it yet. Also called for answers that the
    /// proxy or the filter made; may not be called for a stream that is reset.
    fn response_ended(&self, kept: &mut Self::Stream, stream: &mut FilterHandle);

    /// The stream has ended, however it did; the access log is written next. Called once for each stream, also for those
    /// whose request headers never came here.
    fn stream_complete(&self, kept: &mut Self::Stream, stream: &mut FilterHandle);

    /// Answers a stream after a panic anywhere in the filter: nothing may go upstream.
    fn fail_closed(&self, kept: &mut Self::Stream, stream: &mut FilterHandle);
}
