use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{
    AccessSpec, ClientAddressSpec, ClusterProtectedIdentities, DiscoverySpec, DispatchPolicy, FairQueue, FlowControl,
    ObjectMeta, PolicyProfile, References, RequestHeaderSpec, ShadowSpec, TokensSpec,
};
use crate::secret::{PublicBytes, SecretBytes};

/// The `transport` by which connections are passed on.
pub(crate) const PASSTHROUGH: &str = "TLSPassthrough";

/// A group of kube-apiservers behind one host name. The shape is KubeGateway's, `spec.portcullis` is ours.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpstreamCluster {
    /// [`crate::CLUSTER_API_VERSION`].
    pub api_version: String,
    /// [`crate::CLUSTER_KIND`].
    pub kind: String,
    /// `metadata.name` is the host name.
    pub metadata: ObjectMeta,
    /// The specification.
    #[serde(default)]
    pub spec: UpstreamClusterSpec,
    /// Ignored.
    #[serde(default)]
    pub status: Option<Value>,
}

/// The specification of an `UpstreamCluster`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UpstreamClusterSpec {
    /// The kube-apiservers.
    pub servers: Vec<ServerSpec>,
    /// TLS and credentials of the gateway as a client of the servers.
    pub client_config: ClientConfig,
    /// TLS of the gateway for clients: certificate, client CAs and host names.
    pub secure_serving: SecureServing,
    /// Limits, which policies refer to by name.
    pub flow_control: FlowControl,
    /// Policies that select servers for requests; the first match wins.
    pub dispatch_policies: Vec<DispatchPolicy>,
    /// The access log.
    pub logging: Logging,
    /// Fields of Portcullis, which KubeGateway does not have.
    pub portcullis: PortcullisSpec,
}

/// One kube-apiserver.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ServerSpec {
    /// `https://host[:port]`; the port defaults to 443, a path is ignored.
    pub endpoint: String,
    /// Takes the server out of balancing. Unset is enabled.
    pub disabled: Option<bool>,
}

/// TLS and credentials of the gateway as a client of the servers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClientConfig {
    /// Skips verification of the servers' certificates; excludes `caData`.
    pub insecure: bool,
    /// The gateway's own token.
    pub bearer_token: SecretBytes,
    /// The gateway's client key, PEM.
    pub key_data: SecretBytes,
    /// The gateway's client certificate, PEM.
    pub cert_data: PublicBytes,
    /// The CAs that sign the servers' certificates, PEM.
    pub ca_data: PublicBytes,
    /// Requests per second of the gateway's own requests. Has no effect.
    pub qps: i32,
    /// Burst of the gateway's own requests. Has no effect.
    pub burst: i32,
    /// Divides `qps`. Has no effect.
    pub qps_divisor: i32,
    /// SNI and the name that the servers' certificates must carry; `metadata.name` if empty.
    pub server_name: String,
}

/// TLS of the gateway for clients.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SecureServing {
    /// The serving key, PEM. Without it the gateway's default certificate is served.
    pub key_data: SecretBytes,
    /// The serving certificate, PEM.
    pub cert_data: PublicBytes,
    /// The CAs that sign client certificates, PEM. Without it the `defaultClientCA` of the `GatewaySettings` is used; without
    /// either, client certificates are ignored.
    #[serde(rename = "clientCAData")]
    pub client_ca_data: PublicBytes,
    /// More host names, also as `*.example.com`.
    pub server_names: Vec<String>,
}

/// The access log of a cluster.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Logging {
    /// `on`, `off` or empty.
    pub mode: String,
}

