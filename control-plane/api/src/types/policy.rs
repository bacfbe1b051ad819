use schemars::JsonSchema;
use serde::Deserialize;

/// Requests that match one of the rules go to the subset of the servers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DispatchPolicy {
    /// How requests are spread: `RoundRobin`, also if empty; `LeastRequest` or `Random`, which are ours.
    pub strategy: String,
    /// Endpoints out of `spec.servers`; empty is all of them. KubeGateway's documents spell it `upsteamSubset`.
    #[serde(alias = "upsteamSubset")]
    pub upstream_subset: Vec<String>,
    /// A request that matches any of them matches the policy.
    pub rules: Vec<Rule>,
    /// The limit that the requests come under; empty is none.
    pub flow_control_schema_name: String,
    /// `on`, `off` or empty.
    pub log_mode: String,
}

/// Fields are combined with AND. `*` is everything, `-x` excludes `x`; the filter normalises the lists.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Rule {
    /// Kubernetes verbs, or lower-case HTTP methods for non-resource requests.
    pub verbs: Vec<String>,
    /// API groups, `""` for core.
    pub api_groups: Vec<String>,
    /// API versions (a field of ours); empty is all.
    pub api_versions: Vec<String>,
    /// Resources and `resource/subresource`.
    pub resources: Vec<String>,
    /// Object names; empty is all.
    pub resource_names: Vec<String>,
    /// Namespaces (a field of ours); empty is all.
    pub namespaces: Vec<String>,
    /// User names; a trailing `*` is a prefix.
    pub users: Vec<String>,
    /// Service accounts, a union with `users`.
    pub service_accounts: Vec<ServiceAccount>,
    /// Groups of the user.
    pub user_groups: Vec<String>,
    /// Paths of non-resource requests; a trailing `*` is a prefix.
    #[serde(rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
}

/// A service account, named by both its parts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ServiceAccount {
    /// The account's namespace.
    pub namespace: String,
    /// The account's name.
    pub name: String,
}
