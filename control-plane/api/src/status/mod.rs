//! The outcome of an `UpstreamCluster`, of `GatewaySettings` or an `Instance`, as conditions in Kubernetes' form.
//!
//! Pure: [`ClusterStatus::of`] turns an [`StatusInput`] (the diagnosis, the acknowledgements of gateways and the endpoints that
//! they find healthy) into the object's `status`. Time is an argument, and matters only where a condition's status flips. No
//! secret comes out: messages of Envoy pass [`sanitize`], which removes everything that could be one.

mod cluster;
mod condition;
mod counted;
mod discovery;
mod findings;
mod gateway_health;
mod health;
mod input;
mod instance;
mod limit_facts;
mod limits;
mod sanitize;
mod served_version;
mod settings;
mod shadow;
mod shadow_facts;
mod timestamp;
mod token_keys;

#[cfg(test)]
mod tests;

pub use cluster::{ClusterStatus, GatewayEntry, MAX_GATEWAYS, MAX_UNHEALTHY};
pub use condition::{Condition, ConditionType, State};
pub use discovery::DiscoveryFacts;
pub use gateway_health::{GatewayHealth, unhealthy_at};
pub use health::{Health, UnhealthyServer};
pub use input::{Acceptance, Gateway, GatewayProgress, Served, StatusInput};
pub use instance::{InstanceCounts, InstanceFacts, InstanceStatus};
pub use limit_facts::LimitFacts;
pub use sanitize::{MAX_MESSAGE, sanitize};
pub use settings::{FilledDefault, SettingsStatus, filled_defaults};
pub use shadow_facts::ShadowFacts;
pub use timestamp::Timestamp;
pub use token_keys::{KeysInUse, NoAnswer, TokenKeysFacts};

pub use findings::accepted;
