//! The proxy-wasm ABI: [`Hostcalls`] by its functions, and its hooks by [`Vm`].

use std::time::Duration;

use envoy_abi::wasm::{self, BodyStatus, HeadersStatus, TrailersStatus, host};
use portcullis_core::exchange::Next;
use portcullis_core::state_store::SharedData;

use crate::abi::{Hostcalls, LocalResponse, Map, MetricKind, header_map};
use crate::vm::Vm;

/// The Envoy that runs this VM.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Envoy;

fn map(map: Map) -> host::HeaderMap {
    match map {
        Map::Request => host::HeaderMap::Request,
        Map::RequestTrailers => host::HeaderMap::RequestTrailers,
        Map::Response => host::HeaderMap::Response,
        Map::Callout => host::HeaderMap::Callout,
    }
}

impl SharedData for Envoy {
    fn uptime(&self) -> Option<Duration> {
        host::uptime()
    }

    fn random(&self) -> Option<[u8; 32]> {
        let mut bytes = [0; 32];
        host::fill_random(&mut bytes).then_some(bytes)
    }

    fn shared(&self, key: &[u8]) -> Option<(Vec<u8>, u32)> {
        host::shared(key)
    }

    fn set_shared(&self, key: &[u8], value: &[u8], cas: u32) -> bool {
        host::set_shared(key, value, cas)
    }
}

impl Hostcalls for Envoy {
    fn log(&self, message: &str) {
        host::log_error(message);
    }

    fn now(&self) -> Option<Duration> {
        host::now()
    }

    fn tick_every(&self, period: Duration) {
        host::tick_every(period);
    }

    fn act_for(&self, context: u32) -> bool {
        host::act_for(context)
    }

    fn continue_request(&self) {
        host::continue_request();
    }

    fn close_request(&self) {
        host::close_request();
    }

    fn headers(&self, of: Map) -> Option<Vec<u8>> {
        host::headers(map(of))
    }

    fn header(&self, of: Map, name: &str) -> Option<Vec<u8>> {
        host::header(map(of), name)
    }

    fn set_header(&self, name: &[u8], value: &[u8]) -> bool {
        host::set_header(host::HeaderMap::Request, name, value)
    }

    fn add_header(&self, name: &[u8], value: &[u8]) -> bool {
        host::add_header(host::HeaderMap::Request, name, value)
    }

    fn remove_header(&self, of: Map, name: &[u8]) -> bool {
        host::remove_header(map(of), name)
    }

    fn property(&self, path: &str) -> Option<Vec<u8>> {
        host::property(path)
    }

    fn set_filter_state(&self, name: &str, value: &[u8]) -> bool {
        host::set_filter_state(name, value)
    }

    fn clear_route_cache(&self) -> bool {
        host::clear_route_cache()
    }

    fn callout(&self, cluster: &str, headers: &[(&str, &str)], body: &[u8], timeout_ms: u32) -> Option<u32> {
        host::callout(cluster, &header_map::write(headers), body, timeout_ms)
    }

    fn callout_body(&self, most: usize) -> Option<Vec<u8>> {
        host::callout_body(most)
    }

    fn reply(&self, response: &LocalResponse<'_>) -> bool {
        host::send_response(response.status, response.details, &header_map::write(response.headers), response.body)
    }

    fn metric(&self, kind: MetricKind, name: &str) -> Option<u32> {
        let kind = match kind {
            MetricKind::Counter => host::MetricKind::Counter,
            MetricKind::Gauge => host::MetricKind::Gauge,
            MetricKind::Histogram => host::MetricKind::Histogram,
        };
        host::metric(kind, name)
    }

    fn add_metric(&self, id: u32, by: i64) {
        host::add_metric(id, by);
    }

    fn record_metric(&self, id: u32, value: u64) {
        host::record_metric(id, value);
    }
}

impl wasm::Vm for Vm<Envoy> {
    fn new_root(&mut self, _root: u32) {}

    fn new_stream(&mut self, stream: u32, root: u32) {
        Vm::new_stream(self, stream, root);
    }

    fn configure(&mut self, root: u32, config: &[u8]) -> bool {
        Vm::configure(self, root, config)
    }

    fn tick(&mut self, root: u32) {
        Vm::tick(self, root);
    }

    fn request_headers(&mut self, stream: u32) -> HeadersStatus {
        headers(Vm::request_headers(self, stream))
    }

    fn request_body(&mut self, stream: u32) -> BodyStatus {
        match Vm::request_body(self, stream) {
            Next::Continue => BodyStatus::Continue,
            Next::Pause | Next::Stop => BodyStatus::Hold,
        }
    }

    fn request_trailers(&mut self, stream: u32) -> TrailersStatus {
        match Vm::request_trailers(self, stream) {
            Next::Continue => TrailersStatus::Continue,
            Next::Pause | Next::Stop => TrailersStatus::Stop,
        }
    }

    fn response_headers(&mut self, stream: u32) -> HeadersStatus {
        headers(Vm::response_headers(self, stream))
    }

    fn callout_done(&mut self, root: u32, token: u32, has_headers: bool) {
        Vm::callout_done(self, root, token, has_headers);
    }

    fn complete(&mut self, stream: u32) {
        Vm::complete(self, stream);
    }

    fn delete(&mut self, context: u32) {
        Vm::delete(self, context);
    }
}

fn headers(next: Next) -> HeadersStatus {
    match next {
        Next::Continue => HeadersStatus::Continue,
        Next::Pause | Next::Stop => HeadersStatus::Wait,
    }
}
