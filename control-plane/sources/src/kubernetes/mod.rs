//! A Kubernetes API as a source: `UpstreamCluster`s and `GatewaySettings` of the whole cluster, and the Secrets of one namespace to
//! which they may refer.
//!
//! - [`connect`]: the client and its credentials.
//! - [`kinds`]: the kinds that are watched.
//! - [`session`]: the watches of clusters and of the settings in use, from their lists to the first error; an outage ends a
//!   session, and the next one lists everything again, so that nothing is missed. [`watches`] are its events.
//! - [`store`]: the objects that these watches delivered, pure; [`known`] those of one kind.
//! - [`optional`]: each other kind in sessions of its own; [`bounded`] its objects, [`fair_room`] how namespaces share the room, and
//!   [`absence`] whether the kind is not there, pure.
//! - [`published`]: the outputs that sessions share.
//! - [`health`]: whether the objects are current.
//! - [`backoff`]: the pauses between sessions.

mod absence;
mod bounded;
mod connect;
mod documents;
mod fair_room;
mod gateway_api;
mod health;
mod kinds;
mod known;
mod optional;
mod published;
mod session;
mod statuses;
mod store;
mod watches;

pub use connect::{ConnectError, KubernetesAccess, connect};
pub use documents::StoredStatus;
pub use gateway_api::GatewayApiObjects;
pub use health::{Backoff, SourceHealth, watch_reason};
pub use kinds::{ObjectKey, WatchedKind};
pub use session::{KubernetesSets, WatchOptions, watch_kubernetes};
pub use statuses::StoredStatuses;
