//! The chart and kustomize have one meaning: each set of values that a directory of kustomize has too renders the same objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::helm::{DEFAULT, Helm};
use crate::deploy::rendered::{ENVOYS, Rendered};

/// Labels and annotations that only Helm needs.
const HELMS_OWN: [&str; 5] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
    "helm.sh/resource-policy",
];

fn stripped(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !HELMS_OWN.contains(&name.as_str()));
            let kept = kept.map(|(name, value)| (name.clone(), stripped(value)));
            Value::Object(
                kept.filter(|(name, value)| name != "annotations" || *value != json!({})).collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => items.iter().map(stripped).collect(),
        other => other.clone(),
    }
}

/// By kind and name. Settings are compared as what they say, not as text.
fn objects(rendered: &Rendered) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for object in &rendered.objects {
        let mut object = stripped(object);
        let text = object["data"]["settings.yaml"].as_str();
        if let Some(settings) = text.map(|text| serde_saphyr::from_str::<Value>(text).unwrap()) {
            object["data"]["settings.yaml"] = settings;
        }
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        assert!(all.insert(name.clone(), object).is_none(), "{name} is there twice");
    }
    all
}

#[test]
fn chart_renders_what_kustomize_builds() {
    let Some(helm) = Helm::find("same") else { return };
    let complete = json!({"certManager": {"enabled": true}, "monitoring": {"enabled": true}});
    let components = json!({
        "gateway": {"zones": true, "service": {"type": "LoadBalancer"}},
        "gatewayAPI": {"enabled": true}, "instances": {"enabled": true}, "policies": {"enabled": true},
    });
    let envoys = json!({
        "gatewayAPI": {"enabled": true}, "instances": {"enabled": true},
        "certManager": {"enabled": true}, "monitoring": {"enabled": true},
        "envoys": [
            {"name": "edge", "gateway": "infra/edge", "ports": [443]},
            {"name": "inner", "gateway": "infra/in.ner", "ports": [443]},
            {"name": "team-a", "instance": "a"},
        ],
    });
    let rows = [
        (json!({}), "base"),
        (complete, "overlays/complete"),
        (components, "../../testenv/e2e/tests/kube/deploy/components"),
        (envoys, ENVOYS),
    ];
    for (values, directory) in rows {
        let Some(built) = Rendered::of(directory) else { return };
        let mut expected = objects(&built);
        // Helm's `--create-namespace` would meet it.
        expected.remove(r#""Namespace" "portcullis""#).unwrap();
        let found = objects(&helm.render(DEFAULT, &values));
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{directory}");
        for (name, object) in &expected {
            assert_eq!(&found[name], object, "{name} of {directory}");
        }
    }
}
