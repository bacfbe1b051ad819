use std::fmt::Display;
use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::absent_settings::absence;
use crate::bounds::MAX_UPSTREAM_BYTES;
use crate::decode_errors::{decode_errors, has_list_for_object};
use crate::kind::{
    PolicyKind, cluster_misnamed, instance_misnamed, policy_misnamed, settings_misnamed, upstream_misnamed,
};
use crate::null_fields::null_fields;
use crate::packed::unpacked;
use crate::problem::Problem;
use crate::schema::{cluster_shape, instance_shape, policy_shape, settings_shape, upstream_shape};
use crate::types::{AttachedPolicy, GatewaySettings, Instance, KubernetesUpstream, PolicyFields, UpstreamCluster};

/// A kind that can be read.
trait Kind: DeserializeOwned {
    /// The shape of the object: which fields are objects.
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

impl Kind for Instance {
    fn objects() -> &'static Value {
        static OBJECTS: LazyLock<Value> = LazyLock::new(instance_shape);
        &OBJECTS
    }
}

impl Kind for KubernetesUpstream {
    fn objects() -> &'static Value {
        static OBJECTS: LazyLock<Value> = LazyLock::new(upstream_shape);
        &OBJECTS
    }
}

impl<T: PolicyFields> Kind for AttachedPolicy<T> {
    fn objects() -> &'static Value {
        static DISPATCH: LazyLock<Value> = LazyLock::new(|| policy_shape(PolicyKind::Dispatch));
        static FLOW_CONTROL: LazyLock<Value> = LazyLock::new(|| policy_shape(PolicyKind::FlowControl));
        static IDENTITY: LazyLock<Value> = LazyLock::new(|| policy_shape(PolicyKind::UpstreamIdentity));
        match T::KIND {
            PolicyKind::Dispatch => &DISPATCH,
            PolicyKind::FlowControl => &FLOW_CONTROL,
            PolicyKind::UpstreamIdentity => &IDENTITY,
        }
    }
}

/// Reads the raw form of an `UpstreamCluster`. An unknown field is an error, so that a typing error shows. The error is the
/// first that is found; [`cluster_mistakes`] finds all.
pub fn parse_cluster(document: &Value) -> Result<UpstreamCluster, Problem> {
    match cluster_misnamed(document) {
        Some(problem) => Err(problem),
        None => parse(&unpacked(document)).map_err(|message| Problem::new("", message)),
    }
}

/// Reads the raw form of `GatewaySettings`. An unknown field is an error, so that a typing error shows. The error is the first
/// that is found; [`settings_mistakes`] finds all.
pub fn parse_settings(document: &Value) -> Result<GatewaySettings, Problem> {
    match settings_misnamed(document).or_else(|| absence(document)) {
        Some(problem) => Err(problem),
        None => parse(document).map_err(|message| Problem::new("", message)),
    }
}

/// Every mistake because of which [`parse_cluster`] refuses a document, with its path.
pub fn cluster_mistakes(document: &Value) -> Vec<Problem> {
    mistakes_of::<UpstreamCluster>(&unpacked(document), cluster_misnamed(document))
}

/// Every mistake because of which [`parse_settings`] refuses a document, with its path.
pub fn settings_mistakes(document: &Value) -> Vec<Problem> {
    match absence(document) {
        Some(problem) => vec![problem],
        None => mistakes_of::<GatewaySettings>(document, settings_misnamed(document)),
    }
}

/// Reads the raw form of an `Instance`. An unknown field is an error, and so is null in a selector: left out, either would select
/// more. The error is the first that is found; [`instance_mistakes`] finds all.
pub fn parse_instance(document: &Value) -> Result<Instance, Problem> {
    match instance_misnamed(document).or_else(|| null_selectors(document).into_iter().next()) {
        Some(problem) => Err(problem),
        None => parse(document).map_err(|message| Problem::new("", message)),
    }
}

/// Every mistake because of which [`parse_instance`] refuses a document, with its path.
pub fn instance_mistakes(document: &Value) -> Vec<Problem> {
    let mut all = mistakes_of::<Instance>(document, instance_misnamed(document));
    for null in null_selectors(document) {
        if all.iter().all(|known| known.path != null.path) {
            all.push(null);
        }
    }
    all
}

fn null_selectors(document: &Value) -> Vec<Problem> {
    let paths = ["gatewaysSelector", "clustersSelector"].into_iter().flat_map(|field| {
        let selector = document.get("spec").and_then(|spec| spec.get(field));
        selector.map(|selector| null_fields(selector, &format!("spec.{field}"))).unwrap_or_default()
    });
    paths.map(|path| Problem::new(path, "must not be null: the selector would select more without it")).collect()
}

/// Reads the raw form of a `KubernetesUpstream`, or gives every mistake in it. An unknown field is one.
pub fn parse_upstream(document: &Value) -> Result<KubernetesUpstream, Vec<Problem>> {
    let length = document.get("spec").map(|spec| spec.to_string().len());
    if length.is_some_and(|length| length > MAX_UPSTREAM_BYTES) {
        return Err(vec![Problem::new("spec", format!("must not take more than {MAX_UPSTREAM_BYTES} bytes"))]);
    }
    let misnamed = upstream_misnamed(document);
    match parse(document).ok().filter(|_| misnamed.is_none()) {
        Some(upstream) => Ok(upstream),
        None => Err(mistakes_of::<KubernetesUpstream>(document, misnamed)),
    }
}

