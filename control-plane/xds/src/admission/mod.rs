//! Admission of connections and streams within the limits of their peers, and the transport that keeps to them.

mod arrival;
mod common_room;
mod connection;
mod connection_table;
mod held_messages;
mod name_room;
mod namespace_room;
mod quota;
mod reading;
mod receiving;
mod response_room;
mod rest;
#[cfg(test)]
mod tests;
mod transport;
mod waits;

pub(crate) use connection::{Admission, Peers, admission};
pub use connection_table::{ConnectionTable, SourceNetwork};
pub(crate) use reading::ResponseRoom;
pub(crate) use rest::Rest;
pub(crate) use transport::{Admitted, AdmittedConnection, QueuedResponse, ResponseStream, Transport, UnknownPaths};
