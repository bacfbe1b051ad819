//! Envoy's C ABI (`source/extensions/dynamic_modules/abi/abi.h`), x86-64 and aarch64 calling conventions.
//!
//! Names are Envoy's, without the prefix `envoy_dynamic_module_type_`.

use std::ffi::c_void;

/// A buffer that Envoy owns, or one that the module lends for the length of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// May be null where `len` is 0.
    pub ptr: *const u8,
    /// Bytes.
    pub len: usize,
}

/// A header's name and value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeaderPair {
    /// The name, lower-case.
    pub key: Buffer,
    /// The value.
    pub value: Buffer,
}

/// `cert_validator_validation_result`, returned by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ValidationResult {
    /// 0 successful, 1 failed.
    pub status: u32,
    /// 0 not validated, 1 no client certificate, 2 validated, 3 failed.
    pub detailed_status: u32,
    /// The TLS alert to send.
    pub tls_alert: u8,
    /// Whether `tls_alert` holds.
    pub has_tls_alert: bool,
}

impl Buffer {
    /// No bytes.
    pub const EMPTY: Buffer = Buffer { ptr: std::ptr::null(), len: 0 };

    /// Lends bytes for the length of a call.
    pub const fn lend(bytes: &[u8]) -> Self {
        Buffer { ptr: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes.
    ///
    /// # Safety
    /// `ptr` is null, or points to `len` bytes that are neither written to nor freed during `'a`.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.ptr.is_null() || self.len == 0 {
            return &[];
        }
        // SAFETY: not null, and the caller vouches for the length and the lifetime.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

/// An HTTP filter's configuration on Envoy's side.
pub type ConfigPtr = *mut c_void;
/// An HTTP filter on Envoy's side: one stream.
pub type FilterPtr = *mut c_void;
/// A span on Envoy's side, the stream's or one below it.
pub type SpanPtr = *mut c_void;
/// A scheduler on Envoy's side.
pub type SchedulerPtr = *mut c_void;
/// A pointer of the module's own that Envoy keeps.
pub type ModulePtr = *const c_void;

/// `envoy_dynamic_module_type_http_callout_result`: there is an answer.
pub const CALLOUT_SUCCESS: u32 = 0;
/// `envoy_dynamic_module_type_http_callout_result`: the stream to the upstream was reset.
pub const CALLOUT_RESET: u32 = 1;

/// `http_header_type`: request headers.
pub const REQUEST_HEADERS: u32 = 0;
/// `http_header_type`: request trailers.
pub const REQUEST_TRAILERS: u32 = 1;
/// `http_header_type`: response headers.
pub const RESPONSE_HEADERS: u32 = 2;

unsafe extern "C" {
    pub(crate) fn envoy_dynamic_module_callback_http_get_headers_size(filter: FilterPtr, kind: u32) -> usize;
    pub(crate) fn envoy_dynamic_module_callback_http_get_headers(
        filter: FilterPtr,
        kind: u32,
        headers: *mut HeaderPair,
    ) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_get_header(
        filter: FilterPtr,
        kind: u32,
        key: Buffer,
        value: *mut Buffer,
        index: usize,
        count: *mut usize,
    ) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_set_header(
        filter: FilterPtr,
        kind: u32,
        key: Buffer,
        value: Buffer,
    ) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_add_header(
        filter: FilterPtr,
        kind: u32,
        key: Buffer,
        value: Buffer,
    ) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_send_response(
        filter: FilterPtr,
        status: u32,
        headers: *const HeaderPair,
        headers_len: usize,
        body: Buffer,
        details: Buffer,
    );
    pub(crate) fn envoy_dynamic_module_callback_http_send_response_data(
        filter: FilterPtr,
        data: Buffer,
        end_stream: bool,
    );
    pub(crate) fn envoy_dynamic_module_callback_http_filter_get_attribute_bool(
        filter: FilterPtr,
        attribute: u32,
        value: *mut bool,
    ) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_filter_get_attribute_int(
        filter: FilterPtr,
        attribute: u32,
        value: *mut u64,
    ) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_get_filter_state_bytes(
        filter: FilterPtr,
        key: Buffer,
        value: *mut Buffer,
    ) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_set_filter_state_bytes(
        filter: FilterPtr,
        key: Buffer,
        value: Buffer,
    ) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_clear_route_cache(filter: FilterPtr);
    pub(crate) fn envoy_dynamic_module_callback_http_filter_send_go_away_and_close(filter: FilterPtr, graceful: bool);
    pub(crate) fn envoy_dynamic_module_callback_get_most_specific_route_config(filter: FilterPtr) -> ModulePtr;
    pub(crate) fn envoy_dynamic_module_callback_http_filter_config_define_counter(
        config: ConfigPtr,
        name: Buffer,
        label_names: *const Buffer,
        label_names_len: usize,
        id: *mut usize,
    ) -> u32;
    pub(crate) fn envoy_dynamic_module_callback_http_filter_increment_counter(
        filter: FilterPtr,
        id: usize,
        label_values: *const Buffer,
        label_values_len: usize,
        by: u64,
    ) -> u32;
    pub(crate) fn envoy_dynamic_module_callback_http_filter_config_define_gauge(
        config: ConfigPtr,
        name: Buffer,
        label_names: *const Buffer,
        label_names_len: usize,
        id: *mut usize,
    ) -> u32;
    pub(crate) fn envoy_dynamic_module_callback_http_filter_config_define_histogram(
        config: ConfigPtr,
        name: Buffer,
        label_names: *const Buffer,
        label_names_len: usize,
        id: *mut usize,
    ) -> u32;
    pub(crate) fn envoy_dynamic_module_callback_http_filter_set_gauge(
        filter: FilterPtr,
        id: usize,
        label_values: *const Buffer,
        label_values_len: usize,
        value: u64,
    ) -> u32;
    pub(crate) fn envoy_dynamic_module_callback_http_filter_record_histogram_value(
        filter: FilterPtr,
        id: usize,
        label_values: *const Buffer,
        label_values_len: usize,
        value: u64,
    ) -> u32;
    pub(crate) fn envoy_dynamic_module_callback_http_filter_get_attribute_string(
        filter: FilterPtr,
        attribute: u32,
        value: *mut Buffer,
    ) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_get_metadata_string(
        filter: FilterPtr,
        source: u32,
        namespace: Buffer,
        key: Buffer,
        value: *mut Buffer,
    ) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
        filter: FilterPtr,
        namespace: Buffer,
        key: Buffer,
        value: Buffer,
    );
    pub(crate) fn envoy_dynamic_module_callback_cert_validator_set_filter_state(
        validator: ConfigPtr,
        key: Buffer,
        value: Buffer,
    ) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_filter_reset_stream(
        filter: FilterPtr,
        reason: u32,
        details: Buffer,
    );
    pub(crate) fn envoy_dynamic_module_callback_http_filter_continue_decoding(filter: FilterPtr);
    pub(crate) fn envoy_dynamic_module_callback_http_filter_scheduler_new(filter: FilterPtr) -> SchedulerPtr;
    pub(crate) fn envoy_dynamic_module_callback_http_filter_scheduler_commit(scheduler: SchedulerPtr, event: u64);
    pub(crate) fn envoy_dynamic_module_callback_http_filter_scheduler_delete(scheduler: SchedulerPtr);
    pub(crate) fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(config: ConfigPtr) -> SchedulerPtr;
    pub(crate) fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(
        scheduler: SchedulerPtr,
        event: u64,
    );
    pub(crate) fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(scheduler: SchedulerPtr);
    pub(crate) fn envoy_dynamic_module_callback_http_filter_config_http_callout(
        config: ConfigPtr,
        id: *mut u64,
        cluster: Buffer,
        headers: *const HeaderPair,
        headers_len: usize,
        body: Buffer,
        timeout_ms: u64,
    ) -> u32;
    pub(crate) fn envoy_dynamic_module_callback_http_get_active_span(filter: FilterPtr) -> SpanPtr;
    pub(crate) fn envoy_dynamic_module_callback_http_span_set_operation(span: SpanPtr, operation: Buffer);
    pub(crate) fn envoy_dynamic_module_callback_http_span_set_tag(span: SpanPtr, key: Buffer, value: Buffer);
    pub(crate) fn envoy_dynamic_module_callback_http_span_get_trace_id(span: SpanPtr, value: *mut Buffer) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_span_get_span_id(span: SpanPtr, value: *mut Buffer) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_http_span_spawn_child(
        filter: FilterPtr,
        span: SpanPtr,
        operation: Buffer,
    ) -> SpanPtr;
    pub(crate) fn envoy_dynamic_module_callback_http_child_span_finish(span: SpanPtr);
    pub(crate) fn envoy_dynamic_module_callback_log(level: u32, message: Buffer);
}