/// Reads the raw form of a policy, or gives every mistake in it.
pub(crate) fn parse_policy<T: PolicyFields>(document: &Value) -> Result<AttachedPolicy<T>, Vec<Problem>> {
    let misnamed = policy_misnamed(document, T::KIND);
    match parse(document).ok().filter(|_| misnamed.is_none()) {
        Some(policy) => Ok(policy),
        None => Err(mistakes_of::<AttachedPolicy<T>>(document, misnamed)),
    }
}

/// `misnamed` is what is wrong with `apiVersion` and `kind`.
fn mistakes_of<T: Kind>(document: &Value, misnamed: Option<Problem>) -> Vec<Problem> {
    let mut all: Vec<Problem> = misnamed.into_iter().collect();
    let Err(first) = parse::<T>(document) else { return all };
    let mut found = decode_errors(document, &|document| parse::<T>(document).map(|_| ()));
    if found.is_empty() {
        found.push(Problem::new("", first));
    }
    for problem in &mut found {
        if let Some(narrower) = narrowed(T::objects(), problem) {
            problem.message = narrower;
        }
    }
    all.append(&mut found);
    all
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
pub fn without_nulls(value: &Value) -> Value {
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
        Some((_, expected)) if quotes_value => match range_of(expected) {
            Some(range) => format!("must be {range}"),
            None => format!("a field has the wrong type: expected {expected}"),
        },
        _ => message.to_owned(),
    }
}

const RANGE: &str = "must be a whole number from ";

/// The values of a number's type, which serde names as Rust does.
fn range_of(expected: &str) -> Option<String> {
    let whole = |least: &dyn Display, most: &dyn Display| Some(format!("a whole number from {least} to {most}"));
    match expected {
        "u8" => whole(&u8::MIN, &u8::MAX),
        "u16" => whole(&u16::MIN, &u16::MAX),
        "u32" => whole(&u32::MIN, &u32::MAX),
        "u64" => whole(&u64::MIN, &u64::MAX),
        "i32" => whole(&i32::MIN, &i32::MAX),
        "i64" => whole(&i64::MIN, &i64::MAX),
        "f32" | "f64" => Some("a number".to_owned()),
        _ => None,
    }
}

/// The message about a number that is not of its field's type, with the field's own range where it has one.
fn narrowed(shape: &Value, problem: &Problem) -> Option<String> {
    let (least, most) = problem.message.strip_prefix(RANGE)?.split_once(" to ")?;
    let mut field = shape;
    for step in problem.path.split('.') {
        let mut names = step.split('[');
        field = field.get("properties")?.get(names.next()?)?;
        for _ in names {
            field = field.get("items")?;
        }
    }
    let bound = |name: &str, of_type: &str| field.get(name).map_or_else(|| of_type.to_owned(), Value::to_string);
    Some(format!("{RANGE}{} to {}", bound("minimum", least), bound("maximum", most)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{CLUSTER_API_VERSION, CLUSTER_KIND, SETTINGS_API_VERSION, SETTINGS_KIND};
    use serde_json::json;

    fn with_spec(spec: Value) -> Value {
        json!({"apiVersion": CLUSTER_API_VERSION, "kind": CLUSTER_KIND, "metadata": {"name": "a.test"}, "spec": spec})
    }

    #[test]
    fn typo_is_told_by_its_name() {
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
        for hint in ["did you mean servers?", "did you mean clientCAData?", "did you mean endpoint?"] {
            assert!(hints.contains(&hint), "{hint}: {hints:?}");
        }
        let twice = json!({"dispatchPolicies": [{"upstreamSubset": [], "upsteamSubset": []}]});
        assert_eq!(cluster_mistakes(&with_spec(twice))[0].path, "spec.dispatchPolicies[0]");
        let nothing: Vec<_> = cluster_mistakes(&json!({"kind": "x"})).into_iter().map(|one| one.path).collect();
        assert_eq!(nothing, ["kind", ""]);
        assert_eq!(cluster_mistakes(&with_spec(json!({}))), []);
    }

    #[test]
    fn ranges_are_those_of_the_field() {
        for (spec, message) in [
            (json!({"portcullis": {"healthCheck": {"unhealthyThreshold": -1}}}), "must be a whole number from 1 to 10"),
            (json!({"clientConfig": {"qps": 1.5}}), "must be a whole number from 0 to 2147483647"),
            (json!({"portcullis": {"healthCheck": {"path": 1}}}), "a field has the wrong type: expected a string"),
        ] {
            let found = cluster_mistakes(&with_spec(spec.clone()));
            assert_eq!(found[0].message, message, "{spec}: {found:?}");
        }
    }

    #[test]
    fn list_is_no_object() {
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
    fn number_out_of_range_is_answered_with_the_range() {
        let settings = |port: Value| {
            let spec = json!({"listener": {"port": port}, "limits": {"maxConnections": -1}});
            let kind = (SETTINGS_API_VERSION, SETTINGS_KIND);
            settings_mistakes(&json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {}, "spec": spec}))
        };
        for port in [json!(70_000), json!(-1), json!("443"), json!(1.5)] {
            let mut messages: Vec<_> = settings(port).iter().map(ToString::to_string).collect();
            messages.sort();
            let wanted = [
                "spec.limits.maxConnections: must be a whole number from 0 to 4294967295",
                "spec.listener.port: must be a whole number from 0 to 65535",
            ];
            assert_eq!(messages, wanted);
        }
        let mistakes = cluster_mistakes(&with_spec(json!({"clientConfig": {"qps": 3_000_000_000_u64}})));
        assert_eq!(mistakes[0].message, "must be a whole number from 0 to 2147483647");
    }
}
