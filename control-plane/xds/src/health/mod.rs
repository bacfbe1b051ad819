//! What Envoys report about their endpoints' health, by Envoy's own health discovery protocol.

mod answer_sender;
mod registry;
mod relay;
mod service;
mod unhealthy;

#[cfg(test)]
mod tests;

pub use registry::{Endpoints, HealthRegistry};
pub use relay::{Answer, Answers, repeated};
pub(crate) use service::service;
pub use unhealthy::{MAX_UNHEALTHY_SERVERS, UnhealthyReason, UnhealthyServer};
