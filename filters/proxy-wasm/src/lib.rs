//! `portcullis.wasm`: the filter bundle for Envoys that load no dynamic modules, from the same `portcullis-core`.
//!
//! The house stands, nobody lives in it yet. What moves in maps the proxy-wasm host to the core as `dynamic-module` maps
//! Envoy's ABI: headers in, a decision out, the time from the host.
