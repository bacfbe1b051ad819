use schemars::JsonSchema;
use serde::Deserialize;

/// A port for HTTP CONNECT, at which a header and not the server name of the TLS inside chooses the cluster: for apiserver-proxies,
/// whose pods all ask for `kubernetes.default.svc`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TunnelSettings {
    /// The port, one of its own. CONNECT itself is sent in the clear; what is inside is TLS of the cluster.
    pub port: u16,
    /// The header that names the cluster: its `metadata.name` or one of its `serverNames` without `*`, or that name behind
    /// `outbound|443||`; `X-Gardener-Destination` if unset.
    pub header: Option<String>,
    /// The addresses that may open tunnels, as ranges like `10.0.0.0/8`; all if empty.
    #[serde(default)]
    pub trusted_sources: Vec<String>,
}
