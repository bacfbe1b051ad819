use portcullis_filter_config::Rule;
use schemars::JsonSchema;
use serde::Deserialize;

/// Requests that match one of the rules go to the subset of the servers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DispatchPolicy {
    /// Load balancing: `RoundRobin`, also if empty; `LeastRequest` or `Random`, which KubeGateway does not have.
    pub strategy: String,
    /// Endpoints of `spec.servers`; empty is all of them. KubeGateway's documents spell it `upsteamSubset`.
    #[serde(alias = "upsteamSubset")]
    pub upstream_subset: Vec<String>,
    /// A request that matches any of them matches the policy.
    pub rules: Vec<Rule>,
    /// The limit of the requests; empty is none.
    pub flow_control_schema_name: String,
    /// `on`, `off` or empty.
    pub log_mode: String,
    /// Fields that KubeGateway does not have.
    pub portcullis: PolicyExtension,
}

impl DispatchPolicy {
    /// Whether it denies its requests.
    pub(crate) fn denies(&self) -> bool {
        self.portcullis.action == "Deny"
    }

    /// Whether it only reports.
    pub(crate) fn is_shadow(&self) -> bool {
        self.portcullis.mode == "Shadow"
    }
}

/// Fields of a dispatch policy that KubeGateway does not have.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PolicyExtension {
    /// The effect on requests that match: `Dispatch`, also if empty, sends them to a server; `Deny` answers 403 with the policy's
    /// number and `message`. A policy that denies has no strategy, subset or flow control schema.
    pub action: String,
    /// Whether it decides: `Enforce`, also if empty; or `Shadow`, which only reports. Requests are dispatched as if it were not there,
    /// and judged beside as if it decided in its place: what it would change is counted and logged.
    pub mode: String,
    /// The end of the message of a 403, one line of up to 256 characters. Only with `action: Deny`.
    pub message: String,
    /// Accepts a policy that denies the heartbeats of kubelets, which is refused otherwise: all nodes become `NotReady`.
    pub force: bool,
}
