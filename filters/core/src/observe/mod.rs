//! What an operator sees: counts of requests by labels of closed sets, and lines of the access log.
//!
//! - [`catalog`]: every metric with its labels, the one source of `docs/reference/metrics.md`.
//! - `verb`, `resource`, `outcome`: the closed sets. What a client invents is `other`, so that no client makes a series.
//! - [`ClusterMetrics`]: counts of one cluster's requests, in the process, until the host carries them to Envoy.
//! - [`RequestRecord`]: what judging a request has found out about it, for both.
//! - [`RequestAttributes`]: what a request asks for, for routes and logs of somebody's own.
//! - `entry`, `json`: the access log's JSON, written here and nowhere else, because clients choose what stands in it.

mod access_log;
pub mod catalog;
mod cluster_metrics;
mod outcome;
#[cfg(test)]
mod page;
mod publisher;
mod request_attributes;
mod request_record;
mod resource;

pub use access_log::AccessLogEntry;
pub use cluster_metrics::{ClusterMetrics, Gauges, Labels};
pub use outcome::Outcome;
pub use publisher::{MetricsSink, Publisher, publish_counts};
pub use request_attributes::RequestAttributes;
pub use request_record::RequestRecord;
