//! Envoy's dynamic module ABI, as far as we use it, by hand.
//!
//! - [`raw`]: the C types and callbacks, one to one.
//! - [`http`]: an HTTP filter as safe traits and handles.
//! - [`cert_validator`]: a certificate validator likewise.
//! - [`module!`]: exports the entry points that Envoy looks for.
//!
//! # Invariants
//! - The only unsafe code of the workspace; every block says why it is sound.
//! - No panic crosses the ABI: every entry point is guarded, and answers a panic by failing closed.
//! - Only symbols that the oldest supported Envoy (1.38) exports are linked: Envoy resolves all of them when it loads the
//!   module, and refuses it if one is missing.
//! - Whatever Envoy lends (headers, attributes, filter state) lives no longer than the handle's shared borrow; every setter
//!   takes the handle exclusively.

pub mod cert_validator;
mod exported;
pub mod guard;
pub mod http;
pub mod log;
mod macros;
pub mod raw;

/// The ABI version of the pinned Envoy (1.40), NUL-terminated. Older ones that we support compare it and warn, no more.
pub const ABI_VERSION: &std::ffi::CStr = c"v0.2.0";
