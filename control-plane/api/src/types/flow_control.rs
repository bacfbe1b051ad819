use schemars::JsonSchema;
use serde::Deserialize;

/// Limits, which policies refer to by name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FlowControl {
    /// The limits.
    #[serde(alias = "schemas")]
    pub flow_control_schemas: Vec<FlowControlSchema>,
}

/// One limit: exactly one of `exempt`, `maxRequestsInflight` and `tokenBucket`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FlowControlSchema {
    /// Unique in the object.
    pub name: String,
    /// `local` or empty: the limit holds for each gateway. `globalAllocate`: all gateways together have the global limit, which is
    /// divided by what each of them has use for. `globalCount`: the same, and each gateway gets what it uses and a small reserve,
    /// ten times a second. The local limit holds in a gateway that is cut off from the control plane.
    pub strategy: String,
    /// The requests that the limit counts: `Requests` (all but watches), `Watches`, or `All`, also if empty. Others pass.
    pub counts: String,
    /// No limit.
    pub exempt: Option<Exempt>,
    /// Limit of requests in flight.
    pub max_requests_inflight: Option<MaxRequestsInflight>,
    /// Limit of requests per second.
    pub token_bucket: Option<TokenBucket>,
    /// `maxRequestsInflight` over all gateways.
    pub global_max_requests_inflight: Option<MaxRequestsInflight>,
    /// `tokenBucket` over all gateways.
    pub global_token_bucket: Option<TokenBucket>,
}

/// No limit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exempt {}

/// A limit of requests in flight.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MaxRequestsInflight {
    /// Maximum number of requests in flight; 0 refuses every request.
    pub max: i32,
}

/// A limit of requests per second.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TokenBucket {
    /// Requests per second.
    pub qps: i32,
    /// Maximum number of requests in a burst; at least `qps`.
    pub burst: i32,
}
