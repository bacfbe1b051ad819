//! Limits that gateways share, kept in Redis or Valkey: control planes that cannot elect one of them to divide limits (in several
//! regions, over files) divide the same limits together.
//!
//! The store keeps what a [`portcullis_limits::Limiter`] of one cluster knows, and nothing else. A control plane reads it with the
//! store's time, changes it by the reports that have come, and writes it back if nothing has changed it meanwhile: two scripts, each
//! atomic. All that is lost with the store (a restart, a failover before the replica had the last writes, an eviction) is lost as with a
//! new leader: a limiter that knows nothing renews what gateways say that they have, and grants nothing else, until every lease has
//! ended.
//!
//! - [`store`]: the reports that wait, a round for all of them. Start here.
//! - `address`: `--limits-store`. `client`: its user and its certificates. `connection`: one connection to one server, and what is
//!   asked there by `scripts`. `clock`: steps of its time.

mod address;
mod client;
mod clock;
mod connection;
mod error;
mod scripts;
mod store;

pub use address::{AddressError, StoreAddress};
pub use client::StoreFiles;
pub use error::StoreError;
pub use portcullis_limits::NodeOwners;
pub use store::{ClusterExchange, LimitStore, ProcessReport, StoreStatistics};
