use bytes::Bytes;

/// A part of a report.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PartMessage {
    /// A number of the process, another one after each restart.
    #[prost(fixed64, tag = "1")]
    pub(super) process: u64,
    /// Seconds since its filter was loaded.
    #[prost(uint64, tag = "2")]
    pub(super) uptime_seconds: u64,
    /// Reasons of refusals, to which [`PolicyMessage::reasons`] refers.
    #[prost(string, repeated, tag = "3")]
    pub(super) reasons: Vec<String>,
    /// Encoded [`ClusterMessage`]s, each read on its own: a message of a few bytes must not become a large one in memory.
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub(super) clusters: Vec<Bytes>,
    /// Whether all parts of this report together name every cluster with a count, and not only those that have changed since the
    /// last report of the stream.
    #[prost(bool, tag = "5")]
    pub(super) complete: bool,
    /// Whether other parts of this report follow.
    #[prost(bool, tag = "6")]
    pub(super) more: bool,
}

/// The activity of a cluster.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ClusterMessage {
    /// The name of the `UpstreamCluster`; `-` for requests that reached none.
    #[prost(string, tag = "1")]
    pub(crate) cluster: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) policies: Vec<PolicyMessage>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) servers: Vec<ServerMessage>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) limits: Vec<LimitMessage>,
    #[prost(uint32, tag = "5")]
    pub(crate) running: u32,
    #[prost(uint32, tag = "6")]
    pub(crate) watches: u32,
    #[prost(uint32, tag = "7")]
    pub(crate) sessions: u32,
    /// An encoded [`TalkersMessage`], if the object asks for one.
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub(crate) top: Option<Bytes>,
}

/// Decisions of a dispatch policy.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PolicyMessage {
    /// The number of the policy plus one; 0 where none decided, `u32::MAX` for the rest of a list.
    #[prost(uint32, tag = "1")]
    pub(crate) policy: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) forwarded: u64,
    /// Positions in [`PartMessage::reasons`].
    #[prost(uint32, repeated, tag = "3")]
    pub(crate) reasons: Vec<u32>,
    /// Refusals, in the order of `reasons`.
    #[prost(uint64, repeated, tag = "4")]
    pub(crate) refused: Vec<u64>,
}

/// Answers of a server.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ServerMessage {
    #[prost(string, tag = "1")]
    pub(crate) server: String,
    /// Requests without an answer, then answers from 1xx to 5xx.
    #[prost(uint64, repeated, tag = "2")]
    pub(crate) answers: Vec<u64>,
    /// The histogram's buckets, each without those before it.
    #[prost(uint64, repeated, tag = "3")]
    pub(crate) latency: Vec<u64>,
}

/// The use of a flow control schema.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LimitMessage {
    #[prost(string, tag = "1")]
    pub(crate) schema: String,
    #[prost(uint32, tag = "2")]
    pub(crate) used: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) limit: u32,
    #[prost(uint32, tag = "4")]
    pub(crate) rate: u32,
    #[prost(uint64, tag = "5")]
    pub(crate) refused: u64,
}

/// The clients with the most requests.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TalkersMessage {
    #[prost(message, repeated, tag = "1")]
    pub(crate) users: Vec<TalkerMessage>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) groups: Vec<TalkerMessage>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) user_agents: Vec<TalkerMessage>,
}

/// The requests of one user, group or user agent.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TalkerMessage {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint64, tag = "2")]
    pub(crate) requests: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) error: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) lists: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) bytes: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) refusals: u64,
}
