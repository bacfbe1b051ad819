//! `portcullis.wasm`: the filter bundle for Envoys that load no dynamic modules, from the same `portcullis-core`.
//!
//! One VM runs on each worker of Envoy, with memory of its own: what the dynamic module keeps once in the process is kept
//! here once for each worker, unless it is shared through [`hostcalls::Hostcalls`]. `docs/compatibility.md` lists what differs.
//!
//! - [`hostcalls`]: the calls into Envoy.
//! - [`vm`]: the calls from Envoy; a good place to start.

mod clusters;
#[cfg(target_arch = "wasm32")]
mod envoy;
mod fault;
mod header_map;
mod host;
pub mod hostcalls;
mod long_streams;
mod memory;
mod metrics;
mod reviews;
mod root;
mod shared_buckets;
mod shared_in_flight;
mod shared_reviews;
mod shared_table;
pub mod vm;

#[cfg(test)]
mod tests;

#[cfg(target_arch = "wasm32")]
envoy_abi::wasm_module!(vm::Vm<envoy::Envoy>);
