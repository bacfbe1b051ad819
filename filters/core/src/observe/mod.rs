//! Metrics by labels of closed sets, and lines of the access log.
//!
//! - [`catalog`]: every metric with its labels, the one source of `docs/reference/metrics.md`.
//! - `verb`, `resource`, `outcome`, `status_code`: the closed sets. A client's invention is `other`, so that no client makes a series.
//! - `counters`, `responses`, `running`: decisions, answers with their durations and sizes, and requests that run. `shadow`: the
//!   differences that another configuration would make.
//! - [`SeriesBudget`]: the bound of all series of a process; [`SeriesLedger`]: the part of one cluster over all its
//!   configurations.
//! - [`ClusterTotals`]: the activity of a cluster over all its configurations; `talkers`: its clients with the most requests.
//! - [`ClusterMetrics`]: counts of one cluster's requests; [`Publisher`]: the counts of all, until the proxy takes them;
//!   `write_queue`: the steps in which it does. [`Flusher`]: the times at which it does, where workers share memory.
//! - [`RequestRecord`]: the findings about one request, for both.
//! - [`RequestAttributes`]: the attributes of a request that are exported to other filters, routes and logs.
//! - [`SpanRecord`]: the attributes of a request in a trace.
//! - [`AccessLogEntry`]: the access log's JSON, written here and nowhere else, because clients choose its content.

mod access_log;
pub(crate) mod built_in;
pub mod catalog;
mod cluster_counts;
mod cluster_metrics;
mod counters;
mod flush;
mod histogram;
mod histogram_series;
mod limit_gauges;
mod outcome;
#[cfg(test)]
mod page;
mod publisher;
mod request_attributes;
mod request_record;
mod resource;
mod response_key;
mod responses;
mod running;
mod series_budget;
mod series_ledger;
mod servers;
mod shadow;
mod shadow_counts;
mod slow_log;
mod span;
mod status_code;
mod talkers;
#[cfg(test)]
mod tests;
mod totals;
mod verb;
mod write_queue;

pub use access_log::AccessLogEntry;
pub use catalog::MetricsSink;
pub use cluster_counts::Gauges;
pub use cluster_metrics::ClusterMetrics;
pub(crate) use cluster_metrics::MetricsState;
pub use flush::{FLUSH_INTERVAL, FlushTimer, Flusher, OrphanedMetrics};
pub use outcome::Outcome;
pub use publisher::Publisher;
pub(crate) use request_attributes::MAX_VALUE_CHARS;
pub use request_attributes::RequestAttributes;
pub use request_record::RequestRecord;
pub use responses::Response;
pub(crate) use running::RunningRequest;
pub use running::RunningRequests;
pub use series_budget::SeriesBudget;
pub use series_ledger::SeriesLedger;
pub use servers::Server;
pub(crate) use shadow::{Agreement, ShadowKey, ShadowOutcome};
pub(crate) use slow_log::Phases;
pub use span::SpanRecord;
pub(crate) use span::decision;
pub(crate) use talkers::TalkerBudget;
pub use totals::ClusterTotals;
