use serde::{Deserialize, Serialize};

/// Draining of client connections at random, so that clients of several gateways spread over them again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rebalance {
    /// The probability with which a request drains its connection, in millionths: from 1 to 20,000.
    pub chance_per_million: u32,
    /// Maximum number of connections that the process drains in a second, evenly spread; at least 1.
    #[serde(default = "ten")]
    pub connections_per_second: u32,
    /// The conditions, one of which has to hold for a drain. Without it every request is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<RebalanceConditions>,
}

/// The conditions under which requests drain their connections. Those that count requests hold for the whole process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RebalanceConditions {
    /// More requests than these run at servers, without watches and other long-running ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// More requests than these go to servers in a second, by the last five whole seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    /// The process has more bytes of resident memory than these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The request is answered 429 by a limit of flow control.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_limited: bool,
}

impl Rebalance {
    /// Maximum [`Rebalance::chance_per_million`]: kube-apiserver's of `--goaway-chance`.
    pub const MAX_CHANCE_PER_MILLION: u32 = 20_000;
}

fn ten() -> u32 {
    10
}
