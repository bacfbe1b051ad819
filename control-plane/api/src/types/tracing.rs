use schemars::JsonSchema;
use serde::Deserialize;

use super::AuthorityInSecret;
use crate::secret::PublicBytes;

/// Traces of requests, which Envoy sends to an OpenTelemetry collector.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TracingSettings {
    /// Host and port of the collector's receiver for OTLP, as the gateways reach it: `otel-collector.observability.svc:4317`.
    pub endpoint: String,
    /// The protocol of the receiver: OTLP over gRPC, by convention at port 4317, or over HTTP, at 4318.
    pub protocol: TracingProtocol,
    /// The CA of the collector's certificate. Required, unless the endpoint is a loopback address or `insecure` is set.
    pub ca: Option<CollectorAuthority>,
    /// The name in the collector's certificate; the host of the endpoint if unset.
    pub server_name: Option<String>,
    /// Sends spans without TLS to another machine. Spans contain names of objects and addresses of clients.
    pub insecure: bool,
    /// Traced requests in a million, of those without a trusted parent; a multiple of 100, because Envoy decides by ten-thousandths.
    /// The name is kube-apiserver's, and so is the default, none.
    pub sampling_rate_per_million: Option<u32>,
    /// Whether a client's own trace (`traceparent`) goes on in the gateway.
    pub parents: TracingParents,
    /// Whether spans contain the names of users, which are personal data.
    pub users: TracingUsers,
}

/// A protocol of OTLP.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum TracingProtocol {
    /// OTLP over gRPC.
    #[default]
    #[serde(rename = "GRPC")]
    Grpc,
    /// OTLP over HTTP, at the path `/v1/traces`.
    #[serde(rename = "HTTP")]
    Http,
}

/// The trace context of clients.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum TracingParents {
    /// It is removed: `traceparent`, `tracestate` and `baggage` of a client reach neither Envoy's tracer nor a server.
    #[default]
    Ignored,
    /// A request goes on with its client's trace, and is traced if the client sampled it. Any client can then have all its
    /// requests traced, here and by the servers, or none of them.
    Trusted,
}

/// Names of users in spans.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum TracingUsers {
    /// Spans contain no names of users.
    #[default]
    Omitted,
    /// Spans contain the user and the impersonated user.
    Sent,
}

/// The CAs of a collector's certificate, in one of two places.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CollectorAuthority {
    /// The certificates, PEM.
    pub data: PublicBytes,
    /// In place of `data`: the path of a PEM file below the root of references (`serve --references-root`). A change of the
    /// file acts as an edit does. Only for settings in files.
    pub file: Option<String>,
    /// In place of `data`: a Secret in the control plane's own namespace that is labelled for these settings
    /// (`portcullis.dev/gateway-settings`). A change of the Secret acts as an edit does. Only for settings in Kubernetes.
    pub secret: Option<AuthorityInSecret>,
}
