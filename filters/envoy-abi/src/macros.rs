/// Exports the entry points that Envoy looks for in a module with one HTTP filter and one certificate validator. A macro,
/// because they must be defined in the library that Envoy loads, while `unsafe` stays in this crate.
#[macro_export]
macro_rules! module {
    (http_filter: $filter:ty, cert_validator: $validator:ty $(,)?) => {
        const _: () = {
            use ::core::ffi::{c_char, c_int};
            use $crate::raw::{Buffer, ConfigPtr, FilterPtr, HeaderPair, ModulePtr, ValidationResult};
            use $crate::{cert_validator, http::entry};

            #[unsafe(no_mangle)]
            extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
                $crate::ABI_VERSION.as_ptr()
            }

            // The functions below are called by Envoy alone, which keeps what the entry points ask for.

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
                config: ConfigPtr,
                name: Buffer,
                body: Buffer,
            ) -> ModulePtr {
                // SAFETY: called by Envoy.
                unsafe { entry::config_new::<$filter>(config, name, body) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(config: ModulePtr) {
                // SAFETY: called by Envoy.
                unsafe { entry::config_destroy::<$filter>(config) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_new(
                name: Buffer,
                body: Buffer,
            ) -> ModulePtr {
                // SAFETY: called by Envoy.
                unsafe { entry::route_config_new::<$filter>(name, body) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_destroy(route: ModulePtr) {
                // SAFETY: called by Envoy.
                unsafe { entry::route_config_destroy::<$filter>(route) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_new(
                config: ModulePtr,
                _filter: FilterPtr,
            ) -> ModulePtr {
                // SAFETY: called by Envoy.
                unsafe { entry::filter_new::<$filter>(config) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_destroy(stream: ModulePtr) {
                // SAFETY: called by Envoy.
                unsafe { entry::filter_destroy::<$filter>(stream) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
                filter: FilterPtr,
                stream: ModulePtr,
                _end_of_stream: bool,
            ) -> u32 {
                // SAFETY: called by Envoy.
                unsafe { entry::request_headers::<$filter>(filter, stream) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_body(
                filter: FilterPtr,
                stream: ModulePtr,
                _end_of_stream: bool,
            ) -> u32 {
                // SAFETY: called by Envoy.
                unsafe { entry::request_body::<$filter>(filter, stream) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_trailers(
                filter: FilterPtr,
                stream: ModulePtr,
            ) -> u32 {
                // SAFETY: called by Envoy.
                unsafe { entry::request_trailers::<$filter>(filter, stream) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_headers(
                filter: FilterPtr,
                stream: ModulePtr,
                end_of_stream: bool,
            ) -> u32 {
                // SAFETY: called by Envoy.
                unsafe { entry::response_headers::<$filter>(filter, stream, end_of_stream) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_body(
                filter: FilterPtr,
                stream: ModulePtr,
                end_of_stream: bool,
            ) -> u32 {
                // SAFETY: called by Envoy.
                unsafe { entry::response_body::<$filter>(filter, stream, end_of_stream) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_response_trailers(
                filter: FilterPtr,
                stream: ModulePtr,
            ) -> u32 {
                // SAFETY: called by Envoy.
                unsafe { entry::response_body::<$filter>(filter, stream, true) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(
                filter: FilterPtr,
                stream: ModulePtr,
            ) {
                // SAFETY: called by Envoy.
                unsafe { entry::stream_complete::<$filter>(filter, stream) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_scheduled(
                filter: FilterPtr,
                stream: ModulePtr,
                _event: u64,
            ) {
                // SAFETY: called by Envoy.
                unsafe { entry::scheduled::<$filter>(filter, stream) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_scheduled(
                envoy: ConfigPtr,
                config: ModulePtr,
                _event: u64,
            ) {
                // SAFETY: called by Envoy.
                unsafe { entry::config_scheduled::<$filter>(envoy, config) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_callout_done(
                _envoy: ConfigPtr,
                config: ModulePtr,
                id: u64,
                result: u32,
                headers: *const HeaderPair,
                headers_len: usize,
                chunks: *const Buffer,
                chunks_len: usize,
            ) {
                // SAFETY: called by Envoy.
                unsafe {
                    entry::config_callout_done::<$filter>(
                        config,
                        id,
                        result,
                        (headers, headers_len),
                        (chunks, chunks_len),
                    );
                }
            }

            #[unsafe(no_mangle)]
            extern "C" fn envoy_dynamic_module_on_http_filter_http_callout_done(
                _filter: FilterPtr,
                _stream: ModulePtr,
                _callout: u64,
                _result: u32,
                _headers: *const HeaderPair,
                _headers_len: usize,
                _chunks: *const Buffer,
                _chunks_len: usize,
            ) {
            }

            #[unsafe(no_mangle)]
            extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_headers(
                _filter: FilterPtr,
                _stream: ModulePtr,
                _callout: u64,
                _headers: *const HeaderPair,
                _headers_len: usize,
                _end: bool,
            ) {
            }

            #[unsafe(no_mangle)]
            extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_data(
                _filter: FilterPtr,
                _stream: ModulePtr,
                _callout: u64,
                _chunks: *const Buffer,
                _chunks_len: usize,
                _end: bool,
            ) {
            }

            #[unsafe(no_mangle)]
            extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_trailers(
                _filter: FilterPtr,
                _stream: ModulePtr,
                _callout: u64,
                _trailers: *const HeaderPair,
                _trailers_len: usize,
            ) {
            }

            #[unsafe(no_mangle)]
            extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_complete(
                _filter: FilterPtr,
                _stream: ModulePtr,
                _callout: u64,
            ) {
            }

            #[unsafe(no_mangle)]
            extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_reset(
                _filter: FilterPtr,
                _stream: ModulePtr,
                _callout: u64,
                _reason: u32,
            ) {
            }

            #[unsafe(no_mangle)]
            extern "C" fn envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(
                _filter: FilterPtr,
                _stream: ModulePtr,
            ) {
            }

            #[unsafe(no_mangle)]
            extern "C" fn envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(
                _filter: FilterPtr,
                _stream: ModulePtr,
            ) {
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_cert_validator_config_new(
                _config: ConfigPtr,
                name: Buffer,
                body: Buffer,
            ) -> ModulePtr {
                // SAFETY: called by Envoy.
                unsafe { cert_validator::config_new::<$validator>(name, body) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_cert_validator_config_destroy(validator: ModulePtr) {
                // SAFETY: called by Envoy.
                unsafe { cert_validator::config_destroy::<$validator>(validator) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_cert_validator_do_verify_cert_chain(
                config: ConfigPtr,
                validator: ModulePtr,
                certs: *mut Buffer,
                certs_len: usize,
                _host_name: Buffer,
                _is_server: bool,
            ) -> ValidationResult {
                // SAFETY: called by Envoy.
                unsafe { cert_validator::verify::<$validator>(config, validator, certs, certs_len) }
            }

            #[unsafe(no_mangle)]
            extern "C" fn envoy_dynamic_module_on_cert_validator_get_ssl_verify_mode(
                _validator: ModulePtr,
                _handshaker_provides_certificates: bool,
            ) -> c_int {
                // SSL_VERIFY_PEER without FAIL_IF_NO_PEER_CERT: ask, do not require.
                1
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn envoy_dynamic_module_on_cert_validator_update_digest(
                validator: ModulePtr,
                out: *mut Buffer,
            ) {
                // SAFETY: called by Envoy.
                unsafe { cert_validator::update_digest::<$validator>(validator, out) }
            }
        };
    };
}
