use portcullis_filter_config::{Rule, ServiceAccount};
use schemars::JsonSchema;
use serde::Deserialize;

/// Lists of requests that are refused, and of those that alone are let in. They are asked before dispatch policies.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AccessSpec {
    /// A request that matches an entry is answered 403, with the entry's number and message.
    pub deny: Vec<AccessEntry>,
    /// If there are entries, a request that matches none of them is answered 403.
    pub allow: Vec<AccessEntry>,
    /// Accepts lists that refuse the heartbeats of kubelets, which are rejected otherwise: all nodes become `NotReady`.
    pub force: bool,
}

impl AccessSpec {
    /// Whether an entry asks for users, service accounts or groups.
    pub(crate) fn names_users(&self) -> bool {
        self.deny.iter().chain(&self.allow).any(|entry| {
            let lists = [entry.users.is_empty(), entry.service_accounts.is_empty(), entry.user_groups.is_empty()];
            lists.contains(&false) || entry.rules.iter().any(Rule::depends_on_user)
        })
    }
}

/// Client addresses that may connect.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClientAddressSpec {
    /// Ranges as `10.0.0.0/8`, or addresses; all may connect if there are none. Connections from elsewhere are closed before the
    /// TLS handshake. An address is the connection's, or the one of its PROXY header. An edit drains the cluster's connections.
    pub allow: Vec<String>,
}

/// Requests that an access list names: those that match every field that is set. At least one of users, service accounts, groups,
/// addresses, user agents and rules is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AccessEntry {
    /// User names, as in a rule of a dispatch policy. A request that impersonates is judged by the user whom the client authenticated
    /// as, and by the one whom it impersonates: neither may be denied, and both have to be let in.
    pub users: Vec<String>,
    /// Service accounts, in addition to `users`: a user is one of either. With `userGroups` it is a member of a group as well.
    pub service_accounts: Vec<ServiceAccount>,
    /// Groups, as in a rule of a dispatch policy.
    pub user_groups: Vec<String>,
    /// Client addresses: ranges as `10.0.0.0/8`, or addresses.
    pub addresses: Vec<String>,
    /// Starts of `User-Agent`. Only of help against clients that do not mean to get around it: any client may write any.
    pub user_agents: Vec<String>,
    /// Rules, as in a dispatch policy, of which a request matches one. Empty are all requests.
    pub rules: Vec<Rule>,
    /// The time at which the entry ends, as `2026-12-31T18:00:00Z`; empty is never. At a gateway without a control plane it ends
    /// as well.
    pub until: String,
    /// The end of the message of a 403, one line of up to 256 characters. Only in `deny`.
    pub message: String,
}
