//! The gateway in front of stub apiservers, which witness exactly what reaches them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod access_log;
mod agent;
mod attack;
mod attribution;
mod balance;
mod buckets;
mod changes;
mod closing;
mod crowd;
mod doors;
mod drain;
mod fail_closed;
mod goldens;
mod handshake;
mod handshakes;
mod health;
mod hostile;
mod in_flight;
mod limits;
mod live;
mod lives;
mod loops;
mod observe;
mod paths;
mod replies;
mod review_faults;
mod review_storm;
mod reviews;
mod source_faults;
mod spoofing;
mod swap;
mod versions;
mod world;
mod zones;
