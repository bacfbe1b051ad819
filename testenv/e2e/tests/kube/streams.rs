use std::time::Duration;

use portcullis_e2e::allow_all;
use portcullis_harness::certs::CertSpec;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::process::Process;
use portcullis_harness::wait;
use serde_json::json;

use crate::world::{NAME, World};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn watch_survives_what_operators_do() {
    let Some(mut world) = World::start("watch", &KubeOptions::default()) else { return };
    let watch = world.kubectl(&world.alice).args(["get", "pods", "-w", "-o", "name"]).spawn().unwrap();
    still_sees(&world, &watch, "before");

    let policies = json!([
        {"rules": [{"verbs": ["get"], "apiGroups": ["*"], "resources": ["nodes"]}]},
        {"rules": [allow_all()]},
    ]);
    world.gateway.apply(&world.manifest().policies(policies)).unwrap();
    still_sees(&world, &watch, "after-policies");

    let before = served_certificate(&world);
    world.gateway.apply(&world.manifest()).unwrap();
    let rotated = || (served_certificate(&world) != before).then_some(());
    wait::until("the new certificate is served", SOON, rotated).unwrap();
    still_sees(&world, &watch, "after-certificate");

    world.gateway_identity = world.kube.client_ca().issue(&CertSpec::client("portcullis", [""; 0])).unwrap();
    world.gateway.apply(&world.manifest()).unwrap();
    still_sees(&world, &watch, "after-client-certificate");

    world.gateway.restart_control_plane().unwrap();
    still_sees(&world, &watch, "after-restart");
    assert!(watch.is_running());
    assert!(watch.log().is_empty(), "kubectl saw no trouble: {}", watch.log());
}

/// Creates a pod and waits until the watch shows it.
fn still_sees(world: &World, watch: &Process, name: &str) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "none"}], "automountServiceAccountToken": false}});
    let file = world.run.write(&format!("{name}.json"), pod.to_string()).unwrap();
    world.admin(&["create", "-f", file.to_str().unwrap()]);
    let told = || watch.stdout().contains(&format!("pod/{name}\n")).then_some(());
    wait::until(&format!("the watch tells of {name}"), SOON, told)
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", watch.log(), world.gateway.envoy().process().log_tail()));
}

fn served_certificate(world: &World) -> Vec<u8> {
    let connection = world.gateway.target(NAME).connect().unwrap();
    connection.server_certificates().into_iter().next().unwrap()
}
