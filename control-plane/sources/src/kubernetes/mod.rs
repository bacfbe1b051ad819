//! A Kubernetes API as a source: `UpstreamCluster`s and `GatewaySettings` of the whole cluster, and the Secrets of one namespace to
//! which they may refer.
//!
//! - [`connect`]: the client and its credentials.
//! - [`kinds`]: the kinds that are watched.
//! - [`watches`]: the watches of a session; a kind that is not required may be absent.
//! - [`session`]: the watches from their lists to the first error; an outage ends a session, and the next one lists everything
//!   again, so that nothing is missed.
//! - [`store`]: the objects that the watches delivered, pure; [`known`] those of one kind.
//! - [`health`]: whether the objects are current.
//! - [`backoff`]: the pauses between sessions.

mod connect;
mod documents;
mod gateway_api;
mod health;
mod kinds;
mod known;
mod session;
mod store;
mod watches;

pub use connect::{ConnectError, KubernetesAccess, connect};
pub use documents::StoredStatus;
pub use gateway_api::GatewayApiObjects;
pub use health::{Backoff, SourceHealth, watch_reason};
pub use kinds::{ObjectKey, WatchedKind};
pub use session::{KubernetesSets, WatchOptions, watch_kubernetes};
pub use store::StoredStatuses;
