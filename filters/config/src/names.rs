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

/// Connection filter state, written by Envoy alone after the handshake: the client's certificate as PEM in percent-encoding
/// (`%DOWNSTREAM_PEER_CERT%`). Absent without a certificate.
pub const CLIENT_CERTIFICATE: &str = "portcullis.client_certificate";

/// Connection filter state, written by Envoy alone after the handshake: SHA-256 digests of all certificates that the client
/// presented, separated by commas (`%DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_256%`).
pub const CLIENT_DIGESTS: &str = "portcullis.client_digests";

/// Dynamic metadata, written by the filter alone at the end of a request in the access log: under the key [`LOG_MEMBERS`],
/// members of a JSON object.
pub const LOG: &str = "portcullis.log";

/// The key in [`LOG`].
pub const LOG_MEMBERS: &str = "members";

/// Attributes of a request ([`crate::RequestInfoExport`]), for routes and logs of an operator's own. Written by the filter alone: as
/// filter state under [`request::Field::state`], as text that any matcher reads, and by the dynamic module also as dynamic
/// metadata of the namespace [`request::METADATA`].
pub mod request {
    /// The namespace of the dynamic metadata.
    pub const METADATA: &str = "portcullis.request";

    /// One thing that a request says.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Field {
        /// The key in the dynamic metadata.
        pub key: &'static str,
        /// The filter state.
        pub state: &'static str,
    }

    macro_rules! field {
        ($key:literal) => {
            Field { key: $key, state: concat!("portcullis.request.", $key) }
        };
    }

    /// `true` for a request for an API resource, `false` for a plain path.
    pub const IS_RESOURCE: Field = field!("isResourceRequest");
    /// The Kubernetes verb; the lower-case HTTP method for a plain path.
    pub const VERB: Field = field!("verb");
    /// [`crate::RequestClass`]: `read`, `watch`, `write` or `session`.
    pub const CLASS: Field = field!("class");
    /// The API group, empty for core. This and what follows up to the name: of requests for API resources only.
    pub const API_GROUP: Field = field!("apiGroup");
    /// The API version.
    pub const API_VERSION: Field = field!("apiVersion");
    /// The resource, in the plural.
    pub const RESOURCE: Field = field!("resource");
    /// The subresource, or empty.
    pub const SUBRESOURCE: Field = field!("subresource");
    /// The namespace, or empty.
    pub const NAMESPACE: Field = field!("namespace");
    /// The object's name, or empty.
    pub const NAME: Field = field!("name");
    /// The name of the user by whom policies are chosen.
    pub const USER: Field = field!("user");
}

/// Attributes of the span of a traced request ([`crate::SpanSettings`]). The dynamic module writes them into the span;
/// portcullis.wasm, which reaches no span, into filter state, from where Envoy's custom tags take them.
pub mod span {
    /// One attribute.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Attribute {
        /// Its name in the span.
        pub name: &'static str,
        /// Its filter state, without [`super::wasm::FILTER_STATE_PREFIX`].
        pub state: &'static str,
    }

    macro_rules! attribute {
        ($name:literal) => {
            Attribute { name: $name, state: concat!("span.", $name) }
        };
    }

    /// The path without its query, which holds commands of `exec`.
    pub const PATH: Attribute = attribute!("url.path");
    /// The cluster.
    pub const CLUSTER: Attribute = attribute!("portcullis.cluster");
    /// The Kubernetes verb; the lower-case HTTP method for a plain path.
    pub const VERB: Attribute = attribute!("portcullis.verb");
    /// The API group.
    pub const API_GROUP: Attribute = attribute!("portcullis.api_group");
    /// The API version.
    pub const API_VERSION: Attribute = attribute!("portcullis.api_version");
    /// The resource, in the plural.
    pub const RESOURCE: Attribute = attribute!("portcullis.resource");
    /// The subresource.
    pub const SUBRESOURCE: Attribute = attribute!("portcullis.subresource");
    /// The namespace.
    pub const NAMESPACE: Attribute = attribute!("portcullis.namespace");
    /// The object's name.
    pub const NAME: Attribute = attribute!("portcullis.name");
    /// The number of the dispatch policy.
    pub const POLICY: Attribute = attribute!("portcullis.policy");
    /// The policy's flow control schema.
    pub const SCHEMA: Attribute = attribute!("portcullis.schema");
    /// The policy's servers.
    pub const SERVER_GROUP: Attribute = attribute!("portcullis.server_group");
    /// The user.
    pub const USER: Attribute = attribute!("portcullis.user");
    /// The user as whom the request acts by impersonation.
    pub const IMPERSONATED_USER: Attribute = attribute!("portcullis.impersonated_user");
    /// The gateway's decision, as in the access log.
    pub const DECISION: Attribute = attribute!("portcullis.decision");
    /// Its reason.
    pub const REASON: Attribute = attribute!("portcullis.reason");
    /// Milliseconds that the request waited for TokenReviews and SubjectAccessReviews.
    pub const REVIEW_WAIT: Attribute = attribute!("portcullis.review_wait_ms");

    /// Envoy's attribute of the client's `User-Agent`, if that is longer than a value may be: cut.
    pub const USER_AGENT: Attribute = attribute!("user_agent");
    /// Envoy's attribute of a gRPC request's path: without its query.
    pub const GRPC_PATH: Attribute = attribute!("grpc.path");
    /// Envoy's attribute of a gRPC request's `Content-Type`, if that is longer than a value may be: cut.
    pub const GRPC_CONTENT_TYPE: Attribute = attribute!("grpc.content_type");
    /// Envoy's attribute of a gRPC request's `grpc-timeout`, if that is longer than a value may be: cut.
    pub const GRPC_TIMEOUT: Attribute = attribute!("grpc.timeout");
    /// Attributes that Envoy writes when a span ends, in place of any that are there. They reach custom tags by filter state, also from
    /// the dynamic module.
    pub const OF_ENVOY: [Attribute; 4] = [USER_AGENT, GRPC_PATH, GRPC_CONTENT_TYPE, GRPC_TIMEOUT];

    /// How many questions a span about waiting for reviews is about.
    pub const REVIEWS: &str = "portcullis.reviews";

    /// All attributes of a request's span.
    pub const ALL: [Attribute; 21] = [
        PATH,
        CLUSTER,
        VERB,
        API_GROUP,
        API_VERSION,
        RESOURCE,
        SUBRESOURCE,
        NAMESPACE,
        NAME,
        POLICY,
        SCHEMA,
        SERVER_GROUP,
        USER,
        IMPERSONATED_USER,
        DECISION,
        REASON,
        REVIEW_WAIT,
        USER_AGENT,
        GRPC_PATH,
        GRPC_CONTENT_TYPE,
        GRPC_TIMEOUT,
    ];
}

