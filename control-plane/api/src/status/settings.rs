use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Condition;

/// The `status` of a `GatewaySettings`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SettingsStatus {
    /// The `metadata.generation` that the conditions are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The control plane that wrote the status: its namespace and the name of its Lease.
    pub control_plane: String,
    /// `Accepted` alone.
    pub conditions: Vec<Condition>,
    /// The fields of the accepted version that are not set, with the values that hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<FilledDefault>,
}

/// A field that is not set, and the value that holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilledDefault {
    /// The field's path.
    pub field: String,
    /// The value, as it would be written.
    pub value: String,
}

/// Defaults of `GatewaySettings` that are more than their types' own. The page of the reference has the same, and a test there
/// compares them with the check.
const DEFAULTS: [(&str, &str); 25] = [
    ("spec.accessLog.destination", "stdout"),
    ("spec.clientCANames", "Sent"),
    ("spec.instance", "portcullis"),
    ("spec.limits.maxConcurrentStreams", "100"),
    ("spec.limits.maxConnections", "65536"),
    ("spec.limits.maxPendingRequests", "65536"),
    ("spec.limits.maxRequests", "65536"),
    ("spec.rebalance.connectionsPerSecond", "10"),
    ("spec.listener.address", "0.0.0.0"),
    ("spec.listener.port", "6443"),
    ("spec.listener.tls.minimumVersion", "TLSv1_2"),
    ("spec.listener.tunnel.header", "X-Gardener-Destination"),
    ("spec.metrics.users.k", "100"),
    ("spec.metrics.users.mode", "Off"),
    ("spec.wildcardSubdomains", "Reserved"),
    ("spec.protectedIdentities.action", "Refuse"),
    ("spec.requestHeaderNames.extraPrefix", "X-Remote-Extra-"),
    ("spec.requestHeaderNames.group", "X-Remote-Group"),
    ("spec.requestHeaderNames.uid", "X-Remote-Uid"),
    ("spec.requestHeaderNames.user", "X-Remote-User"),
    ("spec.secondaryPools", "Eager"),
    ("spec.tracing.parents", "Ignored"),
    ("spec.tracing.protocol", "GRPC"),
    ("spec.tracing.users", "Omitted"),
    ("spec.wasmModulePath", "/usr/lib/portcullis/portcullis.wasm"),
];

/// Objects without which the fields in them have no default.
const OPTIONAL: [&str; 3] = ["spec.rebalance", "spec.listener.tunnel", "spec.tracing"];

/// Fields for which an empty text is not set.
const UNSET_IF_EMPTY: [&str; 1] = ["spec.protectedIdentities.action"];

/// The defaults that hold of a `GatewaySettings` document, in the order of their fields: at most one of each field.
pub fn filled_defaults(document: &Value) -> Vec<FilledDefault> {
    let at = |path: &str| {
        path.split('.').try_fold(document, |object, field| object.get(field)).filter(|value| !value.is_null())
    };
    let is_unset = |path: &str| match at(path) {
        Some(value) => UNSET_IF_EMPTY.contains(&path) && value == "",
        None => true,
    };
    let holds = |path: &str| {
        let within =
            OPTIONAL.iter().find(|object| path.strip_prefix(*object).is_some_and(|rest| rest.starts_with('.')));
        within.is_none_or(|object| at(object).is_some())
    };
    let mut filled: Vec<FilledDefault> = DEFAULTS
        .iter()
        .filter(|(path, _)| holds(path) && is_unset(path))
        .map(|(path, value)| FilledDefault { field: (*path).to_owned(), value: (*value).to_owned() })
        .collect();
    filled.sort_by(|one, other| one.field.cmp(&other.field));
    filled
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(spec: Value) -> Vec<String> {
        filled_defaults(&json!({"spec": spec})).into_iter().map(|one| format!("{}={}", one.field, one.value)).collect()
    }

    #[test]
    fn defaults_of_fields_that_are_not_set_are_told() {
        let all = filled(json!({}));
        assert_eq!(all.len(), 20, "those of objects that are not there do not hold: {all:?}");
        assert!(all.contains(&"spec.listener.port=6443".to_owned()) && all.is_sorted());
        let set = json!({
            "instance": "edge", "listener": {"port": 443, "address": null, "tunnel": {"port": 8443}},
            "protectedIdentities": {"action": ""}, "requestHeaderNames": {"uid": ""},
        });
        let some = filled(set);
        for (field, is_told) in [
            ("spec.instance=", false),
            ("spec.listener.port=", false),
            ("spec.listener.address=0.0.0.0", true),
            ("spec.listener.tunnel.header=X-Gardener-Destination", true),
            ("spec.protectedIdentities.action=Refuse", true),
            // Empty, it is not sent.
            ("spec.requestHeaderNames.uid=", false),
            ("spec.rebalance", false),
        ] {
            assert_eq!(some.iter().any(|one| one.starts_with(field)), is_told, "{field}: {some:?}");
        }
        assert_eq!(filled_defaults(&Value::Null).len(), 20);
    }
}
