//! Pressure on a gateway: many connections on few threads, requests at a steady rate and watches that stay open.
//!
//! The rate is open-loop: a request goes out when its time has come, however long the ones before it take. A request that a
//! closing connection never took is sent again on a new one, as every HTTP client does; anything else that is not the
//! expected answer is a failure, and none is repeated.

mod connection;
mod open_loop;
mod profile;
mod tally;
mod watchers;
mod watches;

pub use open_loop::OpenLoopLoad;
pub use profile::{LoadProfile, Protocol};
pub use tally::{Failure, Outcome};
pub use watchers::{End, Watchers};
pub use watches::Watches;
