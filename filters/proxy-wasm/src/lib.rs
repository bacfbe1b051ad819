//! `portcullis.wasm`: the filter bundle for Envoys that load no dynamic modules, from the same `portcullis-core`.
//!
//! One VM runs on each worker of Envoy, with memory of its own: what the dynamic module keeps once in the process is kept
//! here once for each worker, unless it is shared through [`host::Host`]. `docs/compatibility.md` lists what differs.
//!
//! - [`host`]: what is needed of Envoy.
//! - [`bundle`]: what Envoy calls; a good place to start.

mod apply;
pub mod bundle;
mod clusters;
#[cfg(target_arch = "wasm32")]
mod envoy;
mod farewell;
mod fault;
pub mod host;
mod judge;
mod levels;
mod memory;
mod metrics;
mod pairs;
mod peers;
mod places;
mod reviews;
mod root;
mod shelf;
mod stream;
mod table;

#[cfg(test)]
mod tests;

#[cfg(target_arch = "wasm32")]
envoy_abi::wasm_module!(bundle::Bundle<envoy::Envoy>);
