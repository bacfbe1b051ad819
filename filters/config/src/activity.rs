//! The activity of one Envoy process, as the filter counts it and the control plane shows it: a page of JSON, aggregated in the
//! process so that its size follows from the objects and not from the traffic.
//!
//! Counts grow from the start of the process; a reader that wants a rate subtracts two pages of the same
//! [`Activity::process`]. Clusters are named as in metrics, servers as `spec.servers` writes them.

use serde::{Deserialize, Serialize};

/// Bounds of [`Latency::buckets`] in microseconds, those of the metrics of durations.
pub const LATENCY_BOUNDS: [u64; 12] = [
    5_000, 25_000, 100_000, 200_000, 400_000, 800_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000,
    60_000_000,
];

/// The activity of one Envoy process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Activity {
    /// A number of the process, another one after each restart.
    pub process: u64,
    /// Seconds since its filter was loaded.
    pub uptime_seconds: u64,
    /// By cluster.
    pub clusters: Vec<ClusterActivity>,
}

/// The activity of one `UpstreamCluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterActivity {
    /// The name of the `UpstreamCluster`; `-` for requests that reached none.
    pub cluster: String,
    /// Decisions by dispatch policy.
    pub policies: Vec<PolicyActivity>,
    /// Answers by server.
    pub servers: Vec<ServerActivity>,
    /// The use of the flow control schemas.
    pub limits: Vec<LimitUse>,
    /// Requests in flight that end by themselves.
    pub running: u32,
    /// Watches that are open.
    pub watches: u32,
    /// Other long-running requests: exec, port-forward, logs that are followed.
    pub sessions: u32,
    /// The clients with the most requests, if `metrics.users` asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<TopTalkers>,
}

/// Decisions of one dispatch policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyActivity {
    /// The number of the policy in the object, from 0; `-` where none decided.
    pub policy: String,
    /// Requests that were forwarded.
    pub forwarded: u64,
    /// Requests that were refused or ended, and answers that were replaced, by the metrics' label `reason`.
    pub refused: Vec<(String, u64)>,
}

/// Answers of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerActivity {
    /// The server, as the metrics' label `server` names it.
    pub server: String,
    /// Answers by class of the status, from 1xx to 5xx, behind those of requests that ended without one.
    pub answers: [u64; 6],
    /// The time to the end of the answer, or to its headers for long-running requests.
    pub latency: Latency,
}

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Latency {
    /// Requests up to each of [`LATENCY_BOUNDS`] that are above the bound before it, then those above all bounds.
    pub buckets: [u64; 13],
    /// The sum of the durations in microseconds.
    pub sum: u64,
}

/// The use of a flow control schema.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitUse {
    /// The schema's name.
    pub schema: String,
    /// Requests in flight, or tokens of the bucket that are used.
    pub used: u32,
    /// The most requests in flight, or the bucket's size.
    pub limit: u32,
    /// Tokens a second; 0 for requests in flight.
    pub rate: u32,
    /// Requests that were refused since the start of the process.
    pub refused: u64,
}

/// The clients with the most requests. Counts are estimates of a sketch: too high by at most `error`, never too low.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopTalkers {
    /// By user name.
    pub users: Vec<Talker>,
    /// By group, each request under every group of its user.
    pub groups: Vec<Talker>,
    /// By the first word of the header `User-Agent`.
    pub user_agents: Vec<Talker>,
}

/// The requests of one user, group or user agent. The last entry of a list may be `other`: all the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Talker {
    /// The name, as the client or its authenticator wrote it: hostile text.
    pub name: String,
    /// All requests.
    pub requests: u64,
    /// The most by which `requests` is too high.
    pub error: u64,
    /// Requests of the verbs list and watch.
    pub lists: u64,
    /// Bytes of answers.
    pub bytes: u64,
    /// Requests that the gateway refused.
    pub refusals: u64,
}
