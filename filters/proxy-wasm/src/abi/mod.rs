//! The calls into Envoy that the filter needs. Everything concerns the context that Envoy calls, or the one of
//! [`Hostcalls::act_for`].

pub(crate) mod header_map;
#[cfg(test)]
mod tests;

use std::time::Duration;

use portcullis_core::state_store::SharedData;

/// A map of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// The request's headers.
    Request,
    /// The request's trailers.
    RequestTrailers,
    /// The answer's headers.
    Response,
    /// The headers of a callout's answer.
    Callout,
}

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Takes values.
    Histogram,
}

/// A response of the filter's own.
#[derive(Clone, Copy, Debug)]
pub struct LocalResponse<'a> {
    /// HTTP status.
    pub status: u16,
    /// Envoy's word for how the answer came about.
    pub details: &'a str,
    /// Header names and values.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: &'a [u8],
}

/// Envoy, as a VM sees it. `bool` says whether Envoy took it.
pub trait Hostcalls: SharedData {
    /// Logs a message of the module's own. Nothing that a client wrote and no secret belongs into it.
    fn log(&self, message: &str);
    /// The time since 1970. `None`: nothing can be judged.
    fn now(&self) -> Option<Duration>;
    /// Has the current root context called after that time, again and again; zero ends it.
    fn tick_every(&self, period: Duration);
    /// Switches to a context. False if it is gone: then calls still concern the one before.
    #[must_use]
    fn act_for(&self, context: u32) -> bool;
    /// Lets the request go on that waits.
    fn continue_request(&self);
    /// Ends the request without an answer.
    fn close_request(&self);
    /// All lines of a map, as [`crate::abi::header_map`] reads them.
    fn headers(&self, map: Map) -> Option<Vec<u8>>;
    /// The first line of a name.
    fn header(&self, map: Map, name: &str) -> Option<Vec<u8>>;
    /// Puts one line of the request in the place of all of that name.
    #[must_use]
    fn set_header(&self, name: &[u8], value: &[u8]) -> bool;
    /// Adds a line to the request.
    #[must_use]
    fn add_header(&self, name: &[u8], value: &[u8]) -> bool;
    /// Takes out all lines of a name.
    #[must_use]
    fn remove_header(&self, map: Map, name: &[u8]) -> bool;
    /// An attribute of Envoy's; the parts of its name are separated by NUL.
    fn property(&self, path: &str) -> Option<Vec<u8>>;
    /// Writes the request's filter state `wasm.<name>`.
    #[must_use]
    fn set_filter_state(&self, name: &str, value: &[u8]) -> bool;
    /// Has the route chosen anew.
    #[must_use]
    fn clear_route_cache(&self) -> bool;
    /// Sends a request to an Envoy cluster on behalf of the current context. Returns its number.
    fn callout(&self, cluster: &str, headers: &[(&str, &str)], body: &[u8], timeout_ms: u32) -> Option<u32>;
    /// The body of the present callout's response, up to that size.
    fn callout_body(&self, most: usize) -> Option<Vec<u8>>;
    /// Answers the current stream.
    #[must_use]
    fn reply(&self, response: &LocalResponse<'_>) -> bool;
    /// Makes a metric, or finds the one of that name. Returns its number.
    fn metric(&self, kind: MetricKind, name: &str) -> Option<u32>;
    /// Adds to a counter or a gauge.
    fn add_metric(&self, id: u32, by: i64);
    /// Adds a value to a histogram.
    fn record_metric(&self, id: u32, value: u64);
}
