use std::fmt;

use serde_json::Value;

use crate::decode_errors::distance;
use crate::problem::Problem;

/// `apiVersion` of an `UpstreamCluster`.
pub const CLUSTER_API_VERSION: &str = "proxy.kubegateway.io/v1alpha1";
/// `kind` of an `UpstreamCluster`.
pub const CLUSTER_KIND: &str = "UpstreamCluster";
/// `apiVersion` of `GatewaySettings`.
pub const SETTINGS_API_VERSION: &str = "portcullis.dev/v1alpha1";
/// `kind` of `GatewaySettings`.
pub const SETTINGS_KIND: &str = "GatewaySettings";
/// `apiVersion` of an `Instance`.
pub const INSTANCE_API_VERSION: &str = SETTINGS_API_VERSION;
/// `kind` of an `Instance`.
pub const INSTANCE_KIND: &str = "Instance";
/// `apiVersion` of a `KubernetesUpstream`.
pub const UPSTREAM_API_VERSION: &str = SETTINGS_API_VERSION;
/// `kind` of a `KubernetesUpstream`.
pub const UPSTREAM_KIND: &str = "KubernetesUpstream";

/// `apiVersion` of policies.
pub const POLICY_API_VERSION: &str = "portcullis.dev/v1alpha1";

/// The kinds of policies that are attached to other objects. Of each one stage of a gateway's treatment of a request results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyKind {
    /// `DispatchPolicy`: which server a request goes to, and whether to any.
    Dispatch,
    /// `FlowControlPolicy`: limits.
    FlowControl,
    /// `UpstreamIdentityPolicy`: who a user is, and how servers learn it.
    UpstreamIdentity,
}

impl PolicyKind {
    /// All kinds.
    pub const ALL: [PolicyKind; 3] = [PolicyKind::Dispatch, PolicyKind::FlowControl, PolicyKind::UpstreamIdentity];

