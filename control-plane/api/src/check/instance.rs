use super::labels::{SelectedLabels, check_selector};
use super::{Checked, Findings};
use crate::dns_name::{is_dns_label, is_subdomain};
use crate::problem::{Problem, ProblemCode};
use crate::types::Instance;

/// An `Instance`, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedInstance {
    /// Its name, a DNS label: certificates of Envoys have it.
    pub name: String,
    /// `metadata.creationTimestamp`.
    pub creation_timestamp: Option<String>,
    /// The labels of its gateways; `None` selects none.
    pub gateways: Option<SelectedLabels>,
    /// The labels of its `UpstreamClusters`; `None` selects none.
    pub clusters: Option<SelectedLabels>,
    /// The name of the `GatewaySettings` of its Envoys, if it has some of its own.
    pub settings: Option<String>,
}

/// Checks an `Instance` by itself. Whether another one has what it selects is a matter of all instances.
pub fn check_instance(raw: &Instance) -> Checked<CheckedInstance> {
    let mut findings = Findings::default();
    if !is_dns_label(&raw.metadata.name) {
        findings.problem("metadata.name", "must be a DNS label: lower-case letters, digits and -, up to 63");
    }
    if raw.metadata.namespace.as_ref().is_some_and(|namespace| !namespace.is_empty()) {
        findings.problem("metadata.namespace", "must be empty: the kind is cluster-scoped");
    }
    let spec = &raw.spec;
    if spec.settings.as_ref().is_some_and(|name| !is_subdomain(name)) {
        findings.problem("spec.settings", "must be the name of GatewaySettings: lower-case letters, digits, - and .");
    }
    let mut selected = |selector: Option<&_>, path| selector.map(|raw| check_selector(raw, path, &mut findings));
    let gateways = selected(spec.gateways_selector.as_ref(), "spec.gatewaysSelector");
    let clusters = selected(spec.clusters_selector.as_ref(), "spec.clustersSelector");
    for (selector, path) in [(&gateways, "spec.gatewaysSelector"), (&clusters, "spec.clustersSelector")] {
        if selector.is_none() {
            let message = "is not set, and selects nothing";
            findings.warn(Problem::coded(ProblemCode::NoEffect, path, message).hint("{} selects all"));
        }
    }
    let name = raw.metadata.name.clone();
    let creation_timestamp = raw.metadata.creation_timestamp.clone();
    let settings = spec.settings.clone();
    findings.finish(Some(CheckedInstance { name, creation_timestamp, gateways, clusters, settings }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::kind::{INSTANCE_API_VERSION, INSTANCE_KIND};
    use crate::parse::{instance_mistakes, parse_instance};

    fn document(name: &str, spec: &Value) -> Value {
        json!({"apiVersion": INSTANCE_API_VERSION, "kind": INSTANCE_KIND, "metadata": {"name": name}, "spec": spec})
    }

    /// The paths of everything that is wrong.
    fn wrong(document: &Value) -> Vec<String> {
        let problems = match parse_instance(document) {
            Ok(raw) => check_instance(&raw).outcome.err().unwrap_or_default(),
            Err(_) => instance_mistakes(document),
        };
        problems.into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn selector_selects_as_kubernetes_does() {
        let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, selected) in [
            (json!({}), true),
            (json!(null), false),
            (json!({"matchLabels": {"team": "a"}}), true),
            (json!({"matchLabels": {"team": "b"}}), false),
            (json!({"matchLabels": {"team": "a", "zone": "x"}}), false),
            (expression("team", "In", &["b", "a"]), true),
            (expression("zone", "In", &["a"]), false),
            (expression("team", "NotIn", &["a"]), false),
            (expression("team", "NotIn", &["b"]), true),
            (expression("zone", "NotIn", &["b"]), true),
            (expression("team", "Exists", &[]), true),
            (expression("zone", "Exists", &[]), false),
            (expression("zone", "DoesNotExist", &[]), true),
            (expression("team", "DoesNotExist", &[]), false),
        ] {
            let raw = parse_instance(&document("a", &json!({"clustersSelector": selector}))).unwrap();
            let checked = check_instance(&raw).outcome.unwrap();
            assert_eq!(checked.clusters.is_some_and(|selector| selector.selects(&labels)), selected, "{selector}");
            assert_eq!(checked.gateways, None);
        }
    }

    #[test]
    fn selector_that_is_not_understood_is_refused() {
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let many = vec!["a"; 65];
        for (selector, path) in [
            (expression("", "Exists", &[]), "matchExpressions[0].key"),
            (expression("a b", "Exists", &[]), "matchExpressions[0].key"),
            (expression("a", "exists", &[]), "matchExpressions[0].operator"),
            (expression("a", "In", &[]), "matchExpressions[0].values"),
            (expression("a", "NotIn", &[]), "matchExpressions[0].values"),
            (expression("a", "Exists", &["b"]), "matchExpressions[0].values"),
            (expression("a", "In", &["-"]), "matchExpressions[0].values[0]"),
            (expression("a", "In", &many), "matchExpressions[0].values"),
            (json!({"matchLabels": {"a/b/c": "x"}}), "matchLabels"),
            (json!({"matchLabels": {"a": "é"}}), "matchLabels.a"),
            (json!({"matchExpressions": vec![json!({"key": "a", "operator": "Exists"}); 33]}), ""),
            // Left out, each of these would select more.
            (json!({"matchLabels": {"a": null}}), "matchLabels.a"),
            (json!({"matchExpressions": [null]}), "matchExpressions[0]"),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", null]}]}),
                "matchExpressions[0].values[1]",
            ),
        ] {
            let path = if path.is_empty() { String::new() } else { format!(".{path}") };
            for field in ["gatewaysSelector", "clustersSelector"] {
                let found = wrong(&document("a", &json!({field: selector})));
                assert_eq!(found, [format!("spec.{field}{path}")], "{selector}");
            }
        }
        for selector in [json!({"matchFields": []}), json!([]), json!("a"), json!({"matchLabels": []})] {
            assert_ne!(
                wrong(&document("a", &json!({"clustersSelector": selector}))),
                Vec::<String>::new(),
                "{selector}"
            );
        }
    }

    #[test]
    fn name_is_one_label() {
        for name in ["a", "team-a", "0"] {
            assert_eq!(wrong(&document(name, &json!({}))), Vec::<String>::new(), "{name}");
        }
        for name in ["", "a.b", "A", "-a", "a_b", "*", &"a".repeat(64)] {
            assert_eq!(wrong(&document(name, &json!({}))), ["metadata.name"], "{name}");
        }
        let mut namespaced = document("a", &json!({}));
        namespaced["metadata"]["namespace"] = json!("n");
        assert_eq!(wrong(&namespaced), ["metadata.namespace"]);
    }

    #[test]
    fn settings_are_the_name_of_an_object() {
        for name in ["a", "team-a.settings", "0"] {
            let raw = parse_instance(&document("a", &json!({"settings": name}))).unwrap();
            assert_eq!(check_instance(&raw).outcome.unwrap().settings.as_deref(), Some(name));
        }
        for name in ["", "A", "a/b", "a_b", ".a", &"a".repeat(254)] {
            assert_eq!(wrong(&document("a", &json!({"settings": name}))), ["spec.settings"], "{name}");
        }
        assert_ne!(wrong(&document("a", &json!({"settings": {"name": "a"}}))), Vec::<String>::new());
    }

    #[test]
    fn selector_that_is_not_set_is_warned_of() {
        let raw = parse_instance(&document("a", &json!({"gatewaysSelector": {}}))).unwrap();
        let warnings: Vec<_> = check_instance(&raw).warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, ["spec.clustersSelector: is not set, and selects nothing (hint: {} selects all)"]);
    }
}
