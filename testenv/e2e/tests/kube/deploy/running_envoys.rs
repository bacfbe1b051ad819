//! Envoys of an Instance and of a Gateway in operation, as the chart's `envoys` starts them.

use std::collections::BTreeSet;

use portcullis_harness::certs::CertSpec;
use portcullis_harness::{ports, wait};
use serde_json::{Value, json};

use super::pod::POD_IPS;
use super::running::{Fixture, NAME, SOON, is_confined};

const GATEWAY_HOST: &str = "gate.example.com";

/// A release without Envoys of its own, and a Gateway that is the Instance's.
#[test]
fn envoys_of_the_chart_serve_an_instance_and_a_gateway() {
    let listener = ports::free_address().unwrap();
    let values = json!({
        "gateway": {"enabled": false}, "instances": {"enabled": true},
        "gatewayAPI": {"enabled": true, "secretNamespaces": ["gateways"]},
        "envoys": [
            {"name": "team-a", "instance": "a"},
            {"name": "edge", "gateway": "gateways/edge", "ports": [listener.port()]},
        ],
    });
    let Some(fixture) = Fixture::of_values("chart-envoys", &values) else { return };
    let plane = fixture.plane(0);
    plane.wait("/readyz");
    let labels = json!({"team": "a"});
    let spec = json!({"clustersSelector": {"matchLabels": labels}, "gatewaysSelector": {"matchLabels": labels}});
    apply(&fixture, "portcullis.dev/v1alpha1", "Instance", &json!({"name": "a"}), &spec);
    // A cluster that is seen before would be handed over to it.
    wait_true(&fixture, ["instances", "a"], "", "Accepted");
    fixture.apply_example_with(&labels);
    make_gateway(&fixture, &labels, listener.port());
    wait_true(&fixture, ["httproutes.gateway.networking.k8s.io", "prod"], "/parents/0", "ResolvedRefs");
    let prefix = &fixture.rendered.names.prefix;
    let [team, edge] = [("team-a", "team-a-0"), ("edge", "edge-0")]
        .map(|(group, name)| fixture.envoy(&format!("{prefix}-envoys-{group}"), name, ports::free_address().unwrap()));
    for pod in [&team, &edge] {
        pod.wait("/readyz");
        is_confined(pod);
    }
    fixture.wait("Programmed", &[r#""status":"True""#]);
    assert_eq!(fixture.whoami_at(fixture.place.listener, NAME), "alice");
    let gateway = wait_true(&fixture, ["gateways.gateway.networking.k8s.io", "edge"], "", "Programmed");
    let listed = gateway["status"]["addresses"].as_array().unwrap();
    let addresses: BTreeSet<&str> = listed.iter().map(|one| one["value"].as_str().unwrap()).collect();
    assert_eq!(addresses, POD_IPS.split(',').collect(), "those of the pod");
    assert_eq!(fixture.whoami_at(listener, GATEWAY_HOST), "alice");
    wait::until_ok("the Instance counts them", SOON, || {
        let status = stored(&fixture, "instances", "a")["status"].clone();
        let is_counted = ["envoys", "gateways", "clusters"].iter().all(|field| status[field].as_u64() >= Some(1));
        if is_counted { Ok(()) } else { Err(status.to_string()) }
    })
    .unwrap();
}

fn apply(fixture: &Fixture, version: &str, kind: &str, metadata: &Value, spec: &Value) {
    let object = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
    fixture.cluster.apply(&kind.to_lowercase(), &object.to_string());
}

fn stored(fixture: &Fixture, plural: &str, name: &str) -> Value {
    let namespace = &fixture.rendered.names.namespace;
    fixture.cluster.kubectl(&["get", plural, name, "-n", namespace]).json().unwrap()
}

/// Waits until a condition at a place of an object's status is True; the object.
fn wait_true(fixture: &Fixture, [plural, name]: [&str; 2], place: &str, condition: &str) -> Value {
    wait::until_ok(&format!("{condition} of {plural} {name}"), SOON, || {
        let object = stored(fixture, plural, name);
        let listed = object.pointer(&format!("/status{place}/conditions")).and_then(Value::as_array).cloned();
        let is_true = |one: &Value| one["type"] == condition && one["status"] == "True";
        if listed.iter().flatten().any(is_true) { Ok(object) } else { Err(object["status"].to_string()) }
    })
    .unwrap()
}

/// A Gateway with an HTTPS listener and a route to the cluster, in the control plane's own namespace.
fn make_gateway(fixture: &Fixture, labels: &Value, port: u16) {
    let namespace = &fixture.rendered.names.namespace;
    let serving = fixture.serving_ca.issue(&CertSpec::server(GATEWAY_HOST, [GATEWAY_HOST])).unwrap();
    fixture.secret("edge-serving", &serving, None, None);
    let version = "gateway.networking.k8s.io/v1";
    let class = json!({"controllerName": "portcullis.dev/gateway-controller"});
    apply(fixture, version, "GatewayClass", &json!({"name": "portcullis"}), &class);
    let metadata = json!({"name": "edge", "namespace": namespace, "labels": labels});
    let listener = json!({
        "name": "https", "port": port, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "edge-serving"}]},
    });
    apply(fixture, version, "Gateway", &metadata, &json!({"gatewayClassName": "portcullis", "listeners": [listener]}));
    let backend = json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": NAME});
    let spec = json!({
        "parentRefs": [{"name": "edge"}], "hostnames": [GATEWAY_HOST], "rules": [{"backendRefs": [backend]}],
    });
    apply(fixture, version, "HTTPRoute", &json!({"name": "prod", "namespace": namespace}), &spec);
}
