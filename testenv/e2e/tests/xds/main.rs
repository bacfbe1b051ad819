//! The xDS server among strangers and hostile peers: real TCP, TLS and HTTP/2, in this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod bounds;
mod envoy;
mod flood;
mod hostile;
mod refusing;
mod site;
