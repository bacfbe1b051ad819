use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{
    AuthorityInSecret, CredentialCacheSpec, HealthCheckSpec, ObjectMeta, PairInSecret, RequestHeaderSpec, TokenInSecret,
};

/// The kube-apiservers of a cluster, in the namespace of their owner. `HTTPRoutes` lead there, and have the host names.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubernetesUpstream {
    /// [`crate::UPSTREAM_API_VERSION`].
    pub api_version: String,
    /// [`crate::UPSTREAM_KIND`].
    pub kind: String,
    /// Name, namespace, UID and time of creation are used.
    pub metadata: ObjectMeta,
    /// The specification.
    #[serde(default)]
    pub spec: KubernetesUpstreamSpec,
    /// Ignored.
    #[serde(default)]
    pub status: Option<Value>,
}

/// The specification of a `KubernetesUpstream`. Fields that an `UpstreamCluster` has, too, mean the same.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KubernetesUpstreamSpec {
    /// The kube-apiservers. All requests of a route go to all of them, in turn or by their weights.
    pub servers: Vec<UpstreamServer>,
    /// SNI and the name that the servers' certificates must carry, `kubernetes.default.svc` for example.
    pub server_name: String,
    /// Certificates, keys and tokens, in Secrets and ConfigMaps of the object's own namespace.
    pub references: UpstreamReferences,
    /// Active health checks of the servers.
    pub health_check: HealthCheckSpec,
    /// Timeout of requests other than watches, sessions and upgrades: a Go duration, 75s if unset. It has to be longer than
    /// the servers' own timeout, so that clients get the servers' answer.
    pub request_timeout: Option<String>,
    /// Time for which watches and sessions go on after their server is removed: a Go duration up to 24h, 5m if unset.
    pub drain_period: Option<String>,
    /// Maximum duration of a session (exec, attach, port-forward, any upgraded connection), idle or busy: a Go duration from
    /// 1s to 720h, unlimited if unset.
    pub max_session_duration: Option<String>,
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
    /// Audiences of which a token needs to have one, in reviews of tokens by the servers. Empty: `--api-audiences` of the servers.
    pub token_audiences: Vec<String>,
    /// Keys of extra attributes that users have in addition to the default ones.
    pub forwarded_extras: Vec<String>,
    /// Writes the client's address, the request's id and the impersonating user into the servers' audit logs; false if unset.
    pub audit_attribution: bool,
    /// Whether `Impersonate-*` headers of clients also count by grants of constrained impersonation; false if unset.
    pub constrained_impersonation: bool,
}

/// One kube-apiserver of a `KubernetesUpstream`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UpstreamServer {
    /// `https://address[:port]`, with an IP address; the port defaults to 443. A DNS name could lead anywhere by the time that Envoy
    /// resolves it.
    pub endpoint: String,
    /// Takes the server out of balancing. Unset is enabled.
    pub disabled: Option<bool>,
    /// The server's zone. Gateways of the same zone send their requests to it as long as a server of the zone is healthy.
    pub zone: String,
    /// The server's share of requests, in proportion to the sum of the weights of all healthy servers, from 1 to 128: 1 if unset.
    /// Requests of policies with `LeastRequest` or `Random` are shared without weights.
    pub weight: Option<u32>,
}

/// References to certificates, keys and tokens. A Secret needs the label `portcullis.dev/kubernetes-upstream` with the object's name:
/// its content is shown to the object's servers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UpstreamReferences {
    /// The CAs that sign the servers' certificates.
    #[serde(rename = "upstreamCA")]
    pub upstream_ca: Option<UpstreamAuthority>,
    /// The CAs that sign client certificates. Without it client certificates are ignored: no CA of the `GatewaySettings` takes its
    /// place.
    #[serde(rename = "clientCA")]
    pub client_ca: Option<UpstreamAuthority>,
    /// The gateway's client certificate and key. This or `token` is set.
    pub client: Option<UpstreamPair>,
    /// The gateway's own token.
    pub token: Option<UpstreamToken>,
}

/// Certificates of authorities: in a ConfigMap or in a Secret.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UpstreamAuthority {
    /// A ConfigMap of the object's namespace.
    pub config_map: Option<AuthorityInConfigMap>,
    /// A Secret of the object's namespace.
    pub secret: Option<AuthorityInSecret>,
}

/// Certificates of authorities in a ConfigMap, PEM, under `ca.crt`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AuthorityInConfigMap {
    /// The ConfigMap's name.
    pub name: String,
}

/// A certificate and its key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UpstreamPair {
    /// A Secret of the object's namespace.
    pub secret: PairInSecret,
}

/// A token.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UpstreamToken {
    /// A Secret of the object's namespace.
    pub secret: TokenInSecret,
}
