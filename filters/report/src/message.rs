//! Messages of a report. The reader takes [`PartMessage::clusters`] one by one.

use bytes::Bytes;

/// A part of a report.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PartMessage {
    /// A number of the process, another one after each restart.
    #[prost(fixed64, tag = "1")]
    pub process: u64,
    /// Seconds since its filter was loaded.
    #[prost(uint64, tag = "2")]
    pub uptime_seconds: u64,
    /// Reasons of refusals, to which [`PolicyMessage::reasons`] refers.
    #[prost(string, repeated, tag = "3")]
    pub reasons: Vec<String>,
    /// Encoded [`ClusterMessage`]s, each read on its own: a message of a few bytes must not become a large one in memory.
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub clusters: Vec<Bytes>,
    /// Whether all parts of this report together name every cluster with a count, and not only those that have changed since the
    /// last report of the stream.
    #[prost(bool, tag = "5")]
    pub complete: bool,
    /// Whether other parts of this report follow.
    #[prost(bool, tag = "6")]
    pub more: bool,
    /// Whether clusters with a count are left out, because a report has no room for them.
    #[prost(bool, tag = "7")]
    pub partial: bool,
}

/// The activity of a cluster.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClusterMessage {
    /// The name of the `UpstreamCluster`; `-` for requests that reached none.
    #[prost(string, tag = "1")]
    pub cluster: String,
    /// Decisions by policy.
    #[prost(message, repeated, tag = "2")]
    pub policies: Vec<PolicyMessage>,
    /// Answers by server.
    #[prost(message, repeated, tag = "3")]
    pub servers: Vec<ServerMessage>,
    /// The use of the flow control schemas.
    #[prost(message, repeated, tag = "4")]
    pub limits: Vec<LimitMessage>,
    /// Requests in flight that end by themselves.
    #[prost(uint32, tag = "5")]
    pub running: u32,
    /// Open watches.
    #[prost(uint32, tag = "6")]
    pub watches: u32,
    /// Other long-running requests.
    #[prost(uint32, tag = "7")]
    pub sessions: u32,
    /// An encoded [`TalkersMessage`], if the object asks for one.
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub top: Option<Bytes>,
    /// The object of that name, as in its configuration; empty where it has no mark. Counts of another object are another tenant's.
    #[prost(string, tag = "9")]
    pub object: String,
    /// Encoded [`ShadowMessage`]s, one for each edition of its shadow that is counted.
    #[prost(bytes = "bytes", repeated, tag = "10")]
    pub shadows: Vec<Bytes>,
}

/// The requests that one edition of a shadow has judged.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ShadowMessage {
    /// The edition, as in the filter's configuration.
    #[prost(string, tag = "1")]
    pub generation: String,
    /// All requests that were judged since the process has this edition.
    #[prost(uint64, tag = "2")]
    pub judged: u64,
    /// Those that it would treat otherwise, by kind.
    #[prost(message, repeated, tag = "3")]
    pub differences: Vec<DifferenceMessage>,
    /// Those of all other kinds.
    #[prost(uint64, tag = "4")]
    pub others: u64,
}

/// Requests that a shadow would treat otherwise, of one kind.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DifferenceMessage {
    /// The number of the policy that decided; `-` for none.
    #[prost(string, tag = "1")]
    pub policy: String,
    /// The same of the shadow's policy.
    #[prost(string, tag = "2")]
    pub shadow_policy: String,
    /// The metrics' label `agreement`.
    #[prost(string, tag = "3")]
    pub agreement: String,
    /// The verb as kube-apiserver's metrics have it.
    #[prost(string, tag = "4")]
    pub verb: String,
    /// The resource, with the subresource behind a `/`; empty for other paths.
    #[prost(string, tag = "5")]
    pub resource: String,
    /// The number of requests.
    #[prost(uint64, tag = "6")]
    pub count: u64,
}

/// Decisions of a dispatch policy.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PolicyMessage {
    /// The number of the policy plus one; 0 where none decided, `u32::MAX` for the rest of a list.
    #[prost(uint32, tag = "1")]
    pub policy: u32,
    /// Requests that were forwarded.
    #[prost(uint64, tag = "2")]
    pub forwarded: u64,
    /// Positions in [`PartMessage::reasons`].
    #[prost(uint32, repeated, tag = "3")]
    pub reasons: Vec<u32>,
    /// Refusals, in the order of `reasons`.
    #[prost(uint64, repeated, tag = "4")]
    pub refused: Vec<u64>,
}

/// Answers of a server.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerMessage {
    /// The server, as the object writes it.
    #[prost(string, tag = "1")]
    pub server: String,
    /// Requests without an answer, then answers from 1xx to 5xx.
    #[prost(uint64, repeated, tag = "2")]
    pub answers: Vec<u64>,
    /// The histogram's buckets, each without those before it.
    #[prost(uint64, repeated, tag = "3")]
    pub latency: Vec<u64>,
    /// Requests in flight, watches and sessions among them.
    #[prost(uint32, tag = "4")]
    pub in_flight: u32,
}

/// The use of a flow control schema.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LimitMessage {
    /// The name of the schema.
    #[prost(string, tag = "1")]
    pub schema: String,
    /// Requests in flight, or used tokens.
    #[prost(uint32, tag = "2")]
    pub used: u32,
    /// The most requests in flight, or the size of the bucket.
    #[prost(uint32, tag = "3")]
    pub limit: u32,
    /// Tokens a second; 0 for requests in flight.
    #[prost(uint32, tag = "4")]
    pub rate: u32,
    /// Requests beyond the limit since the start of the process.
    #[prost(uint64, tag = "5")]
    pub refused: u64,
    /// Whether the gateway's own limit holds in the place of one that gateways share.
    #[prost(bool, tag = "6")]
    pub local: bool,
    /// Whether it is one that gateways share.
    #[prost(bool, tag = "7")]
    pub shared: bool,
}

/// The clients with the most requests.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TalkersMessage {
    /// By user name.
    #[prost(message, repeated, tag = "1")]
    pub users: Vec<TalkerMessage>,
    /// By group.
    #[prost(message, repeated, tag = "2")]
    pub groups: Vec<TalkerMessage>,
    /// By user agent.
    #[prost(message, repeated, tag = "3")]
    pub user_agents: Vec<TalkerMessage>,
}

/// The requests of one user, group or user agent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TalkerMessage {
    /// The name: hostile text.
    #[prost(string, tag = "1")]
    pub name: String,
    /// All requests, too high by at most `error`.
    #[prost(uint64, tag = "2")]
    pub requests: u64,
    /// The most by which `requests` is too high.
    #[prost(uint64, tag = "3")]
    pub error: u64,
    /// Lists and watches.
    #[prost(uint64, tag = "4")]
    pub lists: u64,
    /// Bytes of answers.
    #[prost(uint64, tag = "5")]
    pub bytes: u64,
    /// Requests that the gateway refused.
    #[prost(uint64, tag = "6")]
    pub refusals: u64,
}
