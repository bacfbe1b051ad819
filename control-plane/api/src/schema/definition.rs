use serde_json::{Value, json};

use super::derive::BYTES;
use super::rules::cel;
use crate::kind::{CLUSTER_API_VERSION, CLUSTER_KIND};

const PLURAL: &str = "upstreamclusters";

/// The CustomResourceDefinition of `UpstreamCluster`, ready to be applied. It accepts every object that
/// [`crate::check_cluster`] accepts, and refuses some of those that are always wrong.
pub fn cluster_definition() -> Value {
    let (group, version) = CLUSTER_API_VERSION.split_once('/').unwrap_or_default();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{group}")},
        "spec": {
            "group": group,
            "names": {
                "kind": CLUSTER_KIND,
                "listKind": format!("{CLUSTER_KIND}List"),
                "plural": PLURAL,
                "singular": CLUSTER_KIND.to_lowercase(),
                "shortNames": ["uc"],
                "categories": ["portcullis"],
            },
            "scope": "Cluster",
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns(),
                "schema": {"openAPIV3Schema": for_server(schema())},
            }],
        },
    })
}

fn columns() -> Value {
    let condition = |kind: &str, field: &str| format!(".status.conditions[?(@.type==\"{kind}\")].{field}");
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
