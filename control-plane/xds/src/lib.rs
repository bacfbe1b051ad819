//! xDS: the protocol as a state machine without I/O, and its gRPC server.
//!
//! This crate knows names, versions and bytes, not clusters. A [`Snapshot`] is everything that Envoy may ask for; one
//! Envoy's exchange about it is a stream of its own. [`serve`] runs such streams on a Unix socket and keeps a
//! [`Registry`] of them. A [`HealthRegistry`] holds what Envoys report about their endpoints, and a [`ReportSink`] takes all other
//! reports of gateways.

mod admission;
mod bounded_message;
mod changed_names;
mod chunk;
mod content_hash;
mod delta;
mod health;
mod kind;
mod limits;
mod lock;
mod membership;
mod message_reader;
mod metrics;
mod node;
mod node_name;
mod open_streams;
mod owner_bytes;
mod peer;
mod quarantine;
mod registry;
mod report;
mod resource;
mod server;
mod service_frame;
mod snapshot;
mod socket;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod testing;
mod tls;

pub use admission::{ConnectionTable, SourceNetwork};
pub use changed_names::ChangedNames;
pub use delta::TypeStatus;
pub use health::{
    AckState, AckStates, Endpoints, HealthRegistry, HealthReport, MAX_UNHEALTHY_SERVERS, UnhealthyReason,
    UnhealthyServer, repeated,
};
pub use limits::{Limits, Rejection};
pub use membership::{GATEWAY_DOMAIN, INSTANCE_DOMAIN, Membership};
pub use metrics::XdsMetrics;
pub use node::{
    NodeInfo, NodeRefusals, OneView, Refused, RejectedNode, ReportScope, StreamGuard, Unserved, View, Views,
};
pub use node_name::{gateway_namespace, node_owner};
pub use open_streams::OpenStreams;
pub use owner_bytes::{InstanceShares, OwnerBytes};
pub use registry::{NodeStatus, Registry, RegistryChanges};
pub use report::{GatewayReport, ReportClient, ReportSink, ReportStream, UnreadableReport};
pub use resource::{Part, Resource};
pub use server::{Listeners, ServeError, ServerState, serve};
pub use snapshot::{Snapshot, SnapshotChange};
pub use socket::{Socket, SocketError};
pub use tls::{Credentials, TlsError};
