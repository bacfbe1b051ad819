//! Fields that differ between two objects, so that no change goes unseen.

use serde_json::{Map, Value, json};

/// A field that differs. Values that may be secret, or are long, are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangedField {
    pub(super) path: String,
    /// As JSON; `None` if it is left out, or the field is not there.
    pub(super) then: Option<String>,
    pub(super) now: Option<String>,
}

/// The longest value that is shown.
const LONGEST: usize = 120;
/// Parts of names of fields whose values are not shown, in lower case.
const HIDDEN: [&str; 6] = ["data", "token", "secret", "password", "certificate", "key"];
const ANNOTATIONS: &str = "metadata.annotations.";
/// Starts of annotations that are no others' business, so that their values are shown.
const KNOWN_ANNOTATIONS: [&str; 2] = ["portcullis.dev/", "proxy.kubegateway.io/"];
/// Fields that are compared by what they do. That they are written otherwise is a line each.
const COMPARED: [&str; 3] = ["spec.dispatchPolicies", "spec.portcullis.access", "spec.access"];

/// The differences between two objects, without what the server that stores them writes.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<ChangedField> {
    let mut changes = Vec::new();
    compare("", &written(old), &written(new), &mut changes);
    changes
}

/// The object as its author wrote it.
fn written(object: &Value) -> Value {
    let mut object = object.clone();
    if let Value::Object(fields) = &mut object {
        fields.remove("status");
        let metadata = fields.get("metadata").cloned().unwrap_or_default();
        let kept = ["labels", "annotations"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), metadata.get(name)?.clone())));
        let mut kept: Map<String, Value> = kept.collect();
        if let Some(Value::Object(annotations)) = kept.get_mut("annotations") {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
        fields.insert("metadata".to_owned(), Value::Object(kept));
    }
    object
}

fn compare(path: &str, old: &Value, new: &Value, changes: &mut Vec<ChangedField>) {
    if old == new || (is_nothing(old) && is_nothing(new)) {
        return;
    }
    let is_compared = COMPARED.contains(&path);
    // Fields below one that a side does not have are named one by one.
    let nothing = Value::Object(Map::new());
    let or_nothing = |one: &Value, other: &Value| one.is_null() && other.is_object();
    let (old, new) = match (or_nothing(old, new), or_nothing(new, old)) {
        (true, _) => (&nothing, new),
        (_, true) => (old, &nothing),
        _ => (old, new),
    };
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if !is_compared => {
            let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
            for name in names {
                let value = |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(&path, &value(old), &value(new), changes);
            }
        }
        (Value::Array(old), Value::Array(new)) if !is_compared && old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}[{at}]"), old, new, changes);
            }
        }
        _ => changes.push(ChangedField { path: path.to_owned(), then: shown(path, old), now: shown(path, new) }),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn shown(path: &str, value: &Value) -> Option<String> {
    let is_hidden = match path.strip_prefix(ANNOTATIONS) {
        Some(annotation) => !KNOWN_ANNOTATIONS.iter().any(|known| annotation.starts_with(known)),
        // All of them at once, where the other side has none or is no map.
        None if path == ANNOTATIONS.trim_end_matches('.') => true,
        None => HIDDEN.iter().any(|part| path.to_ascii_lowercase().contains(part)) || COMPARED.contains(&path),
    };
    let text = value.to_string();
    (!is_hidden && !value.is_null() && !has_hidden(value) && text.len() <= LONGEST).then_some(text)
}

fn has_hidden(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            HIDDEN.iter().any(|part| name.to_ascii_lowercase().contains(part)) || has_hidden(value)
        }),
        Value::Array(items) => items.iter().any(has_hidden),
        _ => false,
    }
}

impl ChangedField {
    pub(super) fn json(&self) -> Value {
        json!({"path": self.path, "then": self.then, "now": self.now})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_fields_are_named_without_secrets() {
        let profile = json!({"portcullis.dev/profile": "frozen", "example.com/token": "old"});
        let old = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "status": {}, "spec": {
            "flowControl": {"flowControlSchemas": [{"name": "a", "maxRequestsInflight": {"max": 10}}]},
            "clientConfig": {"bearerToken": "old"}, "servers": [{"endpoint": "https://a"}],
            "dispatchPolicies": [{}], "portcullis": {"upstreamIdentity": "", "healthCheck": {}}}});
        let new = json!({"metadata": {"name": "a", "resourceVersion": "2", "annotations": profile}, "spec": {
            "flowControl": {"flowControlSchemas": [{"name": "a", "maxRequestsInflight": {"max": 20}}]},
            "clientConfig": {"bearerToken": "new"}, "servers": [{"endpoint": "https://a"}, {"endpoint": "https://b"}],
            "dispatchPolicies": [{}, {}], "logging": {"mode": "on"}, "portcullis": {"upstreamIdentity": "RequestHeader"}}});
        let changes: Vec<String> = changes(&old, &new)
            .iter()
            .map(|one| {
                format!("{} {} {}", one.path, one.then.as_deref().unwrap_or("-"), one.now.as_deref().unwrap_or("-"))
            })
            .collect();
        let expected = [
            "metadata.annotations.example.com/token - -",
            "metadata.annotations.portcullis.dev/profile - \"frozen\"",
            "spec.clientConfig.bearerToken - -",
            "spec.dispatchPolicies - -",
            "spec.flowControl.flowControlSchemas[0].maxRequestsInflight.max 10 20",
            "spec.portcullis.upstreamIdentity \"\" \"RequestHeader\"",
            "spec.servers [{\"endpoint\":\"https://a\"}] [{\"endpoint\":\"https://a\"},{\"endpoint\":\"https://b\"}]",
            "spec.logging.mode - \"on\"",
        ];
        assert_eq!(changes, expected);
    }
}
