use std::time::Duration;

use portcullis_e2e::allow_all;
use portcullis_harness::certs::CertSpec;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::process::Process;
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{KubeFixture, NAME};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn watch_survives_what_operators_do() {
    let Some(mut fixture) = KubeFixture::start("watch", &KubeOptions::default()) else { return };
    let watch = fixture.kubectl(&fixture.alice).args(["get", "pods", "-w", "-o", "name"]).spawn().unwrap();
    still_sees(&fixture, &watch, "before");

    let policies = json!([
        {"rules": [{"verbs": ["get"], "apiGroups": ["*"], "resources": ["nodes"]}]},
        {"rules": [allow_all()]},
    ]);
    fixture.gateway.apply(&fixture.manifest().policies(policies)).unwrap();
    still_sees(&fixture, &watch, "after-policies");

    let before = served_certificate(&fixture);
    fixture.gateway.apply(&fixture.manifest()).unwrap();
    let rotated = || (served_certificate(&fixture) != before).then_some(());
    wait::until("the new certificate is served", SOON, rotated).unwrap();
    still_sees(&fixture, &watch, "after-certificate");

    fixture.gateway_identity = fixture.kube.client_ca().issue(&CertSpec::client("portcullis", [""; 0])).unwrap();
    fixture.gateway.apply(&fixture.manifest()).unwrap();
    still_sees(&fixture, &watch, "after-client-certificate");

    fixture.gateway.restart_control_plane().unwrap();
    still_sees(&fixture, &watch, "after-restart");
    assert!(watch.is_running());
    assert!(watch.log().is_empty(), "kubectl saw no trouble: {}", watch.log());
}

#[test]
fn ban_ends_the_watch_of_kubectl() {
    let Some(fixture) = KubeFixture::start("ban", &KubeOptions::default()) else { return };
    let watches = |user| fixture.kubectl(user).args(["get", "pods", "-w", "-o", "name"]).spawn().unwrap();
    let bob = fixture.kube.client_ca().issue(&CertSpec::client("bob", ["system:masters"])).unwrap();
    let (banned, other) = (watches(&fixture.alice), watches(&bob));
    still_sees(&fixture, &banned, "before");
    still_sees(&fixture, &other, "as-well");

    let ban = json!({"deny": [{"users": ["alice"], "message": "ask the platform team"}]});
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis/access", ban)).unwrap();
    wait::until("the watch ends", SOON, || (!banned.is_running()).then_some(())).unwrap();
    still_sees(&fixture, &other, "after");
    assert!(other.is_running());
    let pods = "/api/v1/namespaces/default/pods";
    let refused = fixture.kubectl(&fixture.alice).args(["get", "--raw", pods]).run().unwrap();
    assert!(refused.stderr.contains("ask the platform team"), "{}", refused.stderr);
}

/// Creates a pod and waits until the watch shows it.
fn still_sees(fixture: &KubeFixture, watch: &Process, name: &str) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "none"}], "automountServiceAccountToken": false}});
    let file = fixture.run.write(&format!("{name}.json"), pod.to_string()).unwrap();
    fixture.admin(&["create", "-f", file.to_str().unwrap()]);
    let told = || watch.stdout().contains(&format!("pod/{name}\n")).then_some(());
    wait::until(&format!("the watch tells of {name}"), SOON, told)
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", watch.log(), fixture.gateway.envoy().process().log_tail()));
}

fn served_certificate(fixture: &KubeFixture) -> Vec<u8> {
    let connection = fixture.gateway.target(NAME).connect().unwrap();
    connection.server_certificates().into_iter().next().unwrap()
}
