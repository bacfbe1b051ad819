//! Asks the oracle (testenv/oracle) what kube-apiserver's own packages make of requests, and makes up requests that are
//! likely to be read differently.

mod ask;
mod dice;
mod targets;

pub use ask::{Oracle, bytes, text};
pub use dice::Dice;
pub use targets::{narrowed_list, target};