    /// As objects name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyKind::Dispatch => "DispatchPolicy",
            PolicyKind::FlowControl => "FlowControlPolicy",
            PolicyKind::UpstreamIdentity => "UpstreamIdentityPolicy",
        }
    }

    /// The name of the resource in paths and rights.
    pub const fn plural(self) -> &'static str {
        match self {
            PolicyKind::Dispatch => "dispatchpolicies",
            PolicyKind::FlowControl => "flowcontrolpolicies",
            PolicyKind::UpstreamIdentity => "upstreamidentitypolicies",
        }
    }

    /// The fields of its policies, each with whether it is below `spec.portcullis` of an `UpstreamCluster`, and not below `spec`.
    pub(crate) const fn fields(self) -> &'static [(&'static str, bool)] {
        match self {
            PolicyKind::Dispatch => &[("dispatchPolicies", false)],
            PolicyKind::FlowControl => &[("flowControl", false), ("fairQueues", true)],
            PolicyKind::UpstreamIdentity => &[
                ("allowAnonymous", true),
                ("clientCertificateVerification", true),
                ("upstreamIdentity", true),
                ("requestHeader", true),
                ("credentialCache", true),
                ("tokens", true),
                ("forwardedExtras", true),
                ("auditAttribution", true),
                ("constrainedImpersonation", true),
            ],
        }
    }

    /// The condition of an object that is affected by a policy of this kind.
    pub const fn affected(self) -> &'static str {
        match self {
            PolicyKind::Dispatch => "portcullis.dev/DispatchPolicyAffected",
            PolicyKind::FlowControl => "portcullis.dev/FlowControlPolicyAffected",
            PolicyKind::UpstreamIdentity => "portcullis.dev/UpstreamIdentityPolicyAffected",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Kinds of KubeGateway's own program. It writes them itself, so that exports of its objects have them.
const KUBEGATEWAY_KINDS: [&str; 3] = ["RateLimitCondition", "RateLimitAcquire", "RateLimitServerInfo"];

/// Kind of a document, by its `apiVersion` and `kind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// An `UpstreamCluster`, or a misspelt one, which [`crate::parse_cluster`] refuses.
    UpstreamCluster,
    /// `GatewaySettings`, or misspelt ones, which [`crate::parse_settings`] refuses: a gateway must not go on with the
    /// defaults in the place of settings that protect something.
    GatewaySettings,
    /// An `Instance`, or a misspelt one, which [`crate::parse_instance`] refuses.
    Instance,
    /// A `KubernetesUpstream`, or a misspelt one, which [`crate::parse_upstream`] refuses.
    KubernetesUpstream,
    /// A policy, or a misspelt one of our API group, which [`crate::check_policy`] refuses.
    Policy(PolicyKind),
    /// An object that is refused: its API group is ours and its kind is not, or it has no kind.
    Unknown(Problem),
    /// An object of another API group.
    Foreign {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
}

/// The kind of a document, by its `apiVersion` and `kind`.
pub fn kind_of(document: &Value) -> ObjectKind {
    let (api_version, kind) = names_of(document);
    let group = group_of(api_version);
    let is_ours = [CLUSTER_API_VERSION, SETTINGS_API_VERSION].iter().any(|known| group_of(known) == group);
    let is_like = |known: &str| (is_ours || group.is_empty()) && is_close(kind, known);
    if kind == SETTINGS_KIND || is_like(SETTINGS_KIND) {
        return ObjectKind::GatewaySettings;
    }
    if is_like(CLUSTER_KIND) {
        return ObjectKind::UpstreamCluster;
    }
    // The kind of other groups, too.
    if is_like(INSTANCE_KIND) {
        return ObjectKind::Instance;
    }
    if is_like(UPSTREAM_KIND) {
        return ObjectKind::KubernetesUpstream;
    }
    if group == group_of(POLICY_API_VERSION)
        && let Some(policy) = PolicyKind::ALL.into_iter().find(|known| is_close(kind, known.as_str()))
    {
        return ObjectKind::Policy(policy);
    }
    if kind.is_empty() || api_version.is_empty() {
        let field = if kind.is_empty() { "kind" } else { "apiVersion" };
        let hint = format!("{CLUSTER_KIND} is of {CLUSTER_API_VERSION}, {SETTINGS_KIND} of {SETTINGS_API_VERSION}");
        return ObjectKind::Unknown(Problem::new(field, "is required").hint(hint));
    }
    if kind == CLUSTER_KIND {
        let problem = misnamed(document, CLUSTER_API_VERSION, CLUSTER_KIND);
        return problem.map_or(ObjectKind::UpstreamCluster, ObjectKind::Unknown);
    }
    if is_ours && !KUBEGATEWAY_KINDS.contains(&kind) {
        let problem = Problem::new("kind", format!("{group} has no kind {kind}"));
        return ObjectKind::Unknown(
            problem.hint(format!("did you mean {CLUSTER_KIND}, {SETTINGS_KIND} or {INSTANCE_KIND}?")),
        );
    }
    ObjectKind::Foreign { api_version: api_version.to_owned(), kind: kind.to_owned() }
}

/// Why a document is no `UpstreamCluster`, by its `apiVersion` and `kind`.
pub(crate) fn cluster_misnamed(document: &Value) -> Option<Problem> {
    misnamed(document, CLUSTER_API_VERSION, CLUSTER_KIND)
}

/// Why a document is no `GatewaySettings`, by its `apiVersion` and `kind`.
pub(crate) fn settings_misnamed(document: &Value) -> Option<Problem> {
    misnamed(document, SETTINGS_API_VERSION, SETTINGS_KIND)
}

/// Why a document is no `Instance`, by its `apiVersion` and `kind`.
pub(crate) fn instance_misnamed(document: &Value) -> Option<Problem> {
    misnamed(document, INSTANCE_API_VERSION, INSTANCE_KIND)
}

/// Why a document is no `KubernetesUpstream`, by its `apiVersion` and `kind`.
pub(crate) fn upstream_misnamed(document: &Value) -> Option<Problem> {
    misnamed(document, UPSTREAM_API_VERSION, UPSTREAM_KIND)
}

/// Why a document is no policy of a kind, by its `apiVersion` and `kind`.
pub(crate) fn policy_misnamed(document: &Value, kind: PolicyKind) -> Option<Problem> {
    misnamed(document, POLICY_API_VERSION, kind.as_str())
}

fn misnamed(document: &Value, known_version: &str, known_kind: &str) -> Option<Problem> {
    let (api_version, kind) = names_of(document);
    if kind != known_kind {
        let problem = Problem::new("kind", format!("there is no kind {kind:?}"));
        return Some(problem.hint(format!("did you mean {known_kind}?")));
    }
    if api_version != known_version {
        let problem = Problem::new("apiVersion", format!("{kind} has no apiVersion {api_version:?}"));
        return Some(problem.hint(format!("did you mean {known_version}?")));
    }
    None
}

fn names_of(document: &Value) -> (&str, &str) {
    let text = |field| document.get(field).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion"), text("kind"))
}

/// The API group; empty for the core group and where there is no `apiVersion`.
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map(|(group, _)| group).unwrap_or_default()
}

