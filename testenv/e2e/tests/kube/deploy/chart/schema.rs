//! The values are checked before anything is rendered.

use portcullis_harness::project_root;
use serde_json::{Value, json};

use super::helm::{DEFAULT, Helm, chart};

#[test]
fn values_are_refused_with_the_place_of_the_mistake() {
    let Some(helm) = Helm::find("schema") else { return };
    let rows = [
        (json!({"gateway": {"replica": 3}}), "at '/gateway': additional properties 'replica' not allowed"),
        (json!({"certmanager": {}}), "additional properties 'certmanager' not allowed"),
        (json!({"policies": {"enable": true}}), "at '/policies': additional properties 'enable' not allowed"),
        (json!({"instances": {"enabled": "yes"}}), "at '/instances/enabled': got string, want boolean"),
        (json!({"gateway": {"replicas": "3"}}), "at '/gateway/replicas': got string, want integer"),
        (json!({"controlPlane": {"replicas": -1}}), "at '/controlPlane/replicas': minimum: got -1, want 0"),
        (json!({"gateway": {"image": {"digest": "sha256:12"}}}), "at '/gateway/image/digest'"),
        (json!({"gateway": {"service": {"type": "Loadbalancer"}}}), "at '/gateway/service/type'"),
        (json!({"gateway": {"terminationGracePeriodSeconds": 30}}), "at '/gateway/terminationGracePeriodSeconds'"),
        (
            json!({"settings": {"listener": {"port": 443}}}),
            "at '/settings/listener/port': minimum: got 443, want 1,025",
        ),
        (
            json!({"settings": {"listener": {"tunnel": {"port": "a: b"}}}}),
            "at '/settings/listener/tunnel/port': got string, want integer",
        ),
        (json!({"networkPolicies": {"apiserverPorts": []}}), "at '/networkPolicies/apiserverPorts'"),
        (json!({"fullnameOverride": "Edge"}), "at '/fullnameOverride'"),
        (json!({"image": {"registry": "a: b"}}), "at '/image/registry'"),
        (json!({"gateway": {"image": {"repository": "a #b"}}}), "at '/gateway/image/repository'"),
        (json!({"controlPlane": {"console": {"hosts": ["a: b"]}}}), "at '/controlPlane/console/hosts/0'"),
        (json!({"gateway": {"topologySpread": {"keys": ["a #b"]}}}), "at '/gateway/topologySpread/keys/0'"),
        (
            json!({"gateway": {"service": {"loadBalancerClass": "a\n  externalIPs: [192.0.2.1]"}}}),
            "at '/gateway/service/loadBalancerClass'",
        ),
        (
            json!({"gateway": {"service": {"loadBalancerSourceRanges": ["a: b"]}}}),
            "at '/gateway/service/loadBalancerSourceRanges/0'",
        ),
        (
            json!({"networkPolicies": {"dns": {"namespace": "a\n      podSelector: {}"}}}),
            "at '/networkPolicies/dns/namespace'",
        ),
        (
            json!({"gateway": {"podLabels": {"app.kubernetes.io/name": "mine"}}}),
            "at '/gateway/podLabels/app.kubernetes.io~1name'",
        ),
        (
            json!({"monitoring": {"labels": {"app.kubernetes.io/instance": "mine"}}}),
            "at '/monitoring/labels/app.kubernetes.io~1instance'",
        ),
        (json!({"networkPolicies": {"apiservers": [{"cidr": "a: b"}]}}), "at '/networkPolicies/apiservers/0/cidr'"),
    ];
    are_refused(&helm, &rows);
}

fn are_refused(helm: &Helm, rows: &[(Value, &str)]) {
    for (values, message) in rows {
        let file = helm.file(values);
        let told = helm.refused(&["template", DEFAULT.name, &chart(), "-f", &file]);
        assert!(told.contains(message), "{values}: {told}");
    }
}

