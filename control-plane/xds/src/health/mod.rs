//! What Envoys report about their endpoints' health, by Envoy's own health discovery protocol.

mod mouth;
mod registry;
mod relay;
mod service;

#[cfg(test)]
mod tests;

pub use registry::{Endpoints, HealthRegistry};
pub use relay::{Answer, Answers, repeated};
pub(crate) use service::service;
