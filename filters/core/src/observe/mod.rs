//! Metrics by labels of closed sets, and lines of the access log.
//!
//! - [`catalog`]: every metric with its labels, the one source of `docs/reference/metrics.md`.
//! - `resource`, `outcome`: the closed sets. A client's invention is `other`, so that no client makes a series.
//! - [`ClusterMetrics`]: counts of one cluster's requests; [`Publisher`]: the counts of all, until the proxy takes them.
//! - [`RequestRecord`]: the findings about one request, for both.
//! - [`RequestAttributes`]: the attributes of a request that are exported to other filters, routes and logs.
//! - [`AccessLogEntry`]: the access log's JSON, written here and nowhere else, because clients choose its content.

mod access_log;
pub mod catalog;
mod cluster_metrics;
mod flush;
mod outcome;
#[cfg(test)]
mod page;
mod publisher;
mod request_attributes;
mod request_record;
mod resource;

pub use access_log::AccessLogEntry;
pub use cluster_metrics::{ClusterMetrics, Gauges, Labels};
pub use flush::{FLUSH_INTERVAL, FlushGate, OrphanedMetrics};
pub use outcome::Outcome;
pub use publisher::{MetricsSink, Publisher};
pub use request_attributes::RequestAttributes;
pub use request_record::RequestRecord;
