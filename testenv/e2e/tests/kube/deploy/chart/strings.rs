//! A string of the values is that very string in an object, whatever YAML would read in it.

use serde_json::{Value, json};

use super::helm::{DEFAULT, Helm, Release};

/// A string without a meaning in YAML.
const PLAIN: &str = "plain";

/// Strings that are cut, of another type, or a further field where a template does not quote them.
const HOSTILE: [&str; 14] = [
    "a: b",
    "a #b",
    "a\n      podSelector: {}",
    "a\n  externalIPs: [192.0.2.1]",
    "a\n---\nkind: Secret",
    "true",
    "123",
    "1e3",
    "~",
    "{a: b}",
    "- a",
    " a ",
    "\"a\\n'",
    "!!int 3",
];

/// Every string that templates write by themselves, or among others.
fn values(word: &str) -> Value {
    let pods = json!({
        "image": {"repository": word, "tag": word}, "xdsSecret": word, "priorityClassName": word, "nodeSelector": {"a": word},
        "podAnnotations": {"a": word}, "podLabels": {"a": word}, "serviceAccountAnnotations": {"a": word}, "extraArgs": [word],
        "topologySpread": {"keys": [word], "whenUnsatisfiable": word}, "podDisruptionBudget": {"maxUnavailable": word},
    });
    let (mut plane, mut gateway) = (pods.clone(), pods);
    plane["console"] = json!({"tlsSecret": word, "hosts": [word]});
    gateway["extraEnvoyArgs"] = json!([word]);
    let service = json!({"type": "LoadBalancer", "externalTrafficPolicy": word, "loadBalancerClass": word,
        "loadBalancerSourceRanges": [word], "annotations": {"a": word}});
    gateway["service"] = service.clone();
    json!({
        "image": {"registry": word, "pullPolicy": word, "pullSecrets": [{"name": word}]},
        "settingsSecret": word, "controlPlane": plane, "gateway": gateway,
        "gatewayAPI": {"enabled": true}, "instances": {"enabled": true},
        "envoys": [
            {"name": word, "instance": word},
            {"name": format!("{word}-2"), "gateway": format!("{word}/{word}"), "ports": [443], "addresses": [word],
                "service": service, "serviceAccountAnnotations": {"a": word}},
        ],
        "certManager": {"enabled": true, "issuerRef": {"kind": word, "name": word}, "duration": word},
        "monitoring": {"enabled": true, "labels": {"a": word}, "dashboardLabels": {"a": word}, "interval": word},
        "networkPolicies": {"monitoringNamespace": word, "apiservers": [{"cidr": word, "except": [word]}],
            "dns": {"namespace": word, "podLabels": {"k8s-app": word}}},
    })
}

/// With a word in the place of the plain one.
fn replaced(value: &Value, word: &str) -> Value {
    match value {
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), replaced(value, word))).collect())
        }
        Value::Array(items) => items.iter().map(|item| replaced(item, word)).collect(),
        Value::String(text) => Value::String(text.replace(PLAIN, word)),
        other => other.clone(),
    }
}

#[test]
fn chart_strings_are_rendered_as_they_are() {
    let Some(helm) = Helm::find("strings") else { return };
    let plain = helm.render_unchecked(DEFAULT, &values(PLAIN)).objects;
    let count = plain.iter().map(|object| object.to_string().matches(PLAIN).count()).sum::<usize>();
    assert!(count >= 50, "{count} strings");
    for word in HOSTILE {
        let rendered = helm.render_unchecked(DEFAULT, &values(word));
        assert_eq!(rendered.objects.len(), plain.len(), "{word:?}: {}", rendered.text);
        for (found, object) in rendered.objects.iter().zip(&plain) {
            assert_eq!(*found, replaced(object, word), "{word:?}");
        }
    }
}

#[test]
fn release_names_stay_strings_whatever_their_digits() {
    let Some(helm) = Helm::find("digits") else { return };
    let values = json!({"settingsSecret": "true", "certManager": {"enabled": true}, "monitoring": {"enabled": true}});
    for (name, namespace) in [("123", "456"), ("true", "null"), ("1e3", "0x10")] {
        let rendered = helm.render(Release { name, namespace }, &values);
        for object in &rendered.objects {
            let metadata = &object["metadata"];
            assert_eq!(metadata["labels"]["app.kubernetes.io/instance"], name, "{object}");
            assert!(metadata["namespace"].is_null() || metadata["namespace"] == namespace, "{object}");
        }
        for kind in ["Deployment", "PodDisruptionBudget"] {
            for object in rendered.all(kind) {
                let labels = &object["spec"]["selector"]["matchLabels"];
                assert_eq!(labels["app.kubernetes.io/instance"], name, "{object}");
            }
        }
        let plane = rendered.get("Deployment", &rendered.names.control_plane());
        assert_eq!(plane["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"], "true");
    }
}

/// Go prints a large number of the values with an exponent, which no integer of Kubernetes' may have.
#[test]
fn numbers_of_the_chart_stay_integers() {
    let Some(helm) = Helm::find("numbers") else { return };
    let values = json!({"gateway": {"replicas": 2_000_000, "terminationGracePeriodSeconds": 1_000_000, "concurrency": 3_000_000}});
    let rendered = helm.render(DEFAULT, &values);
    let spec = &rendered.get("Deployment", &rendered.names.gateway())["spec"];
    assert_eq!(spec["replicas"], json!(2_000_000));
    assert_eq!(spec["template"]["spec"]["terminationGracePeriodSeconds"], json!(1_000_000));
    let args = spec["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    assert!(args.contains(&json!("3000000")), "{args:?}");
}

/// Helm's YAML takes a line separator for a line break: without indent behind it a key of the ConfigMap would follow.
#[test]
fn settings_with_a_line_separator_stay_one_text() {
    let Some(helm) = Helm::find("separator") else { return };
    let rendered = helm.render(DEFAULT, &json!({"settings": {"word": "a\u{2028}kind: Secret"}}));
    let mut after = rendered.text.split('\u{2028}').skip(1);
    assert!(after.all(|rest| rest.starts_with("    ")), "{}", rendered.text);
}
