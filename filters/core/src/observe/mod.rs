//! What an operator sees: counts of requests by labels of closed sets, and lines of the access log.
//!
//! - [`catalog`]: every metric with its labels, the one source of `docs/reference/metrics.md`.
//! - `verb`, `resource`, `outcome`: the closed sets. What a client invents is `other`, so that no client makes a series.
//! - [`Series`]: counts of one cluster's requests, in the process, until the host carries them to Envoy.
//! - [`Seen`]: what judging a request has found out about it, for both.
//! - [`Shown`]: what a request asks for, for routes and logs of somebody's own.
//! - `entry`, `json`: the access log's JSON, written here and nowhere else, because clients choose what stands in it.

pub mod catalog;
mod entry;
mod json;
mod outcome;
#[cfg(test)]
mod page;
mod resource;
mod seen;
mod series;
mod shown;
mod tally;
mod verb;

pub use entry::Entry;
pub use outcome::Outcome;
pub use seen::Seen;
pub use series::{Gauges, Labels, Series};
pub use shown::Shown;