/// The header that names a trace and a span of it (W3C Trace Context).
pub const TRACEPARENT: &str = "traceparent";

/// Headers by which a client names its trace, and what goes with it.
pub const TRACE_CONTEXT: [&str; 3] = [TRACEPARENT, "tracestate", "baggage"];

/// Metadata of an endpoint, written by the control plane: under the key [`HOST_SERVER`], which server it is.
pub const HOST: &str = "portcullis";

/// The key in [`HOST`].
pub const HOST_SERVER: &str = "server";

/// Environment variable, set by the agent that runs Envoy: commands come to the module by standard input, a socket by which it
/// answers.
pub const AGENT_VARIABLE: &str = "PORTCULLIS_AGENT";

/// A command, a line with milliseconds behind it: connections of long-running requests are sent away, and watches end
/// one after the other within that time.
pub const AGENT_DRAIN: &str = "leave";

/// A command, a line with a number behind it. The answer is a line of the word, the number and a length in bytes, and that many
/// bytes behind the line: [`crate::activity::Activity`] as JSON. A module that knows the command says so by the word alone, once.
pub const AGENT_ACTIVITY: &str = "activity";

/// A command with a number, answered as [`AGENT_ACTIVITY`] is and under the same word: the use of limits that gateways share.
pub const AGENT_LIMITS: &str = "limits";

/// A command with a message in base64, which is not answered: the parts of these limits that the process has from now on.
pub const AGENT_PARTS: &str = "parts";

/// Envoy puts it before the names of the filter's metrics, `envoy_portcullis_requests_total`.
pub const METRICS_NAMESPACE: &str = "portcullis";

/// Prefix of the response code details of every reply that the filter itself makes. Such a reply already carries a
/// `Status` body, which Envoy's `local_reply_config` must leave alone.
pub const REPLY_DETAILS_PREFIX: &str = "portcullis_";

/// Headers with these prefixes are dropped before the first route match, as a second line behind the filter: those that an
/// upstream could believe and that Envoy itself never writes. Each prefix costs 1,000 instructions a request.
pub const EARLY_REMOVED_PREFIXES: [&str; 1] = ["x-remote-"];

/// Names that differ for portcullis.wasm.
pub mod wasm {
    /// Envoy's prefix of filter state that a wasm filter writes: `x` is `wasm.x`.
    pub const FILTER_STATE_PREFIX: &str = "wasm.";

    /// Metadata of a virtual host, written by the control plane: under the key [`CONFIG_KEY`] the text of the cluster's
    /// [`crate::ClusterConfig`].
    pub const METADATA: &str = "portcullis";

    /// The key of the configuration's text.
    pub const CONFIG_KEY: &str = "config";

    /// The key of the text's SHA-256 in lower-case hexadecimal digits. May be left out; then every request reads the text.
    pub const DIGEST_KEY: &str = "digest";

    /// The attribute of the metadata, followed by NUL and a key. An empty text under the digest itself lets a VM ask whether the
    /// virtual host is still the one that it knows: what is empty need not be copied.
    pub const OF_METADATA: &str = "xds\0virtual_host_metadata\0filter_metadata\0portcullis";

    /// The attribute of the text, its parts separated by NUL.
    pub const CONFIG: &str = "xds\0virtual_host_metadata\0filter_metadata\0portcullis\0config";

    /// The attribute of the digest, likewise.
    pub const DIGEST: &str = "xds\0virtual_host_metadata\0filter_metadata\0portcullis\0digest";

    /// The attribute of which server answers ([`super::HOST`]).
    pub const SERVER: &str = "xds\0upstream_host_metadata\0filter_metadata\0portcullis\0server";

    /// Filter state, written by the filter alone at the end of a request in the access log: members of a JSON object.
    pub const LOG_MEMBERS: &str = "portcullis.log";
}
