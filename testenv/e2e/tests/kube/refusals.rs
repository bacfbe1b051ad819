//! A real kubectl reads the gateway's refusals as Kubernetes' own, and repeats what may be repeated.

use portcullis_e2e::{Manifest, allow_all};
use portcullis_harness::client::H2Client;
use portcullis_harness::kube::{KubeOptions, Output};
use portcullis_harness::ports;
use serde_json::{Value, json};

use crate::world::{NAME, World};

#[test]
fn kubectl_understands_refusals() {
    let Some(world) = World::start("refusals", &KubeOptions::default()) else { return };
    every_refusal_has_its_reason(&world);
    a_rate_is_waited_out(&world);
    a_server_that_is_gone_is_told_in_the_end(&world);
}

fn raw(world: &World, path: &str) -> Output {
    world.kubectl(&world.alice).args(["get", "--raw", path]).run().unwrap()
}

fn every_refusal_has_its_reason(world: &World) {
    let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": []});
    let nobody_runs = json!({"flowControlSchemas": [{"name": "none", "maxRequestsInflight": {"max": 0}}]});
    let gates = json!({"proxy.kubegateway.io/feature-gates": "DenyAllRequests=true"});
    let of = |rule: Value| json!([{"rules": [rule], "flowControlSchemaName": "none"}]);
    let narrow = world.manifest().policies(json!([{"rules": [pods]}]));
    let full = world.manifest().set("/spec/flowControl", nobody_runs).policies(of(allow_all()));
    let rows: [(&str, Manifest, &str, &str); 4] = [
        ("no policy", narrow, "/version", "(Forbidden): no dispatch policy of the gateway matches"),
        ("no path", world.manifest(), "/api/v1/watch", "(BadRequest): "),
        (
            "closed",
            world.manifest().set("/metadata/annotations", gates),
            "/version",
            "(TooManyRequests): the gateway denies",
        ),
        ("no place", full, "/api/v1/namespaces/default/events", "(TooManyRequests): too many requests of this kind"),
    ];
    for (what, manifest, path, told) in rows {
        world.gateway.apply(&manifest).unwrap();
        let stderr = raw(world, path).stderr;
        assert!(stderr.contains(told), "{what}: {stderr}");
    }
}

fn a_rate_is_waited_out(world: &World) {
    let slow = json!({"flowControlSchemas": [{"name": "slow", "tokenBucket": {"qps": 1, "burst": 1}}]});
    let policies = json!([{"rules": [allow_all()], "flowControlSchemaName": "slow"}]);
    world.gateway.apply(&world.manifest().set("/spec/flowControl", slow).policies(policies)).unwrap();
    let client = H2Client::connect(&world.target().identity(&world.alice)).unwrap();
    while client.get("/version", &[]).unwrap().status != 429 {}
    let waited = raw(world, "/version");
    assert!(waited.success() && waited.stdout.contains("gitVersion"), "{waited:?}");
}

fn a_server_that_is_gone_is_told_in_the_end(world: &World) {
    let gone = Manifest::new(NAME, [ports::free_address().unwrap()])
        .upstream(&world.gateway_identity, world.kube.server_ca(), "kubernetes.default.svc")
        .serving(&world.gateway.serving_identity(NAME).unwrap(), world.kube.client_ca());
    world.gateway.apply(&gone).unwrap();
    let told = raw(world, "/version").stderr;
    assert!(told.contains("(ServiceUnavailable): no kube-apiserver of this cluster is healthy"), "{told}");
}
