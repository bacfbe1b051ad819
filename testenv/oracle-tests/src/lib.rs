//! Asks the oracle (testenv/oracle) what kube-apiserver's own packages make of requests, and makes up requests that are
//! likely to be read differently.

mod ask;
mod dice;
mod gateway;
mod headers;
mod targets;

pub use ask::{Oracle, bytes, text};
pub use dice::Dice;
pub use gateway::{Judged, Lab, Outcome};
pub use headers::{Headers, credentials, impersonation, user};
pub use targets::{narrowed_list, target};
