//! Clients for tests: plain HTTP for status pages, raw TLS for hostile bytes, HTTP/2 with free choice of headers.

mod client_pool;
mod fixed_client_cert;
mod h2;
mod h2_frames;
mod http1;
mod keystore;
mod load;
pub mod plain;
mod raw;
mod response;
mod tls;

pub use client_pool::ClientPool;
pub use h2::{H2Client, H2Stream, Outgoing, Timed};
pub use h2_frames::H2Frames;
pub use keystore::KeyStore;
pub use load::{End, Failure, LoadProfile, OpenLoopLoad, Outcome, Protocol, Watchers, Watches};
pub use raw::TlsConnection;
pub use response::Response;
pub use tls::{TlsTarget, Trust};
