//! What Envoys report about their endpoints' health, by Envoy's own health discovery protocol.

mod registry;
mod service;

#[cfg(test)]
mod tests;

pub use registry::{Endpoints, HealthRegistry};
pub(crate) use service::service;
