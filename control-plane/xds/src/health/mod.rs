//! The health of endpoints, which Envoys report by Envoy's own health discovery protocol.

mod acknowledgements;
mod registry;
mod service;

#[cfg(test)]
mod tests;

pub use acknowledgements::{AckState, AckStates, repeated};
pub use registry::{Endpoints, HealthRegistry};
pub use registry::{MAX_UNHEALTHY_SERVERS, UnhealthyReason, UnhealthyServer};
pub(crate) use service::service;
