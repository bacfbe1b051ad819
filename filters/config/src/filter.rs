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
    /// The filter's attributes in the span of a request that Envoy traces; none if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<SpanSettings>,
    /// Reports of the activity to control planes, for the console and `portcullis top`, of an Envoy that runs without
    /// `portcullis agent`. None without it. For the dynamic module only: portcullis.wasm refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<ActivityReports>,
    /// Exchanges with control planes about limits of all gateways (`globalAllocate`, `globalCount`), of an Envoy that runs without
    /// `portcullis agent`. Without it such an Envoy goes by its local limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_limits: Option<LimitExchanges>,
}

impl FilterConfig {
    /// The configuration of this version of a gateway whose certificates come by [`PeerSource::Validator`].
    pub fn new(instance: impl Into<String>) -> Self {
        Self {
            version: crate::CONFIG_VERSION,
            instance: instance.into(),
            peer_source: PeerSource::default(),
            reserved_headers: Vec::new(),
            tracing: None,
            activity: None,
            global_limits: None,
        }
    }
}

/// The filter's part in spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpanSettings {
    /// Whether spans contain names of users.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub users: bool,
    /// Whether clients' trace contexts are kept and a sampler of Envoy's decides on requests without one, so that the mark in
    /// `x-request-id` does not say which of those are sampled. Their reviews carry no trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted_parents: bool,
}

/// Reports of an Envoy's activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActivityReports {
    /// Envoy clusters of control planes, 1 to 8: each replica of `portcullis serve` in a cluster of its own, because each has to
    /// get every report. They speak HTTP/2 and present a client certificate.
    pub clusters: Vec<String>,
    /// The gateway's name: the common name or a DNS name of that certificate. The first label of `*.example.com` is replaced by
    /// the name of the host, in Kubernetes that of the pod, so that pods can share a certificate with that name.
    pub node: String,
    /// Seconds between two reports, 5 to 15. A certificate is good for one report a second, of all its gateways together.
    #[serde(default = "ActivityReports::default_interval")]
    pub interval_seconds: u32,
}

impl ActivityReports {
    /// The default of [`ActivityReports::interval_seconds`].
    const INTERVAL_SECONDS: u32 = 10;

    fn default_interval() -> u32 {
        Self::INTERVAL_SECONDS
    }
}

/// Exchanges of an Envoy about limits of all gateways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitExchanges {
    /// Envoy clusters of control planes, 1 to 8, as in [`FilterConfig::activity`]: each replica in a cluster of its own. One of
    /// them is asked at a time: the one that answered last, and the next one when it gives no parts.
    pub clusters: Vec<String>,
    /// The gateway's name, as in [`FilterConfig::activity`].
    pub node: String,
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
