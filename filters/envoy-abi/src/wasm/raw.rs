//! Envoy's functions for a VM (proxy-wasm ABI 0.2.1). Sizes and pointers are those of wasm32; bytes that are returned through a
//! pointer to a pointer were allocated by the module's own `malloc` and belong to it.
#![expect(missing_docs, reason = "named as the ABI names them; described there")]

/// `WasmResult::Ok`.
pub const OK: u32 = 0;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    pub fn proxy_log(level: u32, message: *const u8, size: usize) -> u32;
    pub fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    pub fn proxy_set_effective_context(context: u32) -> u32;
    pub fn proxy_continue_stream(kind: u32) -> u32;
    pub fn proxy_close_stream(kind: u32) -> u32;

    pub fn proxy_get_buffer_bytes(kind: u32, start: usize, most: usize, data: *mut *mut u8, size: *mut usize) -> u32;

    pub fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, size: *mut usize) -> u32;
    pub fn proxy_get_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    pub fn proxy_replace_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        size: usize,
    ) -> u32;
    pub fn proxy_add_header_map_value(map: u32, key: *const u8, key_size: usize, value: *const u8, size: usize) -> u32;
    pub fn proxy_remove_header_map_value(map: u32, key: *const u8, key_size: usize) -> u32;

    pub fn proxy_get_property(path: *const u8, path_size: usize, data: *mut *mut u8, size: *mut usize) -> u32;
    pub fn proxy_set_property(path: *const u8, path_size: usize, value: *const u8, size: usize) -> u32;

    pub fn proxy_http_call(
        cluster: *const u8,
        cluster_size: usize,
        headers: *const u8,
        headers_size: usize,
        body: *const u8,
        body_size: usize,
        trailers: *const u8,
        trailers_size: usize,
        timeout_ms: u32,
        token: *mut u32,
    ) -> u32;

    pub fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_size: usize,
        body: *const u8,
        body_size: usize,
        headers: *const u8,
        headers_size: usize,
        grpc_status: i32,
    ) -> u32;

    pub fn proxy_define_metric(kind: u32, name: *const u8, size: usize, id: *mut u32) -> u32;
    pub fn proxy_increment_metric(id: u32, offset: i64) -> u32;
    pub fn proxy_record_metric(id: u32, value: u64) -> u32;

    pub fn proxy_get_shared_data(
        key: *const u8,
        key_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
        cas: *mut u32,
    ) -> u32;
    pub fn proxy_set_shared_data(key: *const u8, key_size: usize, value: *const u8, size: usize, cas: u32) -> u32;

    pub fn proxy_call_foreign_function(
        name: *const u8,
        name_size: usize,
        arguments: *const u8,
        arguments_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
}

// Envoy offers these of WASI to every VM.
#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    pub fn random_get(buffer: *mut u8, size: usize) -> u32;
    pub fn clock_time_get(clock: u32, precision: u64, time: *mut u64) -> u32;
}
