//! The activity of one Envoy process, as the filter counts it and the control plane shows it: a page of JSON, aggregated in the
//! process so that its size follows from the objects and not from the traffic.
//!
//! Counts grow from the start of the process; a reader that wants a rate subtracts two pages of the same
//! [`Activity::process`]. A cluster or server that was removed and comes back begins at 0. Clusters are named as in metrics,
//! servers as `spec.servers` writes them. Fields that have their default value may be left out of the page.

use serde::{Deserialize, Serialize};

/// Bounds of [`Latency::buckets`] in microseconds, those of the metrics of durations.
pub const LATENCY_BOUNDS: [u64; 12] = [
    5_000, 25_000, 100_000, 200_000, 400_000, 800_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000,
    60_000_000,
];

/// Leaves a field out of the page: most clusters of many rest.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Policies of a cluster that are counted apart.
pub const MAX_POLICIES: usize = 256;

/// Shadows of a cluster that are counted apart: the newest, and the one before it, which goes on where a proxy refuses the newest.
pub const MAX_SHADOWS: usize = 2;

/// Kinds of differences of a shadow that are counted apart.
pub const MAX_DIFFERENCES: usize = 32;

/// The last name of a list: all the rest.
pub const OTHER: &str = "other";

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
    /// The object of that name, as in its configuration ([`crate::ClusterConfig::object`]).
    #[serde(skip_serializing_if = "is_default")]
    pub object: String,
    /// Decisions by dispatch policy.
    #[serde(skip_serializing_if = "is_default")]
    pub policies: Vec<PolicyActivity>,
    /// Answers by server.
    #[serde(skip_serializing_if = "is_default")]
    pub servers: Vec<ServerActivity>,
    /// The use of the flow control schemas.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: Vec<LimitUse>,
    /// Requests in flight that end by themselves.
    #[serde(skip_serializing_if = "is_default")]
    pub running: u32,
    /// Watches that are open.
    #[serde(skip_serializing_if = "is_default")]
    pub watches: u32,
    /// Other long-running requests: exec, port-forward, logs that are followed.
    #[serde(skip_serializing_if = "is_default")]
    pub sessions: u32,
    /// Requests that its shadows have judged, at most [`MAX_SHADOWS`].
    #[serde(skip_serializing_if = "is_default")]
    pub shadows: Vec<ShadowActivity>,
    /// The clients with the most requests, if `metrics.users` asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<TopTalkers>,
}

/// Decisions of one dispatch policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyActivity {
    /// The number of the policy in the object, from 0, whichever policy an edit puts there; `-` where none decided, `other` for
    /// all beyond the first [`MAX_POLICIES`] that were used.
    pub policy: String,
    /// Requests that were forwarded.
    #[serde(skip_serializing_if = "is_default")]
    pub forwarded: u64,
    /// Requests that were refused or ended, and answers that were replaced, by the metrics' label `reason`.
    #[serde(skip_serializing_if = "is_default")]
    pub refused: Vec<(String, u64)>,
}

/// The requests that one edition of a shadow has judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShadowActivity {
    /// The edition ([`crate::Shadow::generation`]).
    pub generation: String,
    /// All requests that were judged.
    #[serde(skip_serializing_if = "is_default")]
    pub judged: u64,
    /// Those that it would treat otherwise, by kind: the first [`MAX_DIFFERENCES`] kinds.
    #[serde(skip_serializing_if = "is_default")]
    pub differences: Vec<(ShadowDifference, u64)>,
    /// Those of all other kinds.
    #[serde(skip_serializing_if = "is_default")]
    pub others: u64,
}

/// A kind of difference between what became of requests and what a shadow would have made of them, in the words of the metrics. No
/// client chooses any of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShadowDifference {
    /// The number of the policy that decided; `-` for none.
    pub policy: String,
    /// The same of the shadow's policy.
    pub shadow_policy: String,
    /// The label `agreement`.
    pub agreement: String,
    /// The verb as kube-apiserver's metrics have it.
    pub verb: String,
    /// The resource, with the subresource behind a `/`; empty for other paths.
    pub resource: String,
}

/// Answers of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerActivity {
    /// The server, as the metrics' label `server` names it.
    pub server: String,
    /// Answers by class of the status, from 1xx to 5xx, behind those of requests that ended without one.
    #[serde(skip_serializing_if = "is_default")]
    pub answers: [u64; 6],
    /// The time to the end of the answer, or to its headers for long-running requests.
    #[serde(skip_serializing_if = "is_default")]
    pub latency: Latency,
    /// Requests in flight, watches and sessions among them. The filter leaves it out, which does not know the server of a request
    /// without an answer; the agent adds it.
    #[serde(skip_serializing_if = "is_default")]
    pub in_flight: u32,
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
    #[serde(skip_serializing_if = "is_default")]
    pub used: u32,
    /// The most requests in flight, or the bucket's size.
    pub limit: u32,
    /// Tokens a second; 0 for requests in flight.
    #[serde(skip_serializing_if = "is_default")]
    pub rate: u32,
    /// Requests that were refused since the start of the process.
    #[serde(skip_serializing_if = "is_default")]
    pub refused: u64,
    /// Whether the gateway's own limit holds in the place of one that gateways share.
    #[serde(skip_serializing_if = "is_default")]
    pub local: bool,
    /// Whether it is one that gateways share.
    #[serde(skip_serializing_if = "is_default")]
    pub shared: bool,
}

/// The clients with the most requests, most first, each list with [`OTHER`] at its end if there are more. Requests whose client
/// is not known, such as those with a credential that failed, are in the list of user agents only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopTalkers {
    /// By user name.
    pub users: Vec<Talker>,
    /// By group, each request under every group of its user, the first 32 of them.
    pub groups: Vec<Talker>,
    /// By the first word of the header `User-Agent`; `-` without one.
    pub user_agents: Vec<Talker>,
}

/// The requests of one user, group or user agent, by a sketch of bounded size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Talker {
    /// The name, as the client or its authenticator wrote it: hostile text.
    pub name: String,
    /// All requests: never too low, and too high by at most `error`.
    pub requests: u64,
    /// The most by which `requests` is too high.
    #[serde(skip_serializing_if = "is_default")]
    pub error: u64,
    /// Requests of the verbs list and watch. This and what follows since the name is in the list, so never too high.
    #[serde(skip_serializing_if = "is_default")]
    pub lists: u64,
    /// Bytes of answers.
    #[serde(skip_serializing_if = "is_default")]
    pub bytes: u64,
    /// Requests that the gateway refused.
    #[serde(skip_serializing_if = "is_default")]
    pub refusals: u64,
}
