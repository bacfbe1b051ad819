//! Clients for tests: plain HTTP for status pages, raw TLS for hostile bytes, HTTP/2 with free choice of headers.

mod always;
mod crowd;
mod h2;
mod h2_frames;
mod http1;
mod keystore;
pub mod plain;
mod pressure;
mod raw;
mod response;
mod tls;

pub use crowd::Crowd;
pub use h2::{H2Client, H2Stream, Outgoing, Timed};
pub use h2_frames::H2Frames;
pub use keystore::KeyStore;
pub use pressure::{End, Failure, Followers, Lane, Outcome, Protocol, Steady, Watches};
pub use raw::TlsConnection;
pub use response::Response;
pub use tls::{TlsTarget, Trust};
