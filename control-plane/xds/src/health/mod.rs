//! The health of endpoints, which Envoys report by Envoy's own health discovery protocol.

mod acknowledgements;
mod answer_turns;
mod endpoints;
mod health_room;
mod registry;
mod service;

#[cfg(test)]
mod room_tests;
#[cfg(test)]
mod tests;

pub use acknowledgements::{AckState, AckStates, repeated};
pub use endpoints::{Endpoints, MAX_UNHEALTHY_SERVERS, UnhealthyReason, UnhealthyServer};
pub use registry::{HealthRegistry, HealthReport};
pub(crate) use service::service;
