use serde::{Deserialize, Serialize};

/// The listener's part of the configuration (`DynamicModuleFilter.filter_config`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilterConfig {
    /// [`crate::CONFIG_VERSION`].
    pub version: u32,
    /// The gateway's instance id: what it writes into `Via`, and what it refuses to meet there.
    pub instance: String,
    /// How the client's certificate reaches the filter.
    #[serde(default, skip_serializing_if = "PeerSource::is_default")]
    pub peer_source: PeerSource,
    /// Further prefixes of header names that no client may send on, lower-case: those of [`crate::RequestHeaders`] that do not
    /// start with `x-remote-`. One that also starts the name of a header which goes on with every request, such as
    /// `content-type`, is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved_headers: Vec<String>,
}

impl FilterConfig {
    /// The configuration of this version of a gateway whose certificates come by [`PeerSource::Validator`].
    pub fn new(instance: impl Into<String>) -> Self {
        Self {
            version: crate::CONFIG_VERSION,
            instance: instance.into(),
            peer_source: PeerSource::default(),
            reserved_headers: Vec::new(),
        }
    }
}

/// How a client's certificate reaches the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum PeerSource {
    /// In the connection's filter state ([`crate::names::CLIENT_CHAIN`]), where the certificate validator puts it.
    #[default]
    Validator,
    /// In `x-forwarded-client-cert`, which Envoy itself must write and no client may (`SANITIZE_SET`, `chain: true`): where
    /// the listener is not ours, and on Envoy 1.38, whose validators mix up connections that shake hands at the same time.
    ForwardedClientCert,
    /// In the connection's filter state ([`crate::names::CLIENT_CERTIFICATE`]), where Envoy itself puts it after the handshake
    /// (`envoy.filters.network.set_filter_state`); a chain of more than one certificate in `x-forwarded-client-cert`, which
    /// Envoy writes for such connections alone (`HttpConnectionManager.forward_client_cert_matcher`). Envoy's own validator
    /// then names the client CAs in the handshake, which it does for no other validator.
    Connection,
}

impl PeerSource {
    fn is_default(&self) -> bool {
        *self == PeerSource::default()
    }
}
