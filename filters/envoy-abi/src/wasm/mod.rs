//! The proxy-wasm ABI 0.2.1, as far as we use it, by hand.
//!
//! - [`raw`]: the functions that Envoy offers, one to one.
//! - [`host`]: the same, safe.
//! - [`Vm`] and [`wasm_module!`](crate::wasm_module): what Envoy calls.
//!
//! One VM runs on each worker, and nothing in it ever runs on two threads. A panic ends the VM: every stream of the worker
//! that is under way fails, and by `failure_policy: FAIL_RELOAD` Envoy makes another VM.

pub mod host;
mod macros;
pub mod raw;

/// The answer to a request's or a response's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadersStatus {
    /// It goes on.
    Continue,
    /// It waits, and its body at the sender, until it is continued, answered or closed.
    Wait,
}

/// The answer to a piece of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStatus {
    /// It goes on.
    Continue,
    /// It is kept, and what follows stays at the sender, until the request is continued.
    Hold,
}

/// The answer to trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailersStatus {
    /// They go on.
    Continue,
    /// They are kept. For a stream that has been closed or answered: nothing continues it.
    Stop,
}

impl HeadersStatus {
    /// Envoy's `FilterHeadersStatus`.
    #[doc(hidden)]
    pub fn code(self) -> u32 {
        match self {
            HeadersStatus::Continue => 0,
            // StopAllIterationAndWatermark.
            HeadersStatus::Wait => 4,
        }
    }
}

impl BodyStatus {
    /// Envoy's `FilterDataStatus`.
    #[doc(hidden)]
    pub fn code(self) -> u32 {
        match self {
            BodyStatus::Continue => 0,
            // StopIterationAndWatermark.
            BodyStatus::Hold => 2,
        }
    }
}

impl TrailersStatus {
    /// Envoy's `FilterTrailersStatus`.
    #[doc(hidden)]
    pub fn code(self) -> u32 {
        match self {
            TrailersStatus::Continue => 0,
            // StopIteration.
            TrailersStatus::Stop => 1,
        }
    }
}

/// One VM. A root context is a configuration of the filter, a stream context is a request; Envoy numbers both.
pub trait Vm: Default {
    /// A configuration is about to come, whose root context this is.
    fn new_root(&mut self, root: u32);

    /// A request begins, under the configuration of that root context.
    fn new_stream(&mut self, stream: u32, root: u32);

    /// Takes a configuration; false refuses it.
    fn configure(&mut self, root: u32, config: &[u8]) -> bool;

    /// The time that was asked for has passed.
    fn tick(&mut self, root: u32);

    /// A request's headers are there.
    fn request_headers(&mut self, stream: u32) -> HeadersStatus;

    /// A piece of a request's body is there.
    fn request_body(&mut self, stream: u32) -> BodyStatus;

    /// A request's trailers are there.
    fn request_trailers(&mut self, stream: u32) -> TrailersStatus;

    /// An answer's headers are there.
    fn response_headers(&mut self, stream: u32) -> HeadersStatus;

    /// A callout of a root context has ended; without headers it failed.
    fn callout_done(&mut self, root: u32, token: u32, has_headers: bool);

    /// A stream has ended; its filter state goes into the access log next.
    fn complete(&mut self, stream: u32);

    /// A root or stream context is gone. Comes once for each.
    fn delete(&mut self, context: u32);
}
