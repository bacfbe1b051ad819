//! Admission of connections and streams within the limits of their peers, and the transport that keeps to them.

mod common_room;
mod connection;
mod connection_table;
mod name_room;
mod quota;
#[cfg(test)]
mod tests;
mod transport;

pub(crate) use connection::{Admission, Peers, admission};
pub use connection_table::{ConnectionTable, SourceNetwork};
pub(crate) use transport::{Admitted, AdmittedConnection, QueuedResponse, ResponseStream, Transport};