/// Whether a kind is a known one with a typo in it.
fn is_close(kind: &str, known: &str) -> bool {
    !kind.is_empty() && kind.len() <= 2 * known.len() && distance(kind, known) <= 1 + known.len() / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(api_version: &str, kind: &str) -> ObjectKind {
        kind_of(&json!({"apiVersion": api_version, "kind": kind}))
    }

    #[test]
    fn kinds_are_told_apart() {
        assert_eq!(kind(CLUSTER_API_VERSION, CLUSTER_KIND), ObjectKind::UpstreamCluster);
        assert_eq!(kind(SETTINGS_API_VERSION, SETTINGS_KIND), ObjectKind::GatewaySettings);
        assert_eq!(kind(INSTANCE_API_VERSION, INSTANCE_KIND), ObjectKind::Instance);
        assert_eq!(kind(UPSTREAM_API_VERSION, UPSTREAM_KIND), ObjectKind::KubernetesUpstream);
        assert_eq!(kind(UPSTREAM_API_VERSION, "KubernetesUpstreams"), ObjectKind::KubernetesUpstream);
        for policy in PolicyKind::ALL {
            assert_eq!(kind(POLICY_API_VERSION, policy.as_str()), ObjectKind::Policy(policy));
            assert!(matches!(kind("example.com/v1", policy.as_str()), ObjectKind::Foreign { .. }), "{policy}");
        }
        for foreign in [
            ("sql.example.com/v1", INSTANCE_KIND),
            ("example.com/v1", UPSTREAM_KIND),
            ("v1", "Secret"),
            ("portcullis.dev.example.com/v1", "Gate"),
            ("apps/v1", "Deployment"),
        ] {
            assert!(matches!(kind(foreign.0, foreign.1), ObjectKind::Foreign { .. }), "{foreign:?}");
        }
        for theirs in KUBEGATEWAY_KINDS {
            assert!(matches!(kind(CLUSTER_API_VERSION, theirs), ObjectKind::Foreign { .. }), "{theirs}");
        }
    }

    #[test]
    fn misspelt_objects_are_refused_and_never_ignored() {
        for (api_version, written) in [
            (SETTINGS_API_VERSION, "GatewaySetting"),
            (SETTINGS_API_VERSION, "gatewaysettings"),
            ("portcullis.dev/v1", SETTINGS_KIND),
            ("portculis.dev/v1alpha1", SETTINGS_KIND),
            (CLUSTER_API_VERSION, SETTINGS_KIND),
            ("", SETTINGS_KIND),
        ] {
            assert_eq!(kind(api_version, written), ObjectKind::GatewaySettings, "{api_version} {written}");
            let document = json!({"apiVersion": api_version, "kind": written, "metadata": {"name": "a"}});
            let problem = crate::parse_settings(&document).unwrap_err();
            assert!(problem.hint.unwrap().starts_with("did you mean "), "{api_version} {written}");
        }
        for (api_version, written) in
            [(CLUSTER_API_VERSION, "UpstreamClusters"), ("proxy.kubegateway.io/v2", CLUSTER_KIND)]
        {
            assert_eq!(kind(api_version, written), ObjectKind::UpstreamCluster, "{api_version} {written}");
            let document = json!({"apiVersion": api_version, "kind": written, "metadata": {"name": "a"}});
            assert!(crate::parse_cluster(&document).is_err(), "{api_version} {written}");
        }
        for (api_version, written) in [
            (INSTANCE_API_VERSION, "Instances"),
            (INSTANCE_API_VERSION, "instance"),
            ("portcullis.dev/v1", INSTANCE_KIND),
        ] {
            assert_eq!(kind(api_version, written), ObjectKind::Instance, "{api_version} {written}");
            let document = json!({"apiVersion": api_version, "kind": written, "metadata": {"name": "a"}});
            assert!(crate::parse_instance(&document).is_err(), "{api_version} {written}");
        }
        for (api_version, written) in
            [("portcullis.dev/v1alpha1", "Gate"), ("example.com/v1", CLUSTER_KIND), ("", "Pod"), ("v1", ""), ("", "")]
        {
            assert!(matches!(kind(api_version, written), ObjectKind::Unknown(_)), "{api_version} {written}");
        }
        assert!(matches!(kind_of(&json!([])), ObjectKind::Unknown(_)));
    }
}
