use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use portcullis_filter_config::names::span::Attribute;

use crate::fair::{BoxedWake, FairQueue};
use crate::gateway::Edit;
use crate::long_streams::StreamRegistry;
use crate::moment::Moment;
use crate::observe::{ClusterMetrics, Outcome, RequestAttributes, RequestRecord, Response};
use crate::refusal::Refusal;
use crate::review::{Review, ReviewAnswers, ReviewKey};
use crate::x509::KnownChains;

/// The proxy that runs the filter, for the stream whose hook is running.
///
/// A host decides nothing: it reads, edits and reports what the exchange asks for. A `bool` is false if the proxy refused.
pub trait Host {
    /// A handle of a long-running stream, by which the host finds the stream when no hook of it is running.
    type Stream: Clone;
    /// A message's headers or trailers, as the proxy holds them.
    type Headers<'h>: HeaderLines
    where
        Self: 'h;

    /// Request headers, pseudo-headers included. `None` if they cannot be read: the request fails closed.
    fn request_headers(&self) -> Option<Self::Headers<'_>>;
    /// The first request header of the name.
    fn request_header(&self, name: &str) -> Option<Cow<'_, [u8]>>;
    /// Request trailers. `None` if they cannot be read: the request fails closed.
    fn request_trailers(&self) -> Option<Self::Headers<'_>>;
    /// `:status` of the response.
    fn response_status(&self) -> Option<Cow<'_, [u8]>>;
    /// Envoy's `response.code_details`, for the access log.
    fn code_details(&self) -> Option<Cow<'_, [u8]>>;
    /// The name of the server that the request went to, from the endpoint's metadata. `None` for a response of Envoy's own, and where
    /// endpoints have no such metadata.
    fn server(&self) -> Option<Cow<'_, [u8]>>;
    /// Address and port of that server, if they are cheaper to read than its name.
    fn server_address(&self) -> Option<&[u8]> {
        None
    }
    /// Whether the request went to a server at all. Asked only of one that has no name.
    fn reached_server(&self) -> bool {
        self.server_address().is_some()
    }
    /// The status of the response, of Envoy's own too. `None` if there is none.
    fn response_code(&self) -> Option<u16>;
    /// Bytes of the response's body that went to the client. `None` if the proxy does not count them.
    fn response_bytes(&self) -> Option<u64>;
    /// Both clocks. `None` fails closed: nothing can be decided without the time.
    fn moment(&self) -> Option<Moment>;
    /// The clock that only goes forward.
    fn uptime(&self) -> Option<Duration>;

    /// The client's chain as the certificate validator recorded it ([`crate::x509::encode_chain`]).
    fn recorded_chain(&self) -> Option<&[u8]>;
    /// The client's certificate as PEM text, from the connection's filter state.
    fn connection_certificate(&self) -> Option<Cow<'_, [u8]>>;
    /// The SHA-256 of the certificate of the TLS handshake, in lower-case hexadecimal digits. Empty or `None` without one.
    fn certificate_digest(&self) -> Option<Cow<'_, [u8]>>;
    /// Whether the TLS handshake had a client certificate.
    fn presented_certificate(&self) -> bool;
    /// Calls `f` with the chains that this worker has parsed. `None` if they are in use.
    fn with_known_chains<R>(&self, f: impl FnOnce(&mut KnownChains) -> R) -> Option<R>;

