//! Names on which Envoy's configuration and the filters must agree.

/// The dynamic module's name: Envoy looks for `lib<name>.so`.
pub const MODULE: &str = "portcullis";

/// `filter_name` of the HTTP filter in `DynamicModuleFilter` and the key of its per-route configuration.
pub const HTTP_FILTER: &str = "portcullis";

/// `validator_name` of the certificate validator in `DynamicModuleCertValidatorConfig`.
pub const CERT_VALIDATOR: &str = "portcullis";

/// Request filter state, written by the filter alone: the destination that a virtual host's matcher tree looks up.
/// Without it a request meets the deny answer.
pub const DESTINATION: &str = "portcullis.destination";

/// Connection filter state, written by the certificate validator alone: the client's certificate chain.
pub const CLIENT_CHAIN: &str = "portcullis.client_chain";

/// Dynamic metadata, written by the filter alone at the end of a request that the access log tells: under the key
/// [`LOG_MEMBERS`], members of a JSON object.
pub const LOG: &str = "portcullis.log";

/// The key in [`LOG`].
pub const LOG_MEMBERS: &str = "members";

/// Metadata of an endpoint, written by the control plane: under the key [`HOST_SERVER`], which server it is.
pub const HOST: &str = "portcullis";

/// The key in [`HOST`].
pub const HOST_SERVER: &str = "server";

/// Environment variable, set by the agent that runs Envoy: commands come to the module by standard input.
pub const AGENT_VARIABLE: &str = "PORTCULLIS_AGENT";

/// The one command, a line with milliseconds behind it: connections of long-running requests are sent away, and watches end
/// one after the other within that time.
pub const AGENT_LEAVE: &str = "leave";

/// Envoy puts it before the names of the filter's metrics, `envoy_portcullis_requests_total`.
pub const METRICS_NAMESPACE: &str = "portcullis";

/// Prefix of the response code details of every reply that the filter itself makes. Such a reply already carries a
/// `Status` body, which Envoy's `local_reply_config` must leave alone.
pub const REPLY_DETAILS_PREFIX: &str = "portcullis_";

/// Headers with these prefixes are dropped before the first route match, as a second line behind the filter: those that an
/// upstream could believe and that Envoy itself never writes. Each prefix costs 1,000 instructions a request.
pub const EARLY_REMOVED_PREFIXES: [&str; 1] = ["x-remote-"];

/// What differs where the filter is portcullis.wasm.
pub mod wasm {
    /// What the filter writes as filter state `x`, Envoy keeps as `wasm.x`.
    pub const FILTER_STATE_PREFIX: &str = "wasm.";

    /// Metadata of a virtual host, written by the control plane: under the key [`CONFIG_KEY`] the text of the cluster's
    /// [`crate::ClusterConfig`].
    pub const METADATA: &str = "portcullis";

    /// The key of the configuration's text.
    pub const CONFIG_KEY: &str = "config";

    /// The key of the text's SHA-256 in lower-case hexadecimal digits. May be left out; then every request reads the text.
    pub const DIGEST_KEY: &str = "digest";

    /// The attribute of the text, its parts separated by NUL.
    pub const CONFIG: &str = "xds\0virtual_host_metadata\0filter_metadata\0portcullis\0config";

    /// The attribute of the digest, likewise.
    pub const DIGEST: &str = "xds\0virtual_host_metadata\0filter_metadata\0portcullis\0digest";

    /// The attribute of which server answers ([`super::HOST`]).
    pub const SERVER: &str = "xds\0upstream_host_metadata\0filter_metadata\0portcullis\0server";

    /// Filter state, written by the filter alone at the end of a request that the access log tells: members of a JSON object.
    pub const LOG_MEMBERS: &str = "portcullis.log";
}
