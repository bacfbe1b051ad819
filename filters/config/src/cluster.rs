use serde::{Deserialize, Serialize};

use crate::access::AccessLists;
use crate::dispatch::Dispatch;
use crate::fair_queue::FairQueueConfig;
use crate::policy::Policy;
use crate::rebalance::Rebalance;
use crate::request_export::RequestInfoExport;
use crate::token_issuer::TokenIssuer;

/// One `UpstreamCluster`, as its virtual host carries it (`DynamicModuleFilterPerRoute.filter_config`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterConfig {
    /// [`crate::CONFIG_VERSION`].
    pub version: u32,
    /// The cluster's name over all edits, `<instance>/<namespace or ->/<name>`: counts of running requests and token buckets
    /// are kept by it and `object`.
    pub name: String,
    /// Identity of this cluster: instance, object UID and a hash of servers, upstream trust and client CA. It keys the caches
    /// of credentials, so that a recreated or re-pointed cluster starts with empty ones. Empty is `name`, enough if the servers
    /// behind the name change only with a restart.
    #[serde(default)]
    pub identity: String,
    /// A word for the object behind the name, made of its UID: counts, limits, sessions and clients by name are kept by it and the name, so
    /// that another object of the name begins with none. Edits of one object keep it. Empty is enough if a name is never
    /// another object's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The name of a variant for some of the cluster's routes; empty for the cluster's own configuration. Variants have policies and
    /// limits of their own, and editions of their own. Counts are common, by `name` and `object`, so that a limit of
    /// one is reached by the requests of all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// The name of the listener of a Gateway whose requests it judges; empty for a cluster at its own names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub listener: String,
    /// The host names that a request's `:authority` may carry, lower-case, without port; `*.example.com` covers one
    /// label. Requests for another name are answered 421. An IP address as authority is always accepted, because no
    /// cluster can be named like one.
    pub authorities: Vec<String>,
    /// Of a variant: the host names and wildcards below its own wildcards that are others' at the listener, but for those that are below
    /// another one of these. Its denials end no streams for them but those that began under it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrower_authorities: Vec<String>,
    /// PEM bundle of the CAs that sign client certificates. Without it no certificate is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<String>,
    /// Answers every request with 429, before anything else is asked of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deny_all_requests: bool,
    /// Whether a request that was answered was its connection's last: HTTP/1.1 `Connection: close`, HTTP/2 GOAWAY. Other
    /// requests on the connection go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub close_connections: bool,
    /// Which requests drain their connections at random. Without it none do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<Rebalance>,
    /// Whether requests without a credential are let through, for the upstream to judge.
    #[serde(default = "yes")]
    pub allow_anonymous: bool,
    /// Whether the client's address and the impersonating user go upstream as extras of the user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub audit_attribution: bool,
    /// How tokens and impersonation are reviewed. Without it both are refused, or in [`UpstreamIdentity::RequestHeader`] and
    /// [`UpstreamIdentity::ClientCredential`] go upstream as requests of an unknown client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviews: Option<Reviews>,
    /// Issuers of tokens that the filter verifies itself, without a review. A token that does not verify is reviewed as any other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub token_issuers: Vec<TokenIssuer>,
    /// How the authenticated user goes upstream. [`UpstreamIdentity::ClientCredential`]: not at all, the client's own credentials go
    /// on as they are.
    pub upstream_identity: UpstreamIdentity,
    /// Users and groups that no request may act as through this gateway. With it tokens that are not reviewed are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected: Option<ProtectedIdentities>,
    /// Lists of requests that are refused or let in, in the order in which they are asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessLists>,
    /// Limits that policies name. Those that do not limit (`exempt`) do not stand here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_control_schemas: Vec<FlowControlSchema>,
    /// Limits that policies name, beyond which requests wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fair_queues: Vec<FairQueueConfig>,
    /// Whether the access log has requests that are refused before a policy decides about them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_refused: bool,
    /// Time from which on the access log has a request whatever its policy says, milliseconds: to the end of the answer, to its
    /// headers for a request that runs for long. Without it no time is too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_slow_milliseconds: Option<u64>,
    /// Whether the access log has requests that are answered with 5xx, whatever their policy says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_failed: bool,
    /// How many users, groups and user agents are counted by name, those with the most requests; 1,000 at most. Without it none
    /// are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_talkers: Option<u32>,
    /// The servers that streams may run on. Without it no stream ends because of its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Servers>,
    /// Maximum age of a session (an upgraded connection), seconds. Without it sessions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_session_duration_seconds: Option<u64>,
    /// The attributes of a request that are exported for routes and logs of an operator's own. Without it none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_info: Option<RequestInfoExport>,
    /// Dispatch of requests: by the first policy that matches, and no match is 403; or [`Dispatch::All`] to the group
    /// `all`.
    pub policies: Dispatch,
    /// An alternative by which requests are judged beside, without an effect on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Shadow>,
}

