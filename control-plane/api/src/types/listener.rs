use schemars::JsonSchema;
use serde::Deserialize;

/// A further address and port for clients; at least one of both is another than the listener's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ListenerAddress {
    /// An IP address; that of the listener if unset.
    pub address: Option<String>,
    /// The port of the listener if unset.
    pub port: Option<u16>,
}

/// TLS between clients and the gateway.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ListenerTlsSettings {
    /// The oldest version that clients may use.
    pub minimum_version: TlsVersion,
    /// The suites of TLS 1.2, by the names of kube-apiserver's `--tls-cipher-suites`, the preferred first; if empty the six that
    /// may be listed: ECDHE with AES-GCM or ChaCha20-Poly1305. Suites of TLS 1.3 cannot be chosen.
    pub cipher_suites: Vec<String>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    #[serde(rename = "TLSv1_2")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "TLSv1_3")]
    Tls13,
}
