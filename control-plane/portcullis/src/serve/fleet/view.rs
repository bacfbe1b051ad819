//! The fleet as the console, `portcullis top` and programs read it: bodies of `/ui/api/fleet` and `/ui/api/clusters/NAME`.
//!
//! Rates are averages over the last [`RATE_WINDOW`], or up to half of it more; a gateway that has sent fewer than two reports has
//! none. Texts that others
//! wrote are sanitized.

use std::time::Duration;

use portcullis_api::status::{Condition, ConditionType, InstanceCounts, State};
use portcullis_filter_config::{FlowControlLimit, GlobalLimit, GlobalStrategy};
use serde::{Deserialize, Serialize};

/// The least time over which rates and quantiles are computed, as soon as there are reports of it.
pub(crate) const RATE_WINDOW: Duration = Duration::from_secs(30);
/// The time between two points of a history.
pub(crate) const HISTORY_STEP: Duration = Duration::from_secs(10);
/// The age of the oldest point of a history.
pub(crate) const HISTORY_LENGTH: Duration = Duration::from_secs(3_600);

/// All clusters, worst first, and all gateways.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FleetView {
    /// Seconds since 1970.
    pub(crate) time: u64,
    /// The instance of the control plane.
    pub(crate) instance: String,
    pub(crate) clusters: Vec<ClusterSummary>,
    pub(crate) gateways: Vec<GatewaySummary>,
    /// All objects of kind `Instance`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) instances: Vec<InstanceSummary>,
    /// The traffic to all clusters by Gateways of the Gateway API, by name. It is part of no other number.
    pub(crate) at_gateways: Vec<GatewayTraffic>,
}

/// One line about an `Instance`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InstanceSummary {
    pub(crate) name: String,
    /// As its status has them.
    pub(crate) conditions: Vec<Condition>,
    /// The numbers of what belongs to it.
    #[serde(flatten)]
    pub(crate) counts: InstanceCounts,
}

impl InstanceSummary {
    /// The first condition that says that something is wrong.
    pub(crate) fn bad_condition(&self) -> Option<&Condition> {
        let good = |one: &&Condition| match one.kind {
            ConditionType::Conflicted => one.status == State::False,
            _ => one.status == State::True,
        };
        self.conditions.iter().find(|one| !good(one))
    }
}

/// The traffic of one Gateway of the Gateway API, as its Envoys report it. They may be a tenant's, and report anything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GatewayTraffic {
    /// `NAMESPACE/NAME`; empty where the reader may not learn it.
    pub(crate) gateway: String,
    /// Envoys that report.
    pub(crate) envoys: u32,
    /// The part of answers that are errors of servers, from 0 to 1; absent without answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error_ratio: Option<f64>,
    pub(crate) numbers: Numbers,
}

/// One line about a cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterSummary {
    pub(crate) name: String,
    /// The worst of what is known, for the order and the colour.
    pub(crate) severity: Severity,
    /// The message of the first condition that does not hold.
    pub(crate) message: String,
    pub(crate) healthy_servers: u32,
    pub(crate) servers: u32,
    pub(crate) numbers: Numbers,
    /// By gateway, in the order of [`FleetView::gateways`]; `None` where the gateway does not report the cluster.
    pub(crate) by_gateway: Vec<Option<Severity>>,
}

/// How much something wants to be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Severity {
    /// All conditions hold.
    #[default]
    Good,
    /// Nothing is reported yet.
    Unknown,
    /// Requests are served, but something needs an operator.
    Warning,
    /// Requests fail.
    Critical,
}

/// Rates and gauges of a cluster, a gateway or a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Numbers {
    /// Answers in a second.
    pub(crate) requests_per_second: f64,
    /// Answers of 5xx in a second, of servers and for want of one.
    pub(crate) errors_per_second: f64,
    /// Requests that the gateway refused, in a second.
    pub(crate) refusals_per_second: f64,
    /// Milliseconds; absent without a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50: Option<f64>,
    /// Milliseconds; absent without a request. Quantiles are interpolated within a bucket of the metrics' histograms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99: Option<f64>,
    /// Requests in flight that end by themselves.
    pub(crate) running: u32,
    /// Open watches.
    pub(crate) watches: u32,
    /// Other long-running requests.
    pub(crate) sessions: u32,
}

/// One line about a gateway.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GatewaySummary {
    pub(crate) node: String,
    pub(crate) connected: bool,
    pub(crate) in_sync: bool,
    /// Seconds since its last report of activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reported_seconds_ago: Option<u64>,
    pub(crate) uptime_seconds: u64,
    pub(crate) numbers: Numbers,
}