    /// Edits the request headers.
    #[must_use]
    fn edit(&mut self, edit: Edit<'_>) -> bool;
    /// Removes all trailers of the name.
    #[must_use]
    fn remove_trailer(&mut self, name: &[u8]) -> bool;
    /// Writes attributes of the request for other filters, routes and logs.
    #[must_use]
    fn export(&mut self, attributes: &RequestAttributes) -> bool;
    /// Writes the filter state that opens the route to a pool, and has the proxy choose the route again. It may free the
    /// configuration of the route before: the exchange uses nothing of it afterwards.
    #[must_use]
    fn open_route(&mut self, destination: &str) -> bool;

    /// Lets a paused request go on.
    fn continue_request(&mut self);
    /// Answers the request in place of the upstream. False if the proxy cannot.
    #[must_use]
    fn reply(&mut self, refusal: &Refusal) -> bool;
    /// Ends the stream without a response. `details` are for the access log.
    fn reset(&mut self, details: String);
    /// Ends the response of a running stream as if the upstream had ended it.
    fn finish(&mut self, stream: &Self::Stream);
    /// Has [`super::Exchange::resume`] called, where the proxy can close the connection for further requests from there only.
    /// False if it cannot close connections at all.
    fn schedule_drain(&mut self) -> bool {
        false
    }
    /// Lets the connection take no further requests.
    fn drain_connection(&mut self) {}
    /// The server name that the client asked for in its TLS handshake. `None` without one, and from a host that does not know it.
    fn server_name(&self) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// A random number, not for secrets. The largest, which no probability reaches, from a host that cannot drain connections.
    fn random(&mut self) -> u64 {
        u64::MAX
    }
    /// Bytes of resident memory of the process. `None` if they are not known.
    fn resident_memory(&self) -> Option<u64> {
        None
    }

    /// Sends reviews to the upstream.
    ///
    /// # Errors
    /// A refusal if they cannot be sent: too many are under way, or the proxy cannot reach the upstream.
    fn ask(&mut self, reviews: Vec<Review>) -> Result<Asked, Refusal>;
    /// Sends a review to the upstream for which no request waits, if there is a slot. False if the stream cannot go on.
    #[must_use]
    fn ask_aside(&mut self, review: Review) -> bool;
    /// Answers to the reviews that the stream waits for, once all have come; an answer is taken once.
    fn take_answers(&mut self) -> Option<ReviewAnswers>;
    /// Wakes this stream on its worker, from any thread. `None` from a host on which no request waits for a seat.
    fn waker(&mut self) -> Option<BoxedWake> {
        None
    }
    /// Has the wait of the queue's requests ended at that uptime, by [`crate::schedule::Task::run`]. False if the host has no timer.
    fn expire_at(&mut self, _queue: &Arc<FairQueue>, _at: Duration) -> bool {
        false
    }
    /// The upstream rejected a token that a review had found good: answers that the host shares with others are too old.
    fn token_rejected(&mut self, _key: &ReviewKey, _uptime: Duration) {}

    /// A handle of this stream.
    fn stream(&mut self, is_watch: bool) -> Self::Stream;
    /// Has [`StreamRegistry::expire`] called at that uptime.
    fn call_at(&mut self, streams: &Arc<StreamRegistry<Self::Stream>>, at: Duration);

    /// Counts a decision; `None` for a request that reached no cluster.
    fn count(&mut self, series: Option<&Arc<ClusterMetrics>>, seen: &RequestRecord, outcome: Outcome);
    /// Counts an answer; `None` for a request that reached no cluster.
    fn count_response(&self, series: Option<&Arc<ClusterMetrics>>, seen: &RequestRecord, response: &Response<'_>);
    /// Records [`crate::observe::catalog::FILTER_DURATION`], the time that the filter spent on a request.
    fn record_processing(&mut self, microseconds: u64);
    /// Records [`crate::observe::catalog::REVIEW_WAIT`], the time that a request waited for reviews.
    fn record_review_wait(&mut self, milliseconds: u64);
    /// Records [`crate::observe::catalog::QUEUE_WAIT`], the time that a request waited for a seat.
    fn record_queue_wait(&mut self, _milliseconds: u64) {}
    /// Marks gauges as changed.
    fn gauges_changed(&mut self);
    /// Writes the filter's members of the access log's line.
    fn log(&mut self, members: &str);

    /// Names the span of the request, unless the name is empty, and writes attributes into it, if the proxy traces it.
    fn describe_span<'a>(&mut self, _name: &str, _attributes: impl Iterator<Item = (Attribute, &'a str)>) {}
    /// Begins a span of that name about waiting for reviews, below that of the request. Returns the ids of the trace and the span, if
    /// the proxy traces the request.
    fn begin_wait(&mut self, _name: &str, _reviews: usize) -> Option<(String, String)> {
        None
    }
    /// Ends that span, if there is one.
    fn end_wait(&mut self) {}
}

/// Headers or trailers of a message.
pub trait HeaderLines {
    /// Names, lower-case, and values, in order.
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])>;
}

/// The state of reviews that a host was asked to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// They are under way: [`super::Exchange::resume`] follows.
    Waiting,
    /// Some answers were found without asking, and are in the cluster's caches now.
    Found,
}
