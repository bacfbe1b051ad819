use schemars::JsonSchema;
use serde::Deserialize;

/// Seats, and queues in which requests wait for them, as in Kubernetes' API Priority and Fairness.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FairQueue {
    /// The name by which `flowControlSchemaName` of policies refers to it; unique in the object, among the schemas of
    /// `spec.flowControl` too.
    pub name: String,
    /// Seats in each gateway, at least 1. A request takes one for as long as it runs, a watch until its answer begins, a list one
    /// for each hundred objects that it may return, up to ten and to 15 % of the seats.
    pub max: u32,
    /// Number of queues, from 1 to 512: 64 if unset.
    pub queues: Option<u32>,
    /// Number of queues that the requests of one flow are spread over, from 1 to 10: 6 if unset. More of them let a flow with many
    /// requests reach more of the others' queues.
    pub hand_size: Option<u32>,
    /// Maximum number of requests that wait in a queue: 50 if unset. In all queues of an object
    /// together no more than half of the 16384 places of a gateway that other objects leave, and
    /// 64 in any case.
    pub queue_length: Option<u32>,
    /// Maximum time that a request waits, a Go duration from 1ms to 1m: 15s if unset.
    pub timeout: Option<String>,
    /// The part of a request that says to which flow it belongs: `user` (if empty), `userGroup`, `namespace` or `serviceAccount`.
    pub by: String,
    /// Shares of flows that are not 1.
    pub weights: Vec<FlowWeight>,
}

/// The share of a flow.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FlowWeight {
    /// The user, group, namespace or service account, in full, as `by` has it.
    pub flow: String,
    /// Its share, from 1 to 1000; 4 gets as much as four flows of 1.
    pub weight: u32,
}
