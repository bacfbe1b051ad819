use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{
    AccessSpec, AuthorityInSecret, ListenerAddress, ListenerTlsSettings, ObjectMeta, PairInFiles, PairInSecret,
    RequestHeaderNames, StrictTransportSecurity, TracingSettings, TunnelSettings,
};
use crate::secret::{PublicBytes, SecretBytes};

/// The settings of the whole gateway.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewaySettings {
    /// [`crate::SETTINGS_API_VERSION`].
    pub api_version: String,
    /// [`crate::SETTINGS_KIND`].
    pub kind: String,
    /// Only the name is used.
    pub metadata: ObjectMeta,
    /// The specification.
    #[serde(default)]
    pub spec: GatewaySettingsSpec,
    /// Ignored.
    #[serde(default)]
    pub status: Option<Value>,
}

/// The specification of the settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GatewaySettingsSpec {
    /// The gateway's instance id, a DNS label; `portcullis` if unset. It is the prefix of every resource name and part of
    /// `Via`.
    pub instance: Option<String>,
    /// The addresses and ports for clients.
    pub listener: ListenerSettings,
    /// Served to names that have no certificate of their own, and to unknown names (503). Without it the handshake with an
    /// unknown name fails.
    pub default_certificate: Option<Certificate>,
    /// The CAs of client certificates for clusters that have none of their own (`spec.secureServing.clientCAData`), as
    /// KubeGateway's `--client-ca-file`. A cluster with neither looks at no client certificate.
    #[serde(rename = "defaultClientCA")]
    pub default_client_ca: Option<ClientAuthority>,
    /// Whether the TLS handshake names the client CAs of a cluster, by which a client with several certificates chooses.
    #[serde(rename = "clientCANames")]
    pub client_ca_names: ClientCaNames,
    /// Allows servers at loopback addresses: for labs and tests.
    pub allow_loopback_upstreams: bool,
    /// Whether an `UpstreamCluster` may take a name out of another one's wildcard.
    pub wildcard_subdomains: WildcardSubdomains,
    /// The access log.
    pub access_log: AccessLogSettings,
    /// Metrics beyond those that are always there.
    pub metrics: MetricsSettings,
    /// The header names for users, for each `UpstreamCluster` with `upstreamIdentity: RequestHeader`. A change ends
    /// connections.
    pub request_header_names: RequestHeaderNames,
    /// Users and groups that no request may act as through this gateway. Unset protects none.
    pub protected_identities: ProtectedIdentitySettings,
    /// Requests that are refused, and those that alone are let in, in all clusters.
    pub access: AccessSpec,
    /// Bounds.
    pub limits: LimitSettings,
    /// Spreading of clients over gateways. HTTP/2 clients keep their connections, so that a gateway that restarted has none until
    /// others let some go. Unset lets none go.
    pub rebalance: Option<RebalanceSettings>,
    /// When Envoy makes the pools of connections for upgrades and for requests without the gateway's credential. A change ends
    /// connections.
    pub secondary_pools: SecondaryPools,
    /// The path of `portcullis.wasm` for Envoys that run it in place of the module (`portcullis bootstrap --filter wasm`),
    /// absolute; `/usr/lib/portcullis/portcullis.wasm` if unset. A change ends connections.
    pub wasm_module_path: Option<String>,
    /// Traces of requests. Unset, nothing is traced. A change ends connections.
    pub tracing: Option<TracingSettings>,
}

/// The names of client CAs in TLS handshakes (`certificate_authorities`, RFC 8446, 4.2.4).
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum ClientCaNames {
    /// They are named, as kube-apiserver does. Envoy then decodes whatever certificate a client presents, signed or not, and keeps it
    /// as long as the connection is open.
    #[default]
    Sent,
    /// They are omitted, except with `clientCertificateVerification: Handshake`: an unsigned certificate costs less, and a
    /// client with several certificates may choose the wrong one.
    Omitted,
}

