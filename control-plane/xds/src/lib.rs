//! xDS: the protocol as a state machine without I/O, and its gRPC server.
//!
//! This crate knows names, versions and bytes, not clusters. A [`Snapshot`] is everything that Envoy may ask for; one
//! Envoy's conversation about it is a stream of its own. [`serve`] runs such conversations on a Unix socket and keeps a
//! [`Registry`] of them. A [`HealthRegistry`] holds what Envoys report about their endpoints.

mod blocked;
mod delta;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod dialogue;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod exercise;
mod health;
mod kind;
mod metrics;
mod peer;
mod quarantine;
mod registry;
mod resource;
mod server;
mod snapshot;
mod socket;
mod standing;
mod tls;
mod view;

pub use delta::TypeStatus;
pub use health::{
    Answer, Answers, Endpoints, HealthRegistry, MAX_UNHEALTHY_SERVERS, UnhealthyReason, UnhealthyServer, repeated,
};
pub use metrics::XdsMetrics;
pub use registry::{NodeStatus, Registry};
pub use resource::{Part, Resource};
pub(crate) use server::{Admission, QueuedResponse, ResponseStream, admission};
pub use server::{Limits, Listeners, Rejection, ServeError, Served, serve};
pub use snapshot::Snapshot;
pub use socket::{Socket, SocketError};
pub use standing::{Refused, RejectedNode, Standing};
pub use tls::{Credentials, TlsError};
pub use view::{NodeInfo, OneView, View, Views};