/// Fields of Portcullis, which KubeGateway does not have.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PortcullisSpec {
    /// Handling of the clients' TLS: `TLSTerminate` (if empty), with each request judged by the gateway; or `TLSPassthrough`, with
    /// connections passed on to the servers by the name in the TLS handshake, unread. Then servers see the clients' own
    /// credentials, and identities, policies and limits of the gateway do not apply.
    pub transport: String,
    /// Timeout of requests other than watches, sessions and upgrades: a Go duration, 75s if unset. It has to be longer than
    /// the servers' own timeout, so that clients get the servers' answer.
    pub request_timeout: Option<String>,
    /// Time for which watches and sessions go on after their server is removed: a Go duration up to 24h, 5m if unset. On a
    /// disabled server they go on without a limit. If the object is removed, Envoy's own drain time (10m) ends the rest.
    pub drain_period: Option<String>,
    /// Maximum duration of a session (exec, attach, port-forward, any upgraded connection), idle or busy: a Go duration from
    /// 1s to 720h, unlimited if unset. An edit applies to running sessions, counted from their start.
    pub max_session_duration: Option<String>,
    /// Addresses of the gateway at which this cluster is served, with any name in the TLS handshake or none. Each must be in
    /// the ranges that the gateway's settings allow.
    #[serde(rename = "virtualIPs")]
    pub virtual_ips: Vec<String>,
    /// Further fields of servers of `spec.servers`.
    pub servers: Vec<ServerDetails>,
    /// Servers beside those of `spec.servers`, as EndpointSlices list them.
    pub discovery: Option<DiscoverySpec>,
    /// Active health checks of the servers.
    pub health_check: HealthCheckSpec,
    /// Host names that a request's `:authority` may carry beside those that the cluster serves.
    pub extra_authorities: Vec<String>,
    /// Forwards requests without a credential as anonymous requests, which the servers authorize; true if unset.
    pub allow_anonymous: Option<bool>,
    /// The time of verifying a client certificate: `Request` (if empty) or `Handshake`.
    pub client_certificate_verification: String,
    /// The way in which servers get the user of a request: `Impersonate` (if empty), by impersonation headers and the gateway's
    /// permission to impersonate; or `RequestHeader`, as from an authenticating proxy, with tokens and impersonation judged by
    /// the servers.
    pub upstream_identity: String,
    /// Options of `upstreamIdentity: RequestHeader`.
    pub request_header: RequestHeaderSpec,
    /// Lifetimes of the servers' answers about credentials.
    pub credential_cache: CredentialCacheSpec,
    /// Tokens that the gateway verifies itself, without asking the servers.
    pub tokens: TokensSpec,
    /// Keys of extra attributes that users have in addition to the default ones; `portcullis rbac` grants the gateway to send
    /// them.
    pub forwarded_extras: Vec<String>,
    /// Writes the client's address, the request's id and the impersonating user into the servers' audit logs, as extra
    /// attributes of the user; false if unset, because a user sees these, too (`kubectl auth whoami`).
    pub audit_attribution: bool,
    /// Whether `Impersonate-*` headers of clients also count by grants of constrained impersonation (`impersonate:user-info` and
    /// `impersonate-on:user-info:get`, for example), which servers know from Kubernetes 1.36 on; false if unset, because an older
    /// server gives such a grant no meaning. With `RequestHeader` the servers judge impersonation, whatever this says.
    pub constrained_impersonation: bool,
    /// Limits of requests at a time beyond which requests wait their turn. Policies name them like flow control schemas.
    pub fair_queues: Vec<FairQueue>,
    /// Prepared sets of policies and limits, one of which the annotation `portcullis.dev/profile` puts in the place of those of the
    /// spec, as `portcullis freeze` does. Every object has the profiles `frozen`, `heartbeats` and `trickle` without writing them.
    pub profiles: Vec<PolicyProfile>,
    /// Groups of operators: users of whom the built-in profiles `heartbeats` and `trickle` let everything in without a limit.
    /// `kubeadm:cluster-admins` and `system:masters` if unset; name one that protected identities do not refuse.
    pub operator_groups: Vec<String>,
    /// Users and groups that no client may act as in this cluster, beside those of the gateway's settings.
    pub protected_identities: ClusterProtectedIdentities,
    /// Requests that are refused, and those that alone are let in, beside the lists of the gateway's settings.
    pub access: AccessSpec,
    /// Policies, limits and access lists that only report.
    pub shadow: ShadowSpec,
    /// Client addresses that may connect at all.
    pub client_addresses: ClientAddressSpec,
    /// Requests that are logged even if `spec.logging` and the policies do not log them.
    pub logging: ConspicuousLogging,
    /// References to certificates, keys and tokens that are not in the object itself.
    pub references: References,
}

impl UpstreamClusterSpec {
    /// Whether connections are passed on and not judged.
    pub(crate) fn passes_tls_through(&self) -> bool {
        self.portcullis.transport == PASSTHROUGH
    }
}

/// Requests that are logged with any log mode, at most 100 in a second and a gateway.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ConspicuousLogging {
    /// Duration from which a request is slow, up to the end of its answer, for watches and sessions up to its headers: a Go
    /// duration from 10ms to 1h, 5s if unset; 0 logs no slow requests.
    pub slow: Option<String>,
    /// Logs requests that are answered with 5xx; true if unset.
    pub failed: Option<bool>,
}

/// Further fields of a server of `spec.servers`, whose entries are KubeGateway's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ServerDetails {
    /// The server's endpoint in `spec.servers`.
    pub endpoint: String,
    /// The server's zone. Gateways of the same zone (`portcullis bootstrap --zone`) send their requests to it as long as a
    /// server of the zone is healthy, then to all others. A gateway without a zone spreads over all.
    pub zone: String,
    /// The server's share of requests, in proportion to the sum of the weights of all healthy servers, from 1 to 128: 1 if unset.
    /// Requests of policies with `LeastRequest` or `Random` are shared without weights.
    pub weight: Option<u32>,
}

/// Active health checks of the servers: by GET, over each pool's own connections.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct HealthCheckSpec {
    /// The path of the check, a query may follow: `/readyz` if unset.
    pub path: Option<String>,
    /// The time between two checks, a Go duration from 1s to 5m: 5s if unset.
    pub interval: Option<String>,
    /// Timeout of a check, a Go duration from 1s to 5m: 5s if unset.
    pub timeout: Option<String>,
    /// Number of good checks that make a server healthy, 1 to 10: 1 if unset. A server that is new needs one.
    pub healthy_threshold: Option<u32>,
    /// Number of bad checks that make a server unhealthy, 1 to 10: 1 if unset. If set, an unexpected answer counts as one bad
    /// check; if unset, it makes a server unhealthy at once.
    pub unhealthy_threshold: Option<u32>,
}

/// Lifetimes of the servers' answers about credentials: Go durations up to 1h; 0 caches nothing.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CredentialCacheSpec {
    /// Lifetime of a token's user: 2m if unset, and never beyond the token's own expiry.
    #[serde(rename = "tokenTTL")]
    pub token_ttl: Option<String>,
    /// Lifetime of the answer that a token is invalid: 10s if unset.
    #[serde(rename = "rejectedTokenTTL")]
    pub rejected_token_ttl: Option<String>,
    /// Lifetime of the answer that a user may impersonate: 5m if unset.
    #[serde(rename = "authorizedTTL")]
    pub authorized_ttl: Option<String>,
    /// Lifetime of the answer that a user may not impersonate: 30s if unset.
    #[serde(rename = "unauthorizedTTL")]
    pub unauthorized_ttl: Option<String>,
}
