//! `portcullis.wasm`: the filter bundle for Envoys that load no dynamic modules, from the same `portcullis-core`.
//!
//! One VM runs on each worker of Envoy, with memory of its own: what the dynamic module keeps once in the process is kept
//! here once for each worker, unless it is shared through [`abi::Hostcalls`]. `docs/compatibility.md` lists what differs.
//!
//! - [`abi`]: the calls into Envoy.
//! - [`vm`]: the calls from Envoy; a good place to start.

pub mod abi;
#[cfg(target_arch = "wasm32")]
mod envoy;
mod host;
mod limit_exchange;
mod long_streams;
mod metrics;
mod reviews;
mod root;
mod route_marks;
pub mod vm;

#[cfg(test)]
mod tests;

#[cfg(target_arch = "wasm32")]
envoy_abi::wasm_module!(vm::Vm<envoy::Envoy>);
