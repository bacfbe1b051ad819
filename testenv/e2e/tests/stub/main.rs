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
mod handshake;
mod handshakes;
mod health;
mod hostile;
mod in_flight;
mod limits;
mod live;
mod loops;
mod observe;
mod paths;
mod quarantine;
mod replies;
mod review_faults;
mod review_storm;
mod reviews;
mod saboteur;
mod sotw;
mod spoofing;
mod swap;
mod versions;
mod world;
mod zones;
