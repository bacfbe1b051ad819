//! xDS: the protocol as a state machine without I/O, and its gRPC server.
//!
//! This crate knows names, versions and bytes, not clusters. A [`Snapshot`] is everything that Envoy may ask for; one
//! Envoy's conversation about it is a stream of its own. [`serve`] runs such conversations on a Unix socket and keeps a
//! [`Registry`] of them. A [`HealthRegistry`] holds what Envoys report about their endpoints.

mod delta;
mod hash;
mod health;
mod kind;
mod piece;
mod quarantine;
mod registry;
mod resource;
mod server;
mod snapshot;
mod socket;
mod sotw;
mod standing;
mod stream;
mod wait;

pub use delta::TypeStatus;
pub use health::{Endpoints, HealthRegistry};
pub use registry::{NodeStatus, Registry};
pub use resource::{Part, Resource};
pub use server::{ServeError, serve};
pub use snapshot::Snapshot;
pub use socket::{Socket, SocketError};
pub use standing::{Refused, Standing};
