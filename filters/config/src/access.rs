use serde::{Deserialize, Serialize};

use crate::policy::Rule;

/// Most bytes of the start of a `User-Agent` in an entry: a watch keeps no more of its own.
pub const MAX_USER_AGENT: usize = 256;

/// Lists of requests that are refused or let in before dispatch policies are looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessLists {
    /// The object that has the lists, for messages.
    pub scope: AccessScope,
    /// A request that matches an entry is refused: 403 with the entry's number, from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<AccessEntry>,
    /// Without an entry all requests are let in; otherwise those that match one, and others are answered 403.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<AccessEntry>,
}

/// The object that has access lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum AccessScope {
    /// The settings of the gateway.
    Gateway,
    /// The `UpstreamCluster`.
    Cluster,
}

impl AccessScope {
    /// The word in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            AccessScope::Gateway => "gateway",
            AccessScope::Cluster => "cluster",
        }
    }
}

/// Requests that an access list names. Fields are combined with AND, and an empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessEntry {
    /// Ranges of client addresses, as `10.0.0.0/8`. The client's address is the last one of `x-forwarded-for`, which Envoy
    /// writes (`use_remote_address`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Starts of `User-Agent`, of up to 256 bytes. A client may write any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_agents: Vec<String>,
    /// Rules, of which a request matches one. A request that impersonates is judged twice: by the authenticated user and by the
    /// impersonated one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// The time from which on the entry matches nothing, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_seconds: Option<u64>,
    /// The end of the message of an entry that denies, for clients; empty is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl AccessLists {
    /// Whether an entry that denies asks for users, service accounts or groups.
    pub fn denies_by_user(&self) -> bool {
        self.deny.iter().any(AccessEntry::depends_on_user)
    }

    /// Whether an entry asks for users, service accounts or groups.
    pub fn depends_on_user(&self) -> bool {
        self.all().any(AccessEntry::depends_on_user)
    }

    /// The entries of both lists.
    pub fn all(&self) -> impl Iterator<Item = &AccessEntry> {
        self.deny.iter().chain(&self.allow)
    }
}

impl AccessEntry {
    /// Whether it asks for users, service accounts or groups.
    pub fn depends_on_user(&self) -> bool {
        self.rules.iter().any(Rule::depends_on_user)
    }

    /// Its size: itself and the entries of its lists.
    pub fn entries(&self) -> usize {
        let own = self.addresses.len().saturating_add(self.user_agents.len()).saturating_add(1);
        self.rules.iter().fold(own, |sum, rule| sum.saturating_add(rule.entries()))
    }
}
