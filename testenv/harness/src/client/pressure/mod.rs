//! Pressure on a gateway: many connections on few threads, requests at a steady rate and watches that stay open.
//!
//! The rate is open-loop: a request goes out when its time has come, however long the ones before it take. A request that a
//! closing connection never took is sent again on a new one, as every HTTP client does; anything else that is not the
//! expected answer is a failure, and none is repeated.

mod followers;
mod lane;
mod line;
mod steady;
mod tally;
mod watches;

pub use followers::{End, Followers};
pub use lane::{Lane, Protocol};
pub use steady::Steady;
pub use tally::{Failure, Outcome};
pub use watches::Watches;
