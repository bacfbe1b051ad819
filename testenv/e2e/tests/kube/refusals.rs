//! A real kubectl reads the gateway's refusals as Kubernetes' own, and repeats what may be repeated.

use portcullis_e2e::{Manifest, allow_all};
use portcullis_harness::client::H2Client;
use portcullis_harness::kube::{KubeOptions, Output};
use portcullis_harness::ports;
use serde_json::{Value, json};

use crate::fixture::{KubeFixture, NAME};

#[test]
fn kubectl_understands_refusals() {
    let Some(fixture) = KubeFixture::start("refusals", &KubeOptions::default()) else { return };
    every_refusal_has_its_reason(&fixture);
    a_rate_is_waited_out(&fixture);
    a_server_that_is_gone_is_told_in_the_end(&fixture);
}

fn raw(fixture: &KubeFixture, path: &str) -> Output {
    fixture.kubectl(&fixture.alice).args(["get", "--raw", path]).run().unwrap()
}

fn every_refusal_has_its_reason(fixture: &KubeFixture) {
    let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": []});
    let nobody_runs = json!({"flowControlSchemas": [{"name": "none", "maxRequestsInflight": {"max": 0}}]});
    let gates = json!({"proxy.kubegateway.io/feature-gates": "DenyAllRequests=true"});
    let of = |rule: Value| json!([{"rules": [rule], "flowControlSchemaName": "none"}]);
    let narrow = fixture.manifest().policies(json!([{"rules": [pods]}]));
    let full = fixture.manifest().set("/spec/flowControl", nobody_runs).policies(of(allow_all()));
    let denying = json!({"rules": [allow_all()], "portcullis": {"action": "Deny", "message": "closed until Monday", "force": true}});
    let denied = fixture.manifest().policies(json!([denying, {"rules": [allow_all()]}]));
    let message = "(Forbidden): dispatch policy 0 of the gateway denies this request: closed until Monday";
    let rows: [(&str, Manifest, &str, &str); 5] = [
        ("no policy", narrow, "/version", "(Forbidden): no dispatch policy of the gateway matches"),
        ("denied", denied, "/version", message),
        ("no path", fixture.manifest(), "/api/v1/watch", "(BadRequest): "),
        (
            "closed",
            fixture.manifest().set("/metadata/annotations", gates),
            "/version",
            "(TooManyRequests): the gateway denies",
        ),
        ("no place", full, "/api/v1/namespaces/default/events", "(TooManyRequests): too many requests of this kind"),
    ];
    for (what, manifest, path, told) in rows {
        fixture.gateway.apply(&manifest).unwrap();
        let stderr = raw(fixture, path).stderr;
        assert!(stderr.contains(told), "{what}: {stderr}");
    }
}

fn a_rate_is_waited_out(fixture: &KubeFixture) {
    let slow = json!({"flowControlSchemas": [{"name": "slow", "tokenBucket": {"qps": 1, "burst": 1}}]});
    let policies = json!([{"rules": [allow_all()], "flowControlSchemaName": "slow"}]);
    fixture.gateway.apply(&fixture.manifest().set("/spec/flowControl", slow).policies(policies)).unwrap();
    let client = H2Client::connect(&fixture.target().identity(&fixture.alice)).unwrap();
    while client.get("/version", &[]).unwrap().status != 429 {}
    let waited = raw(fixture, "/version");
    assert!(waited.success() && waited.stdout.contains("gitVersion"), "{waited:?}");
}

fn a_server_that_is_gone_is_told_in_the_end(fixture: &KubeFixture) {
    let gone = Manifest::new(NAME, [ports::free_address().unwrap()])
        .upstream(&fixture.gateway_identity, fixture.kube.server_ca(), "kubernetes.default.svc")
        .serving(&fixture.gateway.serving_identity(NAME).unwrap(), fixture.kube.client_ca());
    fixture.gateway.apply(&gone).unwrap();
    let told = raw(fixture, "/version").stderr;
    assert!(told.contains("(ServiceUnavailable): no kube-apiserver of this cluster is healthy"), "{told}");
}
