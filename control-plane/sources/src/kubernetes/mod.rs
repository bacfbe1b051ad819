//! A Kubernetes API as a source: `UpstreamCluster`s of the whole cluster, and the Secrets of one namespace to which they may
//! refer.
//!
//! - [`connect`]: the client and its credentials.
//! - [`session`]: two watches from their lists to the first error; an outage ends a session, and the next one lists everything
//!   again, so that nothing is missed.
//! - [`store`]: the objects that the watches delivered, pure.
//! - [`health`]: whether the objects are current.
//! - [`backoff`]: the pauses between sessions.

mod connect;
mod documents;
mod health;
mod session;
mod store;

pub use connect::{ConnectError, KubernetesAccess, connect};
pub use health::{Backoff, SourceHealth, watch_reason};
pub use session::{KubernetesSets, watch_kubernetes};
