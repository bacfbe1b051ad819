use serde::{Deserialize, Serialize};

/// A limit of requests at a time beyond which requests wait in queues, fairly between flows. Policies name it like a
/// [`crate::FlowControlSchema`], and no schema has the name of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FairQueueConfig {
    /// Unique in the cluster, among the flow control schemas too.
    pub name: String,
    /// Seats: a request takes one, a list up to ten.
    pub max: u32,
    /// Number of queues, from 1 to [`FairQueueConfig::MAX_QUEUES`].
    pub queues: u32,
    /// Number of queues that one flow may use, from 1 to [`FairQueueConfig::MAX_HAND_SIZE`] and at most `queues`.
    pub hand_size: u32,
    /// Maximum number of requests that wait in a queue.
    pub queue_length: u32,
    /// Maximum time that a request waits, milliseconds.
    pub timeout_milliseconds: u64,
    /// The part of a request that says to which flow it belongs.
    pub by: FlowDistinguisher,
    /// Shares of flows that are not 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<FlowWeight>,
}

impl FairQueueConfig {
    /// Maximum number of queues.
    pub const MAX_QUEUES: u32 = 512;
    /// Maximum number of queues of one flow.
    pub const MAX_HAND_SIZE: u32 = 10;
    /// Maximum number of requests that wait in a schema.
    pub const MAX_WAITING: u32 = 16_384;
    /// Maximum of `timeoutMilliseconds`.
    pub const MAX_TIMEOUT_MILLISECONDS: u64 = 60_000;
    /// Maximum weight of a flow.
    pub const MAX_WEIGHT: u32 = 1_000;

    /// Whether all numbers are within their bounds.
    pub fn is_within_bounds(&self) -> bool {
        self.max >= 1
            && (1..=Self::MAX_QUEUES).contains(&self.queues)
            && (1..=Self::MAX_HAND_SIZE.min(self.queues)).contains(&self.hand_size)
            && self.queue_length >= 1
            && self.queues.checked_mul(self.queue_length).is_some_and(|most| most <= Self::MAX_WAITING)
            && (1..=Self::MAX_TIMEOUT_MILLISECONDS).contains(&self.timeout_milliseconds)
            && self.weights.iter().all(|flow| (1..=Self::MAX_WEIGHT).contains(&flow.weight))
    }
}

/// The part of a request that says to which flow it belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum FlowDistinguisher {
    /// The name of the user for dispatch. Clients whom only the upstream knows are one flow.
    #[default]
    User,
    /// The first group of the user that says more than that it has authenticated; of a user without one, the name.
    UserGroup,
    /// The namespace of the request. Requests without one are one flow.
    Namespace,
    /// The service account. All other users are one flow.
    ServiceAccount,
}

/// A flow whose share is not 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlowWeight {
    /// The flow, by the name that the schema's `by` gives it.
    pub flow: String,
    /// Its share; a flow of weight 4 gets as much as four of weight 1.
    pub weight: u32,
}