/// Everything about one cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterView {
    pub(crate) time: u64,
    pub(crate) summary: ClusterSummary,
    pub(crate) servers: Vec<ServerView>,
    pub(crate) policies: Vec<PolicyView>,
    pub(crate) limits: Vec<LimitView>,
    pub(crate) certificates: Vec<CertificateView>,
    pub(crate) conditions: Vec<Condition>,
    /// Changes of conditions, newest first.
    pub(crate) transitions: Vec<Transition>,
    /// Points of the last hour, oldest first, [`HISTORY_STEP`] apart.
    pub(crate) history: Vec<HistoryPoint>,
    /// The users, groups and user agents with the most requests, of all gateways together. Absent where
    /// `metrics.users` is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top: Option<portcullis_filter_config::activity::TopTalkers>,
    /// The traffic to the cluster by Gateways of the Gateway API, by name. It is part of no other number.
    pub(crate) at_gateways: Vec<GatewayTraffic>,
}

impl ClusterView {
    /// The view without the names of Gateways. Texts of conditions do not decide: their authors could try names.
    pub(crate) fn without_gateway_names(mut self) -> Self {
        self.at_gateways.iter_mut().for_each(|line| line.gateway.clear());
        // The order is that of the names.
        let requests = |line: &GatewayTraffic| line.numbers.requests_per_second;
        self.at_gateways.sort_by(|one, other| requests(other).total_cmp(&requests(one)));
        self
    }
}

/// A server of a cluster, as all gateways together see it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServerView {
    pub(crate) server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<String>,
    /// As the object has it, 1 if it has none; absent of one that the object does not list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) weight: Option<u32>,
    /// Gateways to which it is not healthy, with the reason and the second since 1970 since when.
    pub(crate) unhealthy: Vec<UnhealthyAt>,
    /// Its share of the answers of all servers, from 0 to 1.
    pub(crate) share: f64,
    pub(crate) numbers: Numbers,
}

/// A gateway to which a server is not healthy.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UnhealthyAt {
    pub(crate) node: String,
    pub(crate) reason: String,
    pub(crate) since: u64,
}

/// A dispatch policy.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PolicyView {
    /// Its number in the object, from 0; `-` for requests that none decided.
    pub(crate) policy: String,
    /// Its first rule in a few words.
    pub(crate) rule: String,
    pub(crate) forwarded_per_second: f64,
    /// Refusals in a second by reason, most first.
    pub(crate) refused_per_second: Vec<(String, f64)>,
}

/// A flow control schema.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LimitView {
    pub(crate) schema: String,
    /// The limit of all gateways together, of which each has a part; `None` if each has the whole limit.
    pub(crate) global: Option<GlobalLimitView>,
    /// The use of each gateway's limit or part.
    pub(crate) by_gateway: Vec<LimitAt>,
    pub(crate) refused_per_second: f64,
}

/// A limit of all gateways together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GlobalLimitView {
    /// As the object has it: `globalAllocate` or `globalCount`.
    pub(crate) strategy: String,
    /// Requests in flight, or tokens at most.
    pub(crate) limit: u32,
    /// Requests in a second; 0 for a limit of requests in flight.
    pub(crate) rate: u32,
}

impl GlobalLimitView {
    pub(crate) fn of(global: &GlobalLimit) -> Self {
        let strategy = match global.strategy {
            GlobalStrategy::Allocate => "globalAllocate",
            GlobalStrategy::Count => "globalCount",
        };
        let (limit, rate) = match global.limit {
            FlowControlLimit::MaxRequestsInflight(max) => (max, 0),
            FlowControlLimit::TokenBucket { qps, burst } => (burst, qps),
        };
        Self { strategy: strategy.to_owned(), limit, rate }
    }
}

/// The use of a limit at one gateway.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LimitAt {
    pub(crate) node: String,
    pub(crate) used: u32,
    /// The gateway's limit, or its part of one of all gateways.
    pub(crate) limit: u32,
    pub(crate) rate: u32,
    /// Whether its own limit holds in the place of the one of all gateways, because no control plane gives it a part.
    pub(crate) local: bool,
}

/// A certificate that the object refers to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CertificateView {
    /// `serving`, `client`, `clientCA` or `upstreamCA`.
    pub(crate) usage: String,
    pub(crate) subject: String,
    /// Seconds since 1970.
    pub(crate) not_after: u64,
    pub(crate) days_left: i64,
}

/// A change of a condition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Transition {
    /// Seconds since 1970.
    pub(crate) time: u64,
    pub(crate) condition: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// The numbers of a cluster at one time.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HistoryPoint {
    /// Seconds since 1970.
    pub(crate) time: u64,
    pub(crate) numbers: Numbers,
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn lines_without_names_are_in_the_order_of_their_numbers() {
        let line = |gateway: &str, requests_per_second: f64| GatewayTraffic {
            gateway: gateway.to_owned(),
            numbers: Numbers { requests_per_second, ..Numbers::default() },
            ..GatewayTraffic::default()
        };
        let at_gateways = vec![line("a/a", 1.0), line("b/b", 3.0), line("c/c", 2.0)];
        let shown = ClusterView { at_gateways, ..ClusterView::default() }.without_gateway_names().at_gateways;
        assert_eq!(shown, [line("", 3.0), line("", 2.0), line("", 1.0)]);
    }
}