#[test]
fn envoys_entries_are_refused_with_the_place_of_the_mistake() {
    let Some(helm) = Helm::find("schema-envoys") else { return };
    let entry = |fields: Value| json!({"envoys": [fields]});
    let rows = [
        (entry(json!({"instance": "a"})), "at '/envoys/0'"),
        (entry(json!({"name": "a"})), "at '/envoys/0'"),
        (entry(json!({"name": "a", "instance": "a", "gateway": "a/b", "ports": [443]})), "at '/envoys/0'"),
        (entry(json!({"name": "a", "gateway": "a/b"})), "at '/envoys/0'"),
        (entry(json!({"name": "a", "instance": "a", "ports": [443]})), "at '/envoys/0'"),
        (entry(json!({"name": "a", "gateway": "a/b", "ports": []})), "at '/envoys/0/ports'"),
        (entry(json!({"name": "a", "gateway": "a/b", "ports": [443, 443]})), "at '/envoys/0/ports'"),
        (entry(json!({"name": "a", "gateway": "a/b", "ports": [9081]})), "at '/envoys/0/ports/0'"),
        (entry(json!({"name": "a", "gateway": "edge", "ports": [443]})), "at '/envoys/0/gateway'"),
        (entry(json!({"name": "a.b", "instance": "a"})), "at '/envoys/0/name'"),
        (entry(json!({"name": "a", "instance": "a", "enabled": false})), "additional properties 'enabled' not allowed"),
        (entry(json!({"name": "a", "instance": "a", "replicas": "3"})), "at '/envoys/0/replicas'"),
        (entry(json!({"name": "a", "instance": "a", "listener": {"port": 9081}})), "at '/envoys/0/listener/port'"),
        (
            entry(json!({"name": "a", "instance": "a", "listener": {"port": 7443, "tunnel": {"port": 9901}}})),
            "at '/envoys/0/listener/tunnel/port'",
        ),
        (entry(json!({"name": "a", "instance": "a", "apiserverPorts": []})), "at '/envoys/0/apiserverPorts'"),
        (
            entry(json!({"name": "a", "instance": "a", "apiservers": [{"cidr": "a: b"}]})),
            "at '/envoys/0/apiservers/0/cidr'",
        ),
        (
            json!({"gateway": {"podLabels": {"portcullis.dev/envoys": "a"}}}),
            "at '/gateway/podLabels/portcullis.dev~1envoys'",
        ),
    ];
    are_refused(&helm, &rows);
}

/// By the templates: a schema compares no values.
#[test]
fn envoys_entries_are_refused_if_others_contradict_them() {
    let Some(helm) = Helm::find("contradictions") else { return };
    let enabled = |entries: Value| json!({"instances": {"enabled": true}, "envoys": entries});
    let long = "a".repeat(40);
    let rows = [
        (json!({"envoys": [{"name": "a", "instance": "a"}]}), "a is of an Instance, which needs instances.enabled"),
        (
            json!({"envoys": [{"name": "a", "gateway": "b/c", "ports": [443]}]}),
            "a is of a Gateway, which needs gatewayAPI.enabled",
        ),
        (enabled(json!([{"name": "a", "instance": "a"}, {"name": "a", "instance": "b"}])), "the name a is there twice"),
        (
            enabled(json!([{"name": "a", "instance": "a", "xdsSecret": "portcullis-gateway-xds"}])),
            "a has the Secret portcullis-gateway-xds of others",
        ),
        (enabled(json!([{"name": long, "instance": "a"}])), "choose a shorter name"),
        (
            enabled(json!([{"name": "a", "instance": "a", "listener": {"port": 7443, "tunnel": {"port": 7443}}}])),
            "a has the port 7443 twice",
        ),
    ];
    are_refused(&helm, &rows);
    // Keys of the control plane, its authority's among them, which a pod of these Envoys would have.
    for secret in ["portcullis-control-plane-xds", "portcullis-xds-ca", "plane", "settings", "trusted"] {
        let mut values = enabled(json!([{"name": "a", "instance": "a", "xdsSecret": secret}]));
        if secret == "plane" {
            values["controlPlane"] = json!({"xdsSecret": secret});
        }
        values["settingsSecret"] = json!("settings");
        values["controlPlane"]["console"] = json!({"tlsSecret": "trusted"});
        are_refused(&helm, &[(values, &format!("a has the Secret {secret} of others"))]);
    }
}

#[test]
fn release_name_is_refused_if_pods_could_not_have_it() {
    let Some(helm) = Helm::find("length") else { return };
    let told = helm.refused(&["template", &"x".repeat(40), &chart()]);
    assert!(told.contains("fullnameOverride"), "{told}");
}

#[test]
fn chart_is_lint_free_and_of_this_release() {
    let Some(helm) = Helm::find("lint") else { return };
    helm.ok(&["lint", "--strict", "--quiet", &chart()]);
    let cargo = std::fs::read_to_string(project_root().join("Cargo.toml")).unwrap();
    let text = std::fs::read_to_string(project_root().join("deploy/helm/portcullis/Chart.yaml")).unwrap();
    let version = serde_saphyr::from_str::<Value>(&text).unwrap()["appVersion"].as_str().unwrap().to_owned();
    assert!(cargo.contains(&format!("version = \"{version}\"\n")), "{version}");
    let packages = helm.run.make_dir("packages").unwrap();
    helm.ok(&["package", &chart(), "-d", packages.to_str().unwrap()]);
    assert_eq!(std::fs::read_dir(packages).unwrap().count(), 1);
}