/// The pools of a group of servers beside the one that most requests, reviews and the reported health of servers use: for upgrades,
/// for requests without the gateway's credential, and in front-proxy mode for tokens of clients.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum SecondaryPools {
    /// Envoy has them from the start. They work without a control plane.
    #[default]
    Eager,
    /// Envoy asks the control plane for one when a request needs it first, and keeps it: for thousands of clusters. A pool
    /// that is not used takes no memory, and its servers are checked once. Without a control plane, requests that need a pool
    /// which was not used before are refused with 503. A check of a server takes three seconds at most, whatever
    /// `healthCheck.timeout` says.
    OnDemand,
}

/// The owner of a name below another object's wildcard: `api.a.example.com` where another object has `*.a.example.com`.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum WildcardSubdomains {
    /// The object with the wildcard, unless another object had the name before.
    #[default]
    Reserved,
    /// The object that claims the longer name: for operators who write all objects themselves.
    Allowed,
}

/// Users and groups that no request may act as through the gateway, in any of its clusters: neither by a certificate or token
/// nor by impersonation.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ProtectedIdentitySettings {
    /// User names; a trailing `*` is a prefix. Their requests are refused.
    pub users: Vec<String>,
    /// Groups; `system:masters` is recommended.
    pub groups: Vec<String>,
    /// The action on a request whose user is in such a group: `Refuse` (if empty), or `DropGroup`, which lets it go on without
    /// the group if the gateway itself sends the groups to the servers.
    pub action: String,
}

/// Users and groups that no client of one cluster may act as, beside those of the settings, which also say whether groups are dropped.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClusterProtectedIdentities {
    /// User names; a trailing `*` is a prefix. Their requests are refused.
    pub users: Vec<String>,
    /// Groups: a request whose user is in one is refused, or goes on without it where the settings say `DropGroup`.
    pub groups: Vec<String>,
}

/// The access log. Each `UpstreamCluster` chooses the requests that are in it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AccessLogSettings {
    /// `stdout` or `stderr` of Envoy, the absolute path of a file on Envoy's machine, or `none`; `stdout` if unset.
    pub destination: Option<String>,
}

/// Metrics beyond those that are always there.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MetricsSettings {
    /// Requests by client.
    pub users: UserMetrics,
}

/// Requests by the name of the user, by group and by user agent. Names are personal data: who reads the metrics of gateways or
/// the console reads them, too.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UserMetrics {
    /// Whether clients are counted by name.
    pub mode: UserMetricsMode,
    /// Number of users, groups and user agents of a cluster that are shown, 1,000 at most; 100 if unset. All clusters of a gateway
    /// share 32,768 names, so that with many clusters each has fewer.
    pub k: Option<u32>,
}

/// Whether clients are counted by name.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum UserMetricsMode {
    /// They are not.
    #[default]
    Off,
    /// Those with the most requests are, and all others together.
    TopK,
}

/// The addresses and ports for clients.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ListenerSettings {
    /// An IP address; `0.0.0.0` if unset. `0.0.0.0` is every address of IPv4, `::` every one of IPv6 and none of IPv4.
    pub address: Option<String>,
    /// 6443 if unset.
    pub port: Option<u16>,
    /// Further addresses and ports for clients, 16 at most: `::` for both stacks, or a second port. The same clusters answer at
    /// all of them. A change ends connections.
    pub additional_addresses: Vec<ListenerAddress>,
    /// TLS at all ports where it ends, Gateways' included. A change ends connections.
    pub tls: ListenerTlsSettings,
    /// Addresses that clusters may claim as virtual IPs (`spec.portcullis.virtualIPs`), as ranges like `10.0.0.0/8`; none if
    /// empty. A client that connects to a virtual IP gets its cluster whatever name it asks for, so an address that several
    /// clusters share must not be in here.
    #[serde(rename = "virtualIPs")]
    pub virtual_ips: Vec<String>,
    /// Ports for proxies that send the client's address (PROXY protocol, version 1 or 2).
    pub proxy_protocol: Option<ProxyProtocolSettings>,
    /// Number of HTTP proxies between clients and every port of the gateway, each of which appends the address of its own
    /// client to `X-Forwarded-For`; 0 if unset, 16 at most. The entry at that place from the right is the client's address;
    /// with fewer entries it is the connection's. A change ends connections.
    pub trusted_hops: Option<u32>,
    /// A port at which apiserver-proxies open tunnels to clusters (HTTP CONNECT).
    pub tunnel: Option<TunnelSettings>,
    /// `Strict-Transport-Security` in every answer, refusals included.
    pub hsts: Option<StrictTransportSecurity>,
}