/// A whole alternative to the access lists, dispatch policies and limits of a cluster, which only reports. A request is judged by it
/// once it is decided, and only if its user is known; the outcome is counted and logged, and neither the client nor a server sees
/// anything of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shadow {
    /// A hash of the shadow and of what decides beside it, under which gateways report differences; empty where no control plane
    /// reads them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub generation: String,
    /// Lists in the place of [`ClusterConfig::access`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<AccessLists>,
    /// Limits in the place of [`ClusterConfig::flow_control_schemas`], with counts of their own. Their limits of all gateways have
    /// no effect. A policy that names a fair queue of the cluster is one without a limit: no request waits in a shadow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_control_schemas: Vec<FlowControlSchema>,
    /// Policies in the place of [`ClusterConfig::policies`]. Their groups need no servers.
    pub policies: Vec<Policy>,
}

/// The servers of a cluster: streams of others are on their way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Servers {
    /// As their endpoints' metadata name them ([`crate::names::HOST_SERVER`]), those that take no new requests included.
    pub names: Vec<String>,
    /// Time that watches and sessions may outlive their server, seconds, from the update on. Other requests have the request
    /// timeout.
    pub drain_seconds: u64,
}

/// The upstream that answers reviews, and the lifetimes of its answers, in seconds. Failures are never remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reviews {
    /// The Envoy cluster to ask, one that carries the gateway's credential.
    pub cluster: String,
    /// The user name with which an authenticating proxy asks ([`UpstreamIdentity::RequestHeader`], and by `x-remote-user` in
    /// [`UpstreamIdentity::ClientCredential`]): its certificate is for no user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Lifetime of a token's user; never beyond the token's own expiry.
    #[serde(rename = "tokenTTLSeconds", default = "two_minutes")]
    pub token_ttl_seconds: u64,
    /// Lifetime of the answer that a token is not valid.
    #[serde(rename = "rejectedTokenTTLSeconds", default = "ten_seconds")]
    pub rejected_token_ttl_seconds: u64,
    /// Lifetime of the answer that a user may impersonate.
    #[serde(rename = "authorizedTTLSeconds", default = "five_minutes")]
    pub authorized_ttl_seconds: u64,
    /// Lifetime of the answer that a user may not.
    #[serde(rename = "unauthorizedTTLSeconds", default = "half_a_minute")]
    pub unauthorized_ttl_seconds: u64,
    /// Whether a user may also impersonate by grants of constrained impersonation (KEP-5284). To be set only if the upstream knows
    /// them: an older one gives these verbs no meaning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub constrained_impersonation: bool,
    /// Audiences of which a token needs to have at least one for its review, `spec.audiences` of a TokenReview. Empty: those of the
    /// upstream itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub token_audiences: Vec<String>,
    /// Period in which a token that the keys of an issuer verify is reviewed once, while its requests go on: one that the upstream
    /// rejects is reviewed as any other from then on. Without it the upstream is not asked about verified tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_check_seconds: Option<u64>,
}

fn two_minutes() -> u64 {
    120
}

fn ten_seconds() -> u64 {
    10
}

fn five_minutes() -> u64 {
    300
}

fn half_a_minute() -> u64 {
    30
}

fn yes() -> bool {
    true
}

