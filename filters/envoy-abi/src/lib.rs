//! Envoy's dynamic module ABI, and for wasm32 the proxy-wasm ABI, as far as we use them, by hand.
//!
//! - [`raw`]: the C types and callbacks, one to one.
//! - [`http`]: an HTTP filter as safe traits and handles.
//! - [`cert_validator`]: a certificate validator likewise.
//! - [`module!`]: exports the entry points that Envoy looks for.
//! - `wasm`: the proxy-wasm ABI; nothing but this on wasm32.
//!
//! # Invariants
//! - The only unsafe code of the workspace; every block says why it is sound.
//! - No panic crosses the ABI: every entry point is guarded, and answers a panic by failing closed.
//! - Only symbols that the oldest supported Envoy (1.38) exports are linked: Envoy resolves all of them when it loads the
//!   module, and refuses it if one is missing.
//! - Whatever Envoy lends (headers, attributes, filter state) lives no longer than the handle's shared borrow; every setter
//!   takes the handle exclusively.

#[cfg(not(target_arch = "wasm32"))]
pub mod cert_validator;
#[cfg(not(target_arch = "wasm32"))]
mod exported;
#[cfg(not(target_arch = "wasm32"))]
pub mod guard;
#[cfg(not(target_arch = "wasm32"))]
pub mod http;
#[cfg(not(target_arch = "wasm32"))]
pub mod log;
#[cfg(not(target_arch = "wasm32"))]
mod macros;
#[cfg(not(target_arch = "wasm32"))]
pub mod raw;
#[cfg(target_arch = "wasm32")]
pub mod wasm;

/// The ABI version of the pinned Envoy (1.40), NUL-terminated. Older ones that we support compare it and warn, no more.
pub const ABI_VERSION: &std::ffi::CStr = c"v0.2.0";