/// Ports for proxies that send a client's address by PROXY protocol. Every connection to them must begin with its header and
/// come from a trusted proxy.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ProxyProtocolSettings {
    /// A port of its own, beside the one for clients that come directly; if unset, all come through proxies.
    pub port: Option<u16>,
    /// The proxies' own addresses, as ranges like `10.0.0.0/8`; at least one.
    pub trusted_proxies: Vec<String>,
}

/// A certificate with its key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Certificate {
    /// The chain, leaf first, PEM.
    pub cert_data: PublicBytes,
    /// The key, PEM.
    pub key_data: SecretBytes,
    /// In place of both: files below the root of references (`serve --references-root`). A change of the files acts as an edit
    /// does. Only for settings in files.
    pub file: Option<PairInFiles>,
    /// In place of both: a Secret in the control plane's own namespace that is labelled for these settings
    /// (`portcullis.dev/gateway-settings`). A change of the Secret acts as an edit does. Only for settings in Kubernetes.
    pub secret: Option<PairInSecret>,
}

/// The CAs of client certificates, in one of two places.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClientAuthority {
    /// The certificates, PEM.
    pub data: PublicBytes,
    /// In place of `data`: the path of a PEM file below the root of references (`serve --references-root`). A change of the
    /// file acts as an edit does. Only for settings in files.
    pub file: Option<String>,
    /// In place of `data`: a Secret in the control plane's own namespace that is labelled for these settings
    /// (`portcullis.dev/gateway-settings`). A change of the Secret acts as an edit does. Only for settings in Kubernetes.
    pub secret: Option<AuthorityInSecret>,
}

/// Draining of client connections at random: a drained connection takes no further requests (GOAWAY, `Connection: close`), and
/// everything on it goes on to its end. The client's next request makes a new one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RebalanceSettings {
    /// The probability with which a request drains its connection, as kube-apiserver's `--goaway-chance`: above 0, at most 0.02, in
    /// millionths. 0.001 is usual. Only requests that go to a server or that a limit refuses are drawn, and no upgrades.
    pub chance: f64,
    /// Maximum number of connections that one gateway drains in a second, evenly spread, and with them of new TLS handshakes; 10 if
    /// unset.
    pub connections_per_second: Option<u32>,
    /// The conditions, one of which has to hold for a drain; at least one. Unset: every request is drawn.
    pub when: Option<RebalanceConditions>,
}

/// The conditions under which requests drain their connections, of one gateway's Envoy.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RebalanceConditions {
    /// More requests than these run at servers, watches and other long-running ones not counted.
    pub in_flight: Option<u32>,
    /// More requests than these go to servers in a second, measured over five seconds.
    pub requests_per_second: Option<u32>,
    /// Envoy has more resident memory than this, for instance `1500Mi`.
    pub memory: Option<String>,
    /// The request is answered 429 by a limit of `flowControl`.
    pub on_limited: bool,
}

/// Bounds; each must be at least 1.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LimitSettings {
    /// Connections of one pool to its servers; 65,536 if unset.
    pub max_connections: Option<u32>,
    /// Requests of one pool in flight; 65,536 if unset.
    pub max_requests: Option<u32>,
    /// Requests of one pool that wait for a connection; 65,536 if unset.
    pub max_pending_requests: Option<u32>,
    /// Streams of one HTTP/2 connection of a client; 100 if unset, as kube-apiserver.
    pub max_concurrent_streams: Option<u32>,
}
