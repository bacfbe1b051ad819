//! Calls of a VM into Envoy. Everything concerns the context that Envoy calls, or the one of [`act_for`].

use std::ptr::{null, null_mut};
use std::time::Duration;

use super::raw;

const ERROR: u32 = 4;
const REQUEST: u32 = 0;
const CALLOUT_BODY: u32 = 4;
const PLUGIN_CONFIGURATION: u32 = 7;
const REALTIME: u32 = 0;
const MONOTONIC: u32 = 1;
/// No `grpc-status`.
const NO_GRPC: i32 = -1;

/// A map of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderMap {
    /// The request's headers.
    Request = 0,
    /// The request's trailers.
    RequestTrailers = 1,
    /// The answer's headers.
    Response = 2,
    /// The headers of a callout's answer.
    Callout = 6,
}

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter = 0,
    /// Is set.
    Gauge = 1,
    /// Takes values.
    Histogram = 2,
}

/// Logs a message of the module's own. Nothing that a client wrote and no secret belongs into it.
pub fn log_error(message: &str) {
    // SAFETY: the message is lent for the call.
    unsafe { raw::proxy_log(ERROR, message.as_ptr(), message.len()) };
}

/// The time since 1970; `None` if Envoy has none.
pub fn now() -> Option<Duration> {
    clock(REALTIME)
}

/// The time since any fixed point, by a clock that only goes forward, the same for all workers.
pub fn uptime() -> Option<Duration> {
    clock(MONOTONIC)
}

fn clock(clock: u32) -> Option<Duration> {
    let mut time = 0;
    // SAFETY: the result is written during the call.
    let status = unsafe { raw::clock_time_get(clock, 0, &mut time) };
    (status == 0).then(|| Duration::from_nanos(time))
}

/// Fills the buffer with random bytes; whether it could.
#[must_use]
pub fn fill_random(buffer: &mut [u8]) -> bool {
    // SAFETY: the buffer is written during the call, within its size.
    unsafe { raw::random_get(buffer.as_mut_ptr(), buffer.len()) == 0 }
}

/// Has the current root context called after that time, again and again; zero ends it.
pub fn tick_every(period: Duration) {
    let period = u32::try_from(period.as_millis()).unwrap_or(u32::MAX);
    // SAFETY: no pointers.
    unsafe { raw::proxy_set_tick_period_milliseconds(period) };
}

/// Switches to a context, until Envoy's call returns. False if there is no such context: then calls still concern the one
/// before.
#[must_use]
pub fn act_for(context: u32) -> bool {
    // SAFETY: no pointers.
    unsafe { raw::proxy_set_effective_context(context) == raw::OK }
}

/// Lets a request go on that waits.
pub fn continue_request() {
    // SAFETY: no pointers.
    unsafe { raw::proxy_continue_stream(REQUEST) };
}

/// Ends a request without an answer.
pub fn close_request() {
    // SAFETY: no pointers.
    unsafe { raw::proxy_close_stream(REQUEST) };
}

/// The configuration of the root context that is being configured.
pub fn configuration(size: usize) -> Option<Vec<u8>> {
    buffer(PLUGIN_CONFIGURATION, size)
}

/// The body of the present callout's response, up to that size.
pub fn callout_body(most: usize) -> Option<Vec<u8>> {
    buffer(CALLOUT_BODY, most)
}

fn buffer(kind: u32, most: usize) -> Option<Vec<u8>> {
    // SAFETY: the results are written during the call.
    returned(|data, size| unsafe { raw::proxy_get_buffer_bytes(kind, 0, most, data, size) })
}

/// A map's lines as the ABI writes them (`parse_pairs`).
pub fn headers(map: HeaderMap) -> Option<Vec<u8>> {
    // SAFETY: the results are written during the call.
    returned(|data, size| unsafe { raw::proxy_get_header_map_pairs(map as u32, data, size) })
}

/// The first line of a name.
pub fn header(map: HeaderMap, name: &str) -> Option<Vec<u8>> {
    let (key, key_size) = (name.as_ptr(), name.len());
    // SAFETY: the name is lent for the call, the results are written during it.
    returned(|data, size| unsafe { raw::proxy_get_header_map_value(map as u32, key, key_size, data, size) })
}

/// Puts one line in the place of all of that name; whether Envoy took it.
#[must_use]
pub fn set_header(map: HeaderMap, name: &[u8], value: &[u8]) -> bool {
    let (key, size) = (name.as_ptr(), name.len());
    // SAFETY: both are lent for the call.
    unsafe { raw::proxy_replace_header_map_value(map as u32, key, size, value.as_ptr(), value.len()) == raw::OK }
}

/// Adds a line; whether Envoy took it.
#[must_use]
pub fn add_header(map: HeaderMap, name: &[u8], value: &[u8]) -> bool {
    let (key, size) = (name.as_ptr(), name.len());
    // SAFETY: both are lent for the call.
    unsafe { raw::proxy_add_header_map_value(map as u32, key, size, value.as_ptr(), value.len()) == raw::OK }
}

