use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::schema::{cluster_shape, settings_shape};
use crate::shape::{has_list_for_object, mistakes};
use crate::{GatewaySettings, Problem, UpstreamCluster};

/// `apiVersion` of an `UpstreamCluster`.
pub const CLUSTER_API_VERSION: &str = "proxy.kubegateway.io/v1alpha1";
/// `kind` of an `UpstreamCluster`.
pub const CLUSTER_KIND: &str = "UpstreamCluster";
/// `apiVersion` of `GatewaySettings`.
pub const SETTINGS_API_VERSION: &str = "portcullis.dev/v1alpha1";
/// `kind` of `GatewaySettings`.
pub const SETTINGS_KIND: &str = "GatewaySettings";

/// A kind that can be read.
trait Kind: DeserializeOwned {
    /// What in it is an object.
    fn objects() -> &'static Value;
}

impl Kind for UpstreamCluster {
    fn objects() -> &'static Value {
        static OBJECTS: LazyLock<Value> = LazyLock::new(cluster_shape);
        &OBJECTS
    }
}

impl Kind for GatewaySettings {
    fn objects() -> &'static Value {
        static OBJECTS: LazyLock<Value> = LazyLock::new(settings_shape);
        &OBJECTS
    }
}

/// What a document is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// An `UpstreamCluster` of a version that is known.
    UpstreamCluster,
    /// `GatewaySettings` of a version that is known.
    GatewaySettings,
    /// One of our kinds in a version that is not known: refused, because nobody meant it to be ignored.
    UnknownVersion {
        /// What stands there.
        api_version: String,
        /// What stands there.
        kind: String,
    },
    /// Somebody else's.
    Foreign {
        /// What stands there.
        api_version: String,
        /// What stands there.
        kind: String,
    },
}

/// Tells what a document is, by its `apiVersion` and `kind`.
pub fn kind_of(document: &Value) -> ObjectKind {
    let text = |field| document.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let group = |known: &str| known.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
    match (api_version.as_str(), kind.as_str()) {
        (CLUSTER_API_VERSION, CLUSTER_KIND) => ObjectKind::UpstreamCluster,
        (SETTINGS_API_VERSION, SETTINGS_KIND) => ObjectKind::GatewaySettings,
        (version, CLUSTER_KIND) if version.starts_with(&group(CLUSTER_API_VERSION)) => {
            ObjectKind::UnknownVersion { api_version, kind }
        }
        (version, SETTINGS_KIND) if version.starts_with(&group(SETTINGS_API_VERSION)) => {
            ObjectKind::UnknownVersion { api_version, kind }
        }
        _ => ObjectKind::Foreign { api_version, kind },
    }
}

/// Reads the raw form of an `UpstreamCluster`. An unknown field is an error, so that a typo is told. The error is the
/// first that is found; [`cluster_mistakes`] finds all.
pub fn parse_cluster(document: &Value) -> Result<UpstreamCluster, Problem> {
    parse(document).map_err(|message| Problem::new("", message))
}

/// Reads the raw form of `GatewaySettings`. An unknown field is an error, so that a typo is told. The error is the first
/// that is found; [`settings_mistakes`] finds all.
pub fn parse_settings(document: &Value) -> Result<GatewaySettings, Problem> {
    parse(document).map_err(|message| Problem::new("", message))
}

/// Every mistake because of which [`parse_cluster`] refuses a document, with its path.
pub fn cluster_mistakes(document: &Value) -> Vec<Problem> {
    mistakes_of::<UpstreamCluster>(document)
}

/// Every mistake because of which [`parse_settings`] refuses a document, with its path.
pub fn settings_mistakes(document: &Value) -> Vec<Problem> {
    mistakes_of::<GatewaySettings>(document)
}

