//! A module that does nothing, to measure what any module costs (docs/performance.md).
#![allow(missing_docs, reason = "exports the entry points only")]

use envoy_abi::cert_validator::{CertValidator, HandshakeHandle};
use envoy_abi::http::{
    BodyStatus, CalloutId, CalloutResponse, ConfigHandle, FilterConfig, FilterHandle, HeadersStatus, MainThread,
};

struct Idle;

impl FilterConfig for Idle {
    type Route = ();
    type Stream = ();

    fn new(_name: &[u8], _config: &[u8], _handle: &mut ConfigHandle) -> Option<Self> {
        Some(Idle)
    }

    fn new_route(_name: &[u8], _config: &[u8]) -> Option<()> {
        Some(())
    }

    fn request_headers(&self, _route: Option<&()>, _kept: &mut (), _stream: &mut FilterHandle) -> HeadersStatus {
        HeadersStatus::Continue
    }

    fn resumed(&self, _route: Option<&()>, _kept: &mut (), _stream: &mut FilterHandle) {}

    fn on_main_thread(&self, _main: &mut MainThread) {}

    fn callout_done(&self, _id: CalloutId, _response: &CalloutResponse<'_>) {}

    fn request_trailers(&self, _: Option<&Self::Route>, _: &mut Self::Stream, _: &mut FilterHandle) -> bool {
        true
    }

    fn response_headers(&self, _kept: &mut (), _stream: &mut FilterHandle) -> HeadersStatus {
        HeadersStatus::Continue
    }

    fn request_body(&self, _kept: &mut (), _stream: &mut FilterHandle) -> BodyStatus {
        BodyStatus::Continue
    }

    fn response_ended(&self, _: &mut (), _: &mut FilterHandle) {}

    fn stream_complete(&self, _kept: &mut (), _stream: &mut FilterHandle) {}

    fn fail_closed(&self, _kept: &mut (), _stream: &mut FilterHandle) {}
}

impl CertValidator for Idle {
    fn new(_name: &[u8], _config: &[u8]) -> Option<Self> {
        None
    }

    fn verify(&self, _chain: &[&[u8]], _handshake: &mut HandshakeHandle) -> bool {
        false
    }

    fn digest(&self) -> &'static [u8] {
        b"idle"
    }
}

envoy_abi::module! {
    http_filter: Idle,
    cert_validator: Idle,
}