/// Takes out all lines of a name; whether Envoy did.
#[must_use]
pub fn remove_header(map: HeaderMap, name: &[u8]) -> bool {
    // SAFETY: the name is lent for the call.
    unsafe { raw::proxy_remove_header_map_value(map as u32, name.as_ptr(), name.len()) == raw::OK }
}

/// An attribute; the parts of its name are separated by NUL.
pub fn property(path: &str) -> Option<Vec<u8>> {
    // SAFETY: the path is lent for the call, the results are written during it.
    returned(|data, size| unsafe { raw::proxy_get_property(path.as_ptr(), path.len(), data, size) })
}

/// Writes the request's filter state `wasm.<name>`; whether Envoy took it.
#[must_use]
pub fn set_filter_state(name: &str, value: &[u8]) -> bool {
    // SAFETY: both are lent for the call.
    unsafe { raw::proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) == raw::OK }
}

/// Has the route chosen anew; whether Envoy knows how to.
#[must_use]
pub fn clear_route_cache() -> bool {
    let name = "clear_route_cache";
    // SAFETY: the name is lent for the call, the results are written during it.
    let call =
        |data, size| unsafe { raw::proxy_call_foreign_function(name.as_ptr(), name.len(), null(), 0, data, size) };
    returned(call).is_some()
}

/// Sends a request to an Envoy cluster, on behalf of the current context, with which it ends. `headers` as `pairs` of the ABI.
/// Returns its number.
pub fn callout(cluster: &str, headers: &[u8], body: &[u8], timeout_ms: u32) -> Option<u32> {
    let mut token = 0;
    // SAFETY: everything is lent for the call, the token is written during it.
    let status = unsafe {
        raw::proxy_http_call(
            cluster.as_ptr(),
            cluster.len(),
            headers.as_ptr(),
            headers.len(),
            body.as_ptr(),
            body.len(),
            null(),
            0,
            timeout_ms,
            &mut token,
        )
    };
    (status == raw::OK).then_some(token)
}

/// Answers the current stream. `headers` as `pairs` of the ABI.
pub fn send_response(status: u16, details: &str, headers: &[u8], body: &[u8]) -> bool {
    // SAFETY: everything is lent for the call.
    let status = unsafe {
        raw::proxy_send_local_response(
            u32::from(status),
            details.as_ptr(),
            details.len(),
            body.as_ptr(),
            body.len(),
            headers.as_ptr(),
            headers.len(),
            NO_GRPC,
        )
    };
    status == raw::OK
}

/// Makes a metric, or finds the one of that name. Returns its number.
pub fn metric(kind: MetricKind, name: &str) -> Option<u32> {
    let mut id = 0;
    // SAFETY: the name is lent for the call, the number is written during it.
    let status = unsafe { raw::proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &mut id) };
    (status == raw::OK).then_some(id)
}

/// Adds to a counter or a gauge.
pub fn add_metric(id: u32, by: i64) {
    // SAFETY: no pointers.
    unsafe { raw::proxy_increment_metric(id, by) };
}

/// Adds a value to a histogram.
pub fn record_metric(id: u32, value: u64) {
    // SAFETY: no pointers.
    unsafe { raw::proxy_record_metric(id, value) };
}

/// The value that all workers share under a key, with the number by which [`set_shared`] notices that it was changed meanwhile.
pub fn shared(key: &[u8]) -> Option<(Vec<u8>, u32)> {
    let mut cas = 0;
    let cas_out: *mut u32 = &mut cas;
    // SAFETY: the key is lent for the call, the results are written during it.
    let call = |data, size| unsafe { raw::proxy_get_shared_data(key.as_ptr(), key.len(), data, size, cas_out) };
    let value = returned(call)?;
    Some((value, cas))
}

/// Shares a value under a key; false if it was changed since it had that number. 0 writes in any case.
#[must_use]
pub fn set_shared(key: &[u8], value: &[u8], cas: u32) -> bool {
    // SAFETY: both are lent for the call.
    unsafe { raw::proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), cas) == raw::OK }
}

/// The bytes that a call returned, in memory of ours that Envoy filled.
fn returned(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Option<Vec<u8>> {
    let (mut data, mut size) = (null_mut(), 0);
    if call(&mut data, &mut size) != raw::OK {
        return None;
    }
    if data.is_null() || size == 0 {
        return Some(Vec::new());
    }
    // SAFETY: Envoy had `allocate` make exactly that many bytes, filled them, and keeps no pointer to them.
    Some(unsafe { Vec::from_raw_parts(data, size, size) })
}

/// Memory for what Envoy returns. Envoy alone calls it; [`returned`] takes it over.
#[doc(hidden)]
pub fn allocate(size: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; size].into_boxed_slice()).cast()
}
