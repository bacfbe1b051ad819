use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{DispatchPolicy, FlowControl, ObjectMeta, References, RequestHeaderSpec};
use crate::secret::{PublicBytes, SecretBytes};

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
    /// How the gateway talks to them, and as whom.
    pub client_config: ClientConfig,
    /// How the gateway presents itself to clients.
    pub secure_serving: SecureServing,
    /// Limits that policies may name.
    pub flow_control: FlowControl,
    /// Which request goes where; the first match wins.
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

/// How the gateway talks to the servers, and as whom.
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
    /// Requests per second of the gateway's own calls. Has no effect.
    pub qps: i32,
    /// Burst of the gateway's own calls. Has no effect.
    pub burst: i32,
    /// Divides `qps`. Has no effect.
    pub qps_divisor: i32,
    /// SNI and the name that the servers' certificates must carry; `metadata.name` if empty.
    pub server_name: String,
}

/// How the gateway presents itself to clients.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SecureServing {
    /// The serving key, PEM. Without it the gateway's default certificate is served.
    pub key_data: SecretBytes,
    /// The serving certificate, PEM.
    pub cert_data: PublicBytes,
    /// The CAs that sign client certificates, PEM. Without it the `defaultClientCA` of the `GatewaySettings` is used; without
    /// either no client certificate is looked at.
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
    /// How long a request may take that is no watch, session or upgrade: a Go duration, 75s if unset. It has to be
    /// longer than the servers' own timeout, so that theirs is the one a client sees.
    pub request_timeout: Option<String>,
    /// How long watches and sessions may outlive the server that they run on, once it is removed: a Go duration up to
    /// 24h, 5m if unset. On a disabled server they go on for ever. If the object is removed, Envoy's own drain time (10m)
    /// ends what is left.
    pub drain_period: Option<String>,
    /// Maximum duration of a session (exec, attach, port-forward, any upgraded connection), idle or busy: a Go duration from
    /// 1s to 720h, unlimited if unset. An edit applies to running sessions, counted from their start.
    pub max_session_duration: Option<String>,
    /// Addresses of the gateway at which this cluster is served whatever name a client asks for, or none. Each must be in
    /// the ranges that the gateway's settings allow.
    #[serde(rename = "virtualIPs")]
    pub virtual_ips: Vec<String>,
    /// More about single servers of `spec.servers`.
    pub servers: Vec<ServerDetails>,
    /// How it is found out whether a server is healthy.
    pub health_check: HealthCheckSpec,
    /// Host names that a request's `:authority` may carry beside those that the cluster serves.
    pub extra_authorities: Vec<String>,
    /// Forwards requests without a credential as anonymous requests, which the servers authorize; true if unset.
    pub allow_anonymous: Option<bool>,
    /// When a client certificate is verified: `Request` (if empty) or `Handshake`.
    pub client_certificate_verification: String,
    /// How the servers learn who sends a request: `Impersonate` (if empty), by impersonation headers and the gateway's right to
    /// impersonate; or `RequestHeader`, as an authenticating proxy, where tokens and impersonation are judged by the servers.
    pub upstream_identity: String,
    /// Options of `upstreamIdentity: RequestHeader`.
    pub request_header: RequestHeaderSpec,
    /// Lifetimes of the servers' answers about credentials.
    pub credential_cache: CredentialCacheSpec,
    /// Keys of extra attributes that users have in addition to the default ones; `portcullis rbac` grants the gateway to send
    /// them.
    pub forwarded_extras: Vec<String>,
    /// Writes the client's address, the request's id and the impersonating user into the servers' audit logs, as extra
    /// attributes of the user; false if unset, because a user sees these, too (`kubectl auth whoami`).
    pub audit_attribution: bool,
    /// Requests that the access log has whatever `spec.logging` and the policies say.
    pub logging: ConspicuousLogging,
    /// References to certificates, keys and tokens that are not in the object itself.
    pub references: References,
}

/// Requests that the access log has whatever the log mode, at most 100 in a second and a gateway.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ConspicuousLogging {
    /// Time from which on a request is slow, to the end of its answer, for watches and sessions to the headers: a Go duration
    /// from 10ms to 1h, 5s if unset; 0 logs none for its time.
    pub slow: Option<String>,
    /// Logs requests that are answered with 5xx; true if unset.
    pub failed: Option<bool>,
}

/// More about a server of `spec.servers`, whose entries are KubeGateway's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ServerDetails {
    /// Which server: its endpoint in `spec.servers`.
    pub endpoint: String,
    /// The server's zone. Gateways of the same zone (`portcullis bootstrap --zone`) send their requests to it as long as a
    /// server of the zone is healthy, then to all others. A gateway without a zone spreads over all.
    pub zone: String,
}

/// How it is found out whether a server is healthy: by GET, over each pool's own connections.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct HealthCheckSpec {
    /// The path of the check, a query may follow: `/readyz` if unset.
    pub path: Option<String>,
    /// The time between two checks, a Go duration from 1s to 5m: 5s if unset.
    pub interval: Option<String>,
    /// How long a check may take, a Go duration from 1s to 5m: 5s if unset.
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