fn mistakes_of<T: Kind>(document: &Value) -> Vec<Problem> {
    let Err(first) = parse::<T>(document) else { return Vec::new() };
    let mut found = mistakes(document, &|document| parse::<T>(document).map(|_| ()));
    if found.is_empty() {
        found.push(Problem::new("", first));
    }
    found
}

fn parse<T: Kind>(document: &Value) -> Result<T, String> {
    // serde reads an object from a list of its values, too.
    if has_list_for_object(document, T::objects()) {
        return Err("a field has the wrong type: expected an object".to_owned());
    }
    read(document)
}

fn read<T: DeserializeOwned>(document: &Value) -> Result<T, String> {
    let read = if has_null(document) { T::deserialize(without_nulls(document)) } else { T::deserialize(document) };
    read.map_err(|error| without_values(&error.to_string()))
}

/// A part of a document, if it is well-formed.
pub(crate) fn parse_part<T: DeserializeOwned>(part: &Value) -> Option<T> {
    read(part).ok()
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(|value| value.is_null() || has_null(value)),
        Value::Array(items) => items.iter().any(has_null),
        _ => false,
    }
}

/// A field that is null is a field that is not set, as Go's decoder has it.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let set = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(set.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// serde quotes a value of the wrong type; the value may be a key that was put into the wrong place.
fn without_values(message: &str) -> String {
    let quotes_value = message.starts_with("invalid type") || message.starts_with("invalid value");
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if quotes_value => format!("a field has the wrong type: expected {expected}"),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with_spec(spec: Value) -> Value {
        json!({"apiVersion": CLUSTER_API_VERSION, "kind": CLUSTER_KIND, "metadata": {"name": "a.test"}, "spec": spec})
    }

    #[test]
    fn a_typo_is_told_by_its_name() {
        for spec in [
            json!({"serverz": []}),
            json!({"servers": [{"endpointt": "x"}]}),
            json!({"dispatchPolicies": [{"rules": [{"verb": ["get"]}]}]}),
            json!({"portcullis": {"requestTimeOut": "1s"}}),
        ] {
            let problem = parse_cluster(&with_spec(spec)).unwrap_err();
            assert!(problem.message.contains("unknown field"), "{problem}");
        }
    }

    #[test]
    fn every_mistake_of_shape_is_told_with_its_path() {
        let spec = json!({
            "serverz": [],
            "servers": [{"endpoint": 1, "disabled": false}, "x", {"Endpoint": "x"}],
            "clientConfig": {"keyData": "TOPSECRET*", "qps": "TOPSECRET"},
            "dispatchPolicies": [{"upstreamSubset": [], "rules": [{"verbs": ["get", 5], "users": "x"}]}, {"rules": {}}],
            "logging": null,
            "secureServing": {"clientCaData": {"a": {"b": 1}}},
        });
        let found = cluster_mistakes(&with_spec(spec));
        let mut paths: Vec<_> = found.iter().map(|problem| problem.path.as_str()).collect();
        paths.sort_unstable();
        let wanted = [
            "spec.clientConfig.keyData",
            "spec.clientConfig.qps",
            "spec.dispatchPolicies[0].rules[0].users",
            "spec.dispatchPolicies[0].rules[0].verbs[1]",
            "spec.dispatchPolicies[1].rules",
            "spec.secureServing.clientCaData",
            "spec.servers[0].endpoint",
            "spec.servers[1]",
            "spec.servers[2].Endpoint",
            "spec.serverz",
        ];
        assert_eq!(paths, wanted);
        assert!(!format!("{found:?}").contains("TOPSECRET"));
        let hints: Vec<_> = found.iter().filter_map(|problem| problem.hint.as_deref()).collect();
        for hint in ["servers is meant?", "clientCAData is meant?", "endpoint is meant?"] {
            assert!(hints.contains(&hint), "{hint}: {hints:?}");
        }
        let twice = json!({"dispatchPolicies": [{"upstreamSubset": [], "upsteamSubset": []}]});
        assert_eq!(cluster_mistakes(&with_spec(twice))[0].path, "spec.dispatchPolicies[0]");
        assert_eq!(cluster_mistakes(&json!({"kind": "x"})).len(), 1);
        assert_eq!(cluster_mistakes(&with_spec(json!({}))), []);
    }

    #[test]
    fn a_list_is_no_object() {
        for (spec, path) in [
            (json!({"clientConfig": []}), "spec.clientConfig"),
            (json!({"servers": [["https://a", false]]}), "spec.servers[0]"),
            (json!({"flowControl": {"schemas": [["a"]]}}), "spec.flowControl.schemas[0]"),
            (json!({"portcullis": {"healthCheck": []}}), "spec.portcullis.healthCheck"),
            (json!([]), "spec"),
        ] {
            assert!(parse_cluster(&with_spec(spec.clone())).is_err(), "{spec}");
            assert_eq!(cluster_mistakes(&with_spec(spec))[0].path, path);
        }
        let mut document = with_spec(json!({}));
        document["metadata"] = json!(["a.test"]);
        assert_eq!(cluster_mistakes(&document)[0].path, "metadata");
        let settings = json!({
            "apiVersion": SETTINGS_API_VERSION, "kind": SETTINGS_KIND, "metadata": {},
            "spec": {"listener": {"proxyProtocol": []}},
        });
        assert_eq!(settings_mistakes(&settings)[0].path, "spec.listener.proxyProtocol");
    }

    #[test]
    fn null_is_not_set() {
        let spec = json!({"servers": null, "clientConfig": {"qps": null}, "dispatchPolicies": [{"rules": null}]});
        assert_eq!(parse_cluster(&with_spec(spec)).unwrap().spec.dispatch_policies.len(), 1);
    }

    #[test]
    fn both_spellings_of_the_subset_are_read() {
        for field in ["upstreamSubset", "upsteamSubset"] {
            let cluster = parse_cluster(&with_spec(json!({"dispatchPolicies": [{field: ["https://x"]}]}))).unwrap();
            assert_eq!(cluster.spec.dispatch_policies[0].upstream_subset, ["https://x"]);
        }
    }

    #[test]
    fn no_error_and_no_debug_form_shows_a_secret() {
        for spec in [
            json!({"clientConfig": "TOPSECRET"}),
            json!({"clientConfig": {"bearerToken": "TOPSECRET*"}}),
            json!({"clientConfig": {"qps": "TOPSECRET, expected"}}),
            json!({"clientConfig": {"keyData": {"TOPSECRET": 1}}}),
        ] {
            let problem = parse_cluster(&with_spec(spec)).unwrap_err();
            assert!(!problem.message.contains("TOPSECRET"), "{problem}");
        }
        let read = parse_cluster(&with_spec(json!({"clientConfig": {"bearerToken": "VE9QU0VDUkVU"}}))).unwrap();
        assert_eq!(read.spec.client_config.bearer_token.expose(), b"TOPSECRET");
        let shown = format!("{read:?}");
        assert!(shown.contains("[redacted]") && !shown.contains("TOPSECRET") && !shown.contains("84, 79"), "{shown}");
    }

    #[test]
    fn kinds_are_told_apart() {
        let kind = |api_version: &str, kind: &str| kind_of(&json!({"apiVersion": api_version, "kind": kind}));
        assert_eq!(kind(CLUSTER_API_VERSION, CLUSTER_KIND), ObjectKind::UpstreamCluster);
        assert_eq!(kind(SETTINGS_API_VERSION, SETTINGS_KIND), ObjectKind::GatewaySettings);
        assert!(matches!(kind("proxy.kubegateway.io/v2", CLUSTER_KIND), ObjectKind::UnknownVersion { .. }));
        assert!(matches!(kind("v1", "Secret"), ObjectKind::Foreign { .. }));
        assert!(matches!(kind_of(&json!([])), ObjectKind::Foreign { .. }));
    }
}
