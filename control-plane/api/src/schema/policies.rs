//! Definitions of policies that are attached to other objects. Rules of their fields are those of an `UpstreamCluster`'s.

use serde_json::{Value, json};

use super::rules::{self, cel};
use super::{aliases, derive, rules_at, status, token_rules};
use crate::bounds::MAX_TARGETS;
use crate::kind::PolicyKind;
use crate::types::{AttachedPolicySpec, DispatchFields, FlowControlFields, IdentityFields};

/// The two places of a policy's fields.
const PLACES: [&str; 2] = ["defaults", "overrides"];

/// The schema of `spec`; its descriptions are Markdown.
pub(super) fn policy_spec(kind: PolicyKind) -> Value {
    let mut spec = match kind {
        PolicyKind::Dispatch => derive::shape::<AttachedPolicySpec<DispatchFields>>(),
        PolicyKind::FlowControl => derive::shape::<AttachedPolicySpec<FlowControlFields>>(),
        PolicyKind::UpstreamIdentity => derive::shape::<AttachedPolicySpec<IdentityFields>>(),
    };
    let own = targets().into_iter().map(|(path, keywords)| (path.to_owned(), keywords));
    let of_clusters: Vec<_> = rules::rules().into_iter().chain(token_rules::token_rules()).collect();
    let moved = PLACES.into_iter().flat_map(|place| {
        let moved = move |(path, keywords): &(&str, Value)| Some((moved(place, path, kind)?, keywords.clone()));
        of_clusters.iter().filter_map(moved).collect::<Vec<_>>()
    });
    rules_at(&mut spec, own.chain(moved));
    for place in PLACES {
        aliases::add_below(&mut spec, place);
    }
    spec
}

/// The schema of the whole object; its descriptions are Markdown.
pub(super) fn policy_schema(kind: PolicyKind) -> Value {
    let purpose = match kind {
        PolicyKind::Dispatch => "Dispatch policies",
        PolicyKind::FlowControl => "Limits",
        PolicyKind::UpstreamIdentity => "Authentication of users, and their identity at the servers",
    };
    json!({
        "type": "object",
        "description": format!("{purpose} for the objects that it is attached to."),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of this schema."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object"},
            "spec": policy_spec(kind),
            "status": status::policy_status(),
        },
    })
}

fn targets() -> Vec<(&'static str, Value)> {
    let one = cel("has(self.defaults) != has(self.overrides)", "exactly one of defaults and overrides is required", "");
    let group = cel(
        "self.group == (self.kind == 'UpstreamCluster' ? 'proxy.kubegateway.io' : self.kind == 'KubernetesUpstream' ? 'portcullis.dev' : 'gateway.networking.k8s.io')",
        "is not that of the kind",
        ".group",
    );
    let section = cel("!has(self.sectionName) || self.kind == 'Gateway'", "is for a Gateway only", ".sectionName");
    vec![
        ("", json!({"required": ["targetRefs"], "x-kubernetes-validations": [one]})),
        ("targetRefs", json!({"minItems": 1, "maxItems": MAX_TARGETS})),
        ("targetRefs[]", json!({"required": ["group", "kind", "name"], "x-kubernetes-validations": [group, section]})),
        ("targetRefs[].kind", json!({"enum": ["UpstreamCluster", "KubernetesUpstream", "Gateway", "HTTPRoute"]})),
        ("targetRefs[].name", json!({"minLength": 1, "maxLength": 253})),
        ("targetRefs[].sectionName", json!({"minLength": 1, "maxLength": 253})),
    ]
}

/// The path of a field of an `UpstreamCluster` in a policy that has this field.
fn moved(place: &str, path: &str, kind: PolicyKind) -> Option<String> {
    let field = path.strip_prefix("portcullis.").unwrap_or(path);
    let is_ours = path != field;
    let name = field.split(['.', '[']).next().unwrap_or_default();
    kind.fields().iter().any(|(known, ours)| *known == name && *ours == is_ours).then(|| format!("{place}.{field}"))
}
