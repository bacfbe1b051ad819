use serde_json::{Value, json};

use super::derive::BYTES;
use super::instance_rules::name_rule;
use super::rules::cel;
use crate::kind::{
    CLUSTER_API_VERSION, CLUSTER_KIND, INSTANCE_API_VERSION, INSTANCE_KIND, POLICY_API_VERSION, PolicyKind,
    SETTINGS_API_VERSION, SETTINGS_KIND, UPSTREAM_API_VERSION, UPSTREAM_KIND,
};

/// A kind that a Kubernetes API stores.
struct StoredKind {
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    scope: Scope,
    columns: Value,
    /// Of the whole object; its descriptions are Markdown.
    schema: Value,
}

/// The scope of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Cluster,
    /// In namespaces.
    Namespaced,
}

/// The CustomResourceDefinition of `UpstreamCluster`, ready to be applied. It accepts every object that
/// [`crate::check_cluster`] accepts, and refuses some of those that are always wrong.
pub fn cluster_definition() -> Value {
    definition(StoredKind {
        api_version: CLUSTER_API_VERSION,
        kind: CLUSTER_KIND,
        plural: "upstreamclusters",
        short_names: &["uc"],
        scope: Scope::Cluster,
        columns: cluster_columns(),
        schema: schema(),
    })
}

/// The same of `GatewaySettings` and [`crate::check_settings`].
pub fn settings_definition() -> Value {
    definition(StoredKind {
        api_version: SETTINGS_API_VERSION,
        kind: SETTINGS_KIND,
        plural: "gatewaysettings",
        short_names: &[],
        scope: Scope::Cluster,
        columns: settings_columns(),
        schema: settings_schema(),
    })
}

/// The same of an `Instance` and [`crate::check_instance`].
pub fn instance_definition() -> Value {
    definition(StoredKind {
        api_version: INSTANCE_API_VERSION,
        kind: INSTANCE_KIND,
        plural: "instances",
        short_names: &[],
        scope: Scope::Cluster,
        columns: instance_columns(),
        schema: instance_schema(),
    })
}

/// The same of a `KubernetesUpstream` and [`crate::check_upstream`].
pub fn upstream_definition() -> Value {
    definition(StoredKind {
        api_version: UPSTREAM_API_VERSION,
        kind: UPSTREAM_KIND,
        plural: "kubernetesupstreams",
        short_names: &["ku"],
        scope: Scope::Namespaced,
        columns: upstream_columns(),
        schema: super::upstream::upstream_schema(),
    })
}

/// The same of a kind of policies and [`crate::check_policy`].
pub fn policy_definition(kind: PolicyKind) -> Value {
    definition(StoredKind {
        api_version: POLICY_API_VERSION,
        kind: kind.as_str(),
        plural: kind.plural(),
        short_names: &[],
        scope: Scope::Namespaced,
        columns: policy_columns(),
        schema: super::policies::policy_schema(kind),
    })
}

fn definition(stored: StoredKind) -> Value {
    let (group, version) = stored.api_version.split_once('/').unwrap_or_default();
    let mut names = json!({
        "kind": stored.kind,
        "listKind": format!("{}List", stored.kind),
        "plural": stored.plural,
        "singular": stored.kind.to_lowercase(),
        "shortNames": stored.short_names,
        "categories": ["portcullis"],
    });
    // The server drops an empty list, and a definition is compared with what was applied.
    if let (true, Some(names)) = (stored.short_names.is_empty(), names.as_object_mut()) {
        names.remove("shortNames");
    }
    let mut metadata = json!({"name": format!("{}.{group}", stored.plural)});
    // By it tools find the kinds of policies (GEP-713).
    let is_policy = PolicyKind::ALL.iter().any(|kind| kind.as_str() == stored.kind);
    if let (true, Some(fields)) = (is_policy, metadata.as_object_mut()) {
        fields.insert("labels".to_owned(), json!({"gateway.networking.k8s.io/policy": "Inherited"}));
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": group,
            "names": names,
            "scope": if stored.scope == Scope::Cluster { "Cluster" } else { "Namespaced" },
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": stored.columns,
                "schema": {"openAPIV3Schema": for_server(stored.schema)},
            }],
        },
    })
}

/// The path of a field of a condition.
fn condition(kind: &str, field: &str) -> String {
    format!(".status.conditions[?(@.type==\"{kind}\")].{field}")
}