/// The way in which the authenticated user goes upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum UpstreamIdentity {
    /// `Impersonate-*` headers with the gateway's own credential. Impersonation by clients is reviewed.
    Impersonate,
    /// As an authenticating proxy of kube-apiserver (`--requestheader-*`): the user of a client certificate in these headers,
    /// beside the front-proxy certificate. A token goes upstream as it is, and so does what clients impersonate: the
    /// upstream judges both.
    RequestHeader(RequestHeaders),
    /// Not at all. The client's own credential (`Authorization`, a token among WebSocket subprotocols) and impersonation go
    /// upstream as they are, and the upstream judges both. Client certificates are not looked at. The pools show no credential
    /// of the gateway's.
    ClientCredential,
}

/// Users and groups that no request may act as: neither by a credential nor by impersonation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProtectedIdentities {
    /// User names; a trailing `*` is a prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Whether a user in such a group goes on without it, if the gateway sends the groups. Otherwise the request is refused, as
    /// it is in any case if a group is asked for by `Impersonate-Group`, or if the upstream finds it out itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drop_groups: bool,
}

/// The names of an authenticating proxy's headers, as the upstream's `--requestheader-*-headers` have them; lower-case. No
/// client may send on any of them, whatever [`crate::FilterConfig::reserved_headers`] holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestHeaders {
    /// The user's name.
    pub user: String,
    /// One line for each group.
    pub group: String,
    /// The user's UID; not sent if empty.
    pub uid: String,
    /// The prefix of extra attributes.
    pub extra_prefix: String,
    /// Further prefixes of names that the upstream believes: the [`crate::FilterConfig::reserved_headers`] that belong to this
    /// edition of the cluster. A connection may still have the listener of another edition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reserved: Vec<String>,
}

impl Default for RequestHeaders {
    /// The names that Kubernetes' documents use.
    fn default() -> Self {
        let name = |rest: &str| format!("x-remote-{rest}");
        Self {
            user: name("user"),
            group: name("group"),
            uid: name("uid"),
            extra_prefix: name("extra-"),
            reserved: Vec::new(),
        }
    }
}

/// A limit, shared by all policies that name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlowControlSchema {
    /// Unique in the cluster.
    pub name: String,
    /// The limit.
    pub limit: FlowControlLimit,
    /// The limit of all gateways together, of the same kind. While a control plane divides it, this gateway's part of it holds
    /// instead of `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<GlobalLimit>,
    /// The most requests in flight at this gateway for the requests of this configuration, whatever its part of `global` is: a policy of
    /// a Gateway, a listener or a route lowers the limit so far. Absent for none. Of requests in flight alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u32>,
    /// The requests that it counts. Others pass.
    #[serde(default, skip_serializing_if = "CountedRequests::is_all")]
    pub counts: CountedRequests,
}

impl FlowControlSchema {
    /// A limit in this gateway, of all requests.
    pub fn local(name: &str, limit: FlowControlLimit) -> Self {
        Self { name: name.to_owned(), limit, global: None, at_most: None, counts: CountedRequests::All }
    }
}

/// The requests that a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum CountedRequests {
    /// All.
    #[default]
    All,
    /// All but watches.
    Requests,
    /// Watches.
    Watches,
}

impl CountedRequests {
    fn is_all(&self) -> bool {
        *self == CountedRequests::All
    }

    /// Whether a request is counted.
    pub fn includes(self, is_watch: bool) -> bool {
        match self {
            CountedRequests::All => true,
            CountedRequests::Requests => !is_watch,
            CountedRequests::Watches => is_watch,
        }
    }
}

/// A limit of all gateways together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GlobalLimit {
    /// The limit.
    pub limit: FlowControlLimit,
    /// The way in which it is divided.
    pub strategy: GlobalStrategy,
}

/// The way in which gateways get their parts of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum GlobalStrategy {
    /// All of it is divided by what the gateways had use for in the last seconds.
    Allocate,
    /// Each gateway gets what it uses and a small reserve, several times a second.
    Count,
}

/// The limit of a schema, exact over all workers of an Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum FlowControlLimit {
    /// Maximum number of requests at a time; 0 refuses all.
    MaxRequestsInflight(u32),
    /// In any `t` seconds at most `burst + qps × t` requests.
    TokenBucket {
        /// Requests per second.
        qps: u32,
        /// Requests at once, after a time without any.
        burst: u32,
    },
}
