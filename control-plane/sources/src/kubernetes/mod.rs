//! A Kubernetes API as a source: `UpstreamCluster`s of the whole cluster, and the Secrets of one namespace to which they
//! may refer.
//!
//! - [`connect`]: who asks, and whom.
//! - [`session`]: two watches from their lists to the first error; an outage is a session's end, and its successor lists
//!   everything again, so that nothing is missed.
//! - [`store`]: what the watches have told, pure.
//! - [`health`]: whether what is known is current.
//! - [`backoff`]: when to try again.

mod backoff;
mod connect;
mod documents;
mod health;
mod reason;
mod session;
mod store;

pub use connect::{ConnectError, KubernetesAccess, connect};
pub use health::SourceHealth;
pub use session::{KubernetesSets, watch_kubernetes};