fn cluster_columns() -> Value {
    let state = |kind: &str| json!({"name": kind, "type": "string", "jsonPath": condition(kind, "status")});
    json!([
        state("Accepted"),
        state("Programmed"),
        state("Ready"),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Reason", "type": "string", "priority": 1, "jsonPath": condition("Accepted", "reason")},
        {"name": "Message", "type": "string", "priority": 1, "jsonPath": condition("Accepted", "message")},
        {"name": "Gateways", "type": "string", "priority": 1, "jsonPath": condition("Programmed", "message")},
        {"name": "Endpoints", "type": "string", "priority": 1, "jsonPath": condition("Ready", "message")},
    ])
}

fn upstream_columns() -> Value {
    let state = |kind: &str| json!({"name": kind, "type": "string", "jsonPath": condition(kind, "status")});
    json!([
        state("Accepted"),
        state("ResolvedRefs"),
        state("Ready"),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Message", "type": "string", "priority": 1, "jsonPath": condition("Accepted", "message")},
        {"name": "Gateways", "type": "string", "priority": 1, "jsonPath": condition("Ready", "message")},
    ])
}

fn settings_columns() -> Value {
    json!([
        {"name": "Accepted", "type": "string", "jsonPath": condition("Accepted", "status")},
        {"name": "Reason", "type": "string", "jsonPath": condition("Accepted", "reason")},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Message", "type": "string", "priority": 1, "jsonPath": condition("Accepted", "message")},
        {"name": "Control-Plane", "type": "string", "priority": 1, "jsonPath": ".status.controlPlane"},
    ])
}

fn instance_columns() -> Value {
    let state = |kind: &str| json!({"name": kind, "type": "string", "jsonPath": condition(kind, "status")});
    let number =
        |name: &str, field: &str| json!({"name": name, "type": "integer", "jsonPath": format!(".status.{field}")});
    json!([
        state("Accepted"),
        state("Conflicted"),
        state("Ready"),
        number("Gateways", "gateways"),
        number("Clusters", "clusters"),
        number("Envoys", "envoys"),
        number("GatewayEnvoys", "gatewayEnvoys"),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Message", "type": "string", "priority": 1, "jsonPath": condition("Accepted", "message")},
        {"name": "Conflicts", "type": "string", "priority": 1, "jsonPath": condition("Conflicted", "message")},
    ])
}

/// Of the first target, as far as one column can say.
fn policy_columns() -> Value {
    let accepted = |field: &str| format!(".status.ancestors[0].conditions[?(@.type==\"Accepted\")].{field}");
    json!([
        {"name": "Target", "type": "string", "jsonPath": ".spec.targetRefs[0].name"},
        {"name": "Accepted", "type": "string", "jsonPath": accepted("status")},
        {"name": "Reason", "type": "string", "jsonPath": accepted("reason")},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Message", "type": "string", "priority": 1, "jsonPath": accepted("message")},
    ])
}

/// The schema of the whole object; descriptions are Markdown.
pub(super) fn schema() -> Value {
    // Kubernetes has seen to characters and length of the whole name.
    let name = "self.metadata.name.matches('^([a-z0-9-]{1,63}[.])*[a-z0-9-]{1,63}$') \
         && self.metadata.name.matches('[a-z-][a-z0-9-]*$')";
    let message = "metadata.name must be a DNS name, because it is the host name that is served";
    json!({
        "type": "object",
        "description": "A group of kube-apiservers behind one host name, which is the object's.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of this schema."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            "spec": super::with_renamed(super::spec()),
            "status": super::status::status(),
        },
        "x-kubernetes-validations": [cel(name, message, "")],
    })
}

/// The same of settings.
pub(super) fn settings_schema() -> Value {
    json!({
        "type": "object",
        "description": "The settings of a whole gateway. The flag --settings-name of a control plane says which object is used.",
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of this schema."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object"},
            "spec": super::settings_spec(),
            "status": super::status::settings_status(),
        },
    })
}

/// The same of an instance.
pub(super) fn instance_schema() -> Value {
    json!({
        "type": "object",
        "description": "Gateways and UpstreamClusters that are served apart from the others.",
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of this schema."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}},
            "spec": super::instance_spec(),
            "status": super::status::instance_status(),
        },
        "x-kubernetes-validations": [name_rule()],
    })
}

/// The schema for the server. Descriptions have no marks of code, for `kubectl explain`. Bytes are plain texts: where the
/// server checks their format, it prints a bad value in full, and that may be a key; and it refuses line breaks and empty
/// texts, which `check` reads.
fn for_server(schema: Value) -> Value {
    match schema {
        Value::Object(mut fields) => {
            let is_bytes = fields.get("format").is_some_and(|format| format == BYTES);
            fields.retain(|name, value| !(name == "format" && value == BYTES));
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('`', "");
                text.push_str(if is_bytes { " In base64." } else { "" });
            }
            Value::Object(fields.into_iter().map(|(name, value)| (name, for_server(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(for_server).collect()),
        other => other,
    }
}
