use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{ObjectMeta, PairInFiles, RequestHeaderNames};
use crate::{PublicBytes, SecretBytes};

/// What holds for the whole gateway.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewaySettings {
    /// [`crate::SETTINGS_API_VERSION`].
    pub api_version: String,
    /// [`crate::SETTINGS_KIND`].
    pub kind: String,
    /// Only the name is used.
    pub metadata: ObjectMeta,
    /// What is wished.
    #[serde(default)]
    pub spec: GatewaySettingsSpec,
    /// Ignored.
    #[serde(default)]
    pub status: Option<Value>,
}

/// What the gateway's operator wishes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GatewaySettingsSpec {
    /// The gateway's instance id, a DNS label; `portcullis` if unset. It starts every resource name and stands in `Via`.
    pub instance: Option<String>,
    /// Where clients connect.
    pub listener: ListenerSettings,
    /// Served to names that have no certificate of their own, and to names that nobody serves (503). Without it the
    /// handshake with an unknown name fails.
    pub default_certificate: Option<Certificate>,
    /// The CAs of client certificates for clusters that have none of their own (`spec.secureServing.clientCAData`), as
    /// KubeGateway's `--client-ca-file`. A cluster with neither looks at no client certificate.
    #[serde(rename = "defaultClientCA")]
    pub default_client_ca: Option<ClientAuthority>,
    /// Whether the TLS handshake names the client CAs of a cluster, by which a client with several certificates chooses.
    #[serde(rename = "clientCANames")]
    pub client_ca_names: ClientCaNames,
    /// Lets servers stand at loopback addresses: for labs and tests.
    pub allow_loopback_upstreams: bool,
    /// Whether an `UpstreamCluster` may take a name out of another one's wildcard.
    pub names_below_wildcards: NamesBelowWildcards,
    /// The access log.
    pub access_log: AccessLogSettings,
    /// The headers by which servers are told about users, where an `UpstreamCluster` has `upstreamIdentity: RequestHeader`. A
    /// change ends connections.
    pub request_header_names: RequestHeaderNames,
    /// As whom nobody acts through this gateway; nobody is protected if unset.
    pub protected_identities: ProtectedIdentitySettings,
    /// Bounds.
    pub limits: LimitSettings,
    /// Where Envoys that run `portcullis.wasm` in the place of the module (`portcullis bootstrap --filter wasm`) find it, an
    /// absolute path; `/usr/lib/portcullis/portcullis.wasm` if unset. A change ends connections.
    pub wasm_module_path: Option<String>,
}

/// The names of client CAs in TLS handshakes (`certificate_authorities`, RFC 8446, 4.2.4).
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum ClientCaNames {
    /// They are named, as kube-apiserver does. Envoy then decodes whatever certificate a client presents, signed or not, and keeps it
    /// as long as the connection is open.
    #[default]
    Sent,
    /// They are not, but where `clientCertificateVerification` is `Handshake`: a certificate that nobody signed costs less, and a client
    /// with several certificates may choose the wrong one.
    Omitted,
}

/// What becomes of a name below another object's wildcard: `api.a.example.com` where somebody else has `*.a.example.com`.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum NamesBelowWildcards {
    /// It belongs to whoever has the wildcard, unless it was given to another object before.
    #[default]
    Conflict,
    /// Whoever claims the longer name gets it: for operators who write all objects themselves.
    Allow,
}

/// Users and groups as whom nobody acts through the gateway, in any of its clusters: neither by a certificate or token nor
/// by impersonation.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ProtectedIdentitySettings {
    /// User names; a trailing `*` is a prefix. Their requests are refused.
    pub users: Vec<String>,
    /// Groups; `system:masters` is recommended.
    pub groups: Vec<String>,
    /// What becomes of a request whose user is in such a group: `Refuse` (if empty), or `DropGroup`, which lets it go on
    /// without the group where the gateway tells the servers who is in which.
    pub action: String,
}

/// The access log. Which requests it tells is the word of each `UpstreamCluster`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AccessLogSettings {
    /// `stdout` or `stderr` of Envoy, the absolute path of a file on Envoy's machine, or `none`; `stdout` if unset.
    pub destination: Option<String>,
}

/// Where clients connect.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ListenerSettings {
    /// An IP address; `0.0.0.0` if unset.
    pub address: Option<String>,
    /// 6443 if unset.
    pub port: Option<u16>,
    /// Addresses that clusters may claim as virtual IPs (`spec.portcullis.virtualIPs`), as ranges like `10.0.0.0/8`; none
    /// if empty. Whoever connects to a virtual IP gets its cluster whatever name is asked for, so an address that several
    /// clusters share must not stand here.
    #[serde(rename = "virtualIPs")]
    pub virtual_ips: Vec<String>,
    /// Clients whose connections come through proxies that tell who they are (PROXY protocol, version 1 or 2).
    pub proxy_protocol: Option<ProxyProtocolSettings>,
    /// How many HTTP proxies stand between clients and every port of the gateway, each of which appends the address of its own
    /// client to `X-Forwarded-For`; 0 if unset, 16 at most. The entry so far from the right is the client's address; with fewer
    /// entries it is the connection's. A change ends connections.
    pub trusted_hops: Option<u32>,
}

/// Where proxies connect that tell a client's address by PROXY protocol. There every connection must begin with its header
/// and come from a trusted proxy.
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
    /// In place of both: files below the root of references (`serve --references-root`). What changes in them acts as an edit
    /// does.
    pub file: Option<PairInFiles>,
}

/// The CAs of client certificates, in one of two places.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClientAuthority {
    /// The certificates, PEM.
    pub data: PublicBytes,
    /// In place of `data`: the path of a PEM file below the root of references (`serve --references-root`). A change of the
    /// file acts as an edit does.
    pub file: Option<String>,
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
