//! Connections that are passed on to a real kube-apiserver: it sees the client's own certificate.

use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::Identity;
use portcullis_harness::kube::{KubeOptions, Kubectl};
use portcullis_harness::wait;
use serde_json::{Value, json};

use crate::fixture::{KubeFixture, NAME};
use crate::kubectl::whoami;

const SOON: Duration = Duration::from_secs(30);
const JUDGED: &str = "judged.example.com";

/// kubectl by the name whose connections are passed on: the apiserver's own authority is trusted.
fn passed_on(fixture: &KubeFixture, user: &Identity) -> Kubectl {
    let kubeconfig = fixture.gateway.kubeconfig(NAME).ca(fixture.kube.server_ca());
    fixture.kube.kubectl(&fixture.written(&kubeconfig.identity(user)))
}

fn judged(fixture: &KubeFixture, user: &Identity) -> Kubectl {
    let kubeconfig = fixture.gateway.kubeconfig(JUDGED).identity(user);
    fixture.kube.kubectl(&fixture.written(&kubeconfig))
}

/// The audit event of a request for the version that carries this mark.
fn audited(fixture: &KubeFixture, kubectl: Kubectl, mark: &str) -> Value {
    kubectl.args(["get", "--raw", &format!("/version?case={mark}")]).run_ok().unwrap();
    let is_it = |event: &Value| event["requestURI"].as_str().is_some_and(|uri| uri.ends_with(mark));
    fixture.kube.apiservers()[0].wait_audit(mark, SOON, is_it).unwrap()
}

#[test]
fn kubectl_is_its_own_user_where_connections_are_passed_on() {
    let options = KubeOptions { server_names: vec![NAME.to_owned()], ..KubeOptions::default() };
    let Some(fixture) = KubeFixture::of("transport", &options, &GatewayOptions::default()) else { return };
    let beside = fixture.manifest().set("/metadata/name", json!(JUDGED));
    let serving = fixture.gateway.serving_identity(JUDGED).unwrap();
    fixture.gateway.apply(&beside.serving(&serving, fixture.kube.client_ca())).unwrap();
    let transport = fixture.portcullis(json!({"transport": "TLSPassthrough"}));
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", transport)).unwrap();

    let direct = fixture.kube.kubeconfig().identity(&fixture.alice).write(&fixture.run.join("direct")).unwrap();
    assert_eq!(whoami(passed_on(&fixture, &fixture.alice)), whoami(fixture.kube.kubectl(&direct)), "extras included");
    let event = audited(&fixture, passed_on(&fixture, &fixture.alice), "passed-on");
    assert_eq!((&event["user"]["username"], event.get("impersonatedUser")), (&json!("alice"), None), "{event}");
    let event = audited(&fixture, judged(&fixture, &fixture.alice), "judged");
    assert_eq!(event["user"]["username"], "portcullis", "{event}");
    assert_eq!(event["impersonatedUser"]["username"], "alice", "{event}");

    let alice = |args: &[&str]| passed_on(&fixture, &fixture.alice).args(args);
    let watch = alice(&["get", "configmaps", "-w", "-o", "name"]).spawn().unwrap();
    alice(&["create", "configmap", "passed-on", "--from-literal=a=1"]).run_ok().unwrap();
    let seen = || watch.stdout().contains("configmap/passed-on").then_some(());
    wait::until("the watch sees it", SOON, seen).unwrap();
    let refused = alice(&["get", "secrets", "-n", "kube-system"]).run().unwrap();
    assert!(refused.stderr.contains("Forbidden"), "{}", refused.stderr);

    // The way back: the gateway's own certificate again, and its policies.
    fixture.gateway.apply(&fixture.manifest()).unwrap();
    fixture.gateway.wait_for_every_worker().unwrap();
    assert!(!passed_on(&fixture, &fixture.alice).args(["get", "--raw", "/version"]).run().unwrap().success());
    assert_eq!(whoami(fixture.kubectl(&fixture.alice))["username"], "alice");
}
