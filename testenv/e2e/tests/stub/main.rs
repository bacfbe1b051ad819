//! The gateway in front of stub apiservers, which witness exactly what reaches them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod access_log;
mod changes;
mod fail_closed;
mod limits;
mod observe;
mod reviews;
mod spoofing;
mod versions;
mod world;
