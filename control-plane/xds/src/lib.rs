//! xDS: the protocol as a state machine without I/O, and its gRPC server.
//!
//! This crate knows names, versions and bytes, not clusters. A [`Snapshot`] is everything that Envoy may ask for; a
//! [`DeltaStream`] is one Envoy's conversation about it, in the incremental variant of the protocol. [`serve`] runs such
//! conversations on a Unix socket and keeps a [`Registry`] of them. A [`HealthRegistry`] holds what Envoys report about
//! their endpoints.

mod delta;
mod health;
mod kind;
mod registry;
mod server;
mod snapshot;
mod socket;

pub use delta::{DeltaStream, TypeStatus};
pub use health::{Endpoints, HealthRegistry};
pub use registry::{NodeStatus, Registry};
pub use server::{ServeError, serve};
pub use snapshot::{Resource, Snapshot};
pub use socket::{Socket, SocketError};
