use serde::{Deserialize, Serialize};

/// A dispatch policy: requests that match one of the rules go to the group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// The server group, as in [`crate::destination`].
    pub group: String,
    /// The flow control schema that its requests count under; one that is not in the list does not limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_control_schema: Option<String>,
    /// Whether the access log has the requests that match.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
    /// A request that matches any of them matches the policy.
    pub rules: Vec<Rule>,
}

/// A dispatch policy's rule. Fields are combined with AND, a list's entries as `UpstreamCluster` documents it: `*` is
/// everything, `-x` excludes `x`, exclusions count only without positive entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Kubernetes verbs, or lower-case HTTP methods for non-resource requests. Empty matches nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// API groups, `""` for core. Empty matches no resource request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// API versions. Empty matches all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_versions: Vec<String>,
    /// Resources, `resource/subresource` and `*/subresource`. Empty matches no resource request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Object names; `""` is a request without a name. Empty matches all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Namespaces; `""` is a request without one. Empty matches all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// User names; a trailing `*` is a prefix. Empty matches all if `service_accounts` is empty too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Service accounts, a union with `users`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<ServiceAccount>,
    /// Groups of which the user must be in one, or in none of the excluded. Empty matches all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_groups: Vec<String>,
    /// Paths of non-resource requests; a trailing `*` is a prefix. Empty matches no non-resource request.
    #[serde(default, rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// A service account, named by both its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceAccount {
    /// The account's namespace.
    pub namespace: String,
    /// The account's name.
    pub name: String,
}
