use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    CredentialCacheSpec, DispatchPolicy, FairQueue, FlowControl, ObjectMeta, PortcullisSpec, RequestHeaderSpec,
    TokensSpec, UpstreamClusterSpec,
};
use crate::kind::PolicyKind;

/// The fields of a kind of policies.
pub(crate) trait PolicyFields: DeserializeOwned + Default {
    /// The kind.
    const KIND: PolicyKind;

    /// An `UpstreamCluster` that has them, and nothing else.
    fn into_spec(self) -> UpstreamClusterSpec;
}

/// A policy of its own that is attached to other objects, as GEP-713 of the Gateway API has it. `T` are its fields, which an
/// `UpstreamCluster` has by the same names.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttachedPolicy<T> {
    /// [`crate::POLICY_API_VERSION`].
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// The specification.
    #[serde(default)]
    pub spec: AttachedPolicySpec<T>,
    /// Ignored.
    #[serde(default)]
    pub status: Option<Value>,
}

/// The specification of a policy: its targets, and its fields as either `defaults` or `overrides`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttachedPolicySpec<T> {
    /// The objects that it is attached to, of its own namespace or cluster-scoped.
    #[serde(default)]
    pub target_refs: Vec<PolicyTarget>,
    /// Fields that hold where nothing below the target says otherwise: neither a policy nor the `UpstreamCluster` itself.
    pub defaults: Option<T>,
    /// Fields that hold whatever policies below the target and the `UpstreamCluster` itself say. A policy of another namespace than
    /// the control plane's can only tighten what holds without it, and has these.
    pub overrides: Option<T>,
}

/// An object that a policy is attached to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PolicyTarget {
    /// The API group: `proxy.kubegateway.io` of an `UpstreamCluster`, `portcullis.dev` of a `KubernetesUpstream`,
    /// `gateway.networking.k8s.io` of the others.
    pub group: String,
    /// The kind: `UpstreamCluster`, `KubernetesUpstream`, `Gateway` or `HTTPRoute`.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The name of a listener, of a `Gateway` only; all of its listeners if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

/// The fields of a `DispatchPolicy` object.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct DispatchFields {
    /// Policies that select servers for requests; the first match wins.
    pub dispatch_policies: Vec<DispatchPolicy>,
}

/// The fields of a `FlowControlPolicy`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct FlowControlFields {
    /// Limits, which dispatch policies refer to by name.
    pub flow_control: FlowControl,
    /// Limits of requests at a time beyond which requests wait their turn.
    pub fair_queues: Vec<FairQueue>,
}

/// The fields of an `UpstreamIdentityPolicy`: those of `spec.portcullis` of an `UpstreamCluster` that say who a user is and how the
/// servers learn it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct IdentityFields {
    /// Forwards requests without a credential as anonymous requests, which the servers authorize; true if unset.
    pub allow_anonymous: Option<bool>,
    /// The time of verifying a client certificate: `Request` (if empty) or `Handshake`.
    pub client_certificate_verification: String,
    /// The way in which servers get the user of a request: `Impersonate` (if empty) or `RequestHeader`.
    pub upstream_identity: String,
    /// Options of `upstreamIdentity: RequestHeader`.
    pub request_header: RequestHeaderSpec,
    /// Lifetimes of the servers' answers about credentials.
    pub credential_cache: CredentialCacheSpec,
    /// Tokens that the gateway verifies itself, without asking the servers.
    pub tokens: TokensSpec,
    /// Keys of extra attributes that users have in addition to the default ones.
    pub forwarded_extras: Vec<String>,
    /// Writes the client's address, the request's id and the impersonating user into the servers' audit logs; false if unset.
    pub audit_attribution: bool,
    /// Whether `Impersonate-*` headers of clients also count by grants of constrained impersonation; false if unset.
    pub constrained_impersonation: bool,
}

impl<T> Default for AttachedPolicySpec<T> {
    fn default() -> Self {
        Self { target_refs: Vec::new(), defaults: None, overrides: None }
    }
}

impl PolicyFields for DispatchFields {
    const KIND: PolicyKind = PolicyKind::Dispatch;

    fn into_spec(self) -> UpstreamClusterSpec {
        UpstreamClusterSpec { dispatch_policies: self.dispatch_policies, ..UpstreamClusterSpec::default() }
    }
}

impl PolicyFields for FlowControlFields {
    const KIND: PolicyKind = PolicyKind::FlowControl;

    fn into_spec(self) -> UpstreamClusterSpec {
        let portcullis = PortcullisSpec { fair_queues: self.fair_queues, ..PortcullisSpec::default() };
        UpstreamClusterSpec { flow_control: self.flow_control, portcullis, ..UpstreamClusterSpec::default() }
    }
}

impl PolicyFields for IdentityFields {
    const KIND: PolicyKind = PolicyKind::UpstreamIdentity;

    fn into_spec(self) -> UpstreamClusterSpec {
        let portcullis = PortcullisSpec {
            allow_anonymous: self.allow_anonymous,
            client_certificate_verification: self.client_certificate_verification,
            upstream_identity: self.upstream_identity,
            request_header: self.request_header,
            credential_cache: self.credential_cache,
            tokens: self.tokens,
            forwarded_extras: self.forwarded_extras,
            audit_attribution: self.audit_attribution,
            constrained_impersonation: self.constrained_impersonation,
            ..PortcullisSpec::default()
        };
        UpstreamClusterSpec { portcullis, ..UpstreamClusterSpec::default() }
    }
}
