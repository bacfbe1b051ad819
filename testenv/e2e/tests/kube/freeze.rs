//! A cluster is closed and reopened step by step, with a real kube-apiserver.

use std::time::Duration;

use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::H2Client;
use portcullis_harness::kube::KubeOptions;
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::KubeFixture;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1";
const NODE: &str = "/api/v1/nodes/node-1";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SOON: Duration = Duration::from_secs(20);

/// As an operator with a directory of manifests does it.
fn step(fixture: &KubeFixture, profile: &str) {
    let annotations = json!({"portcullis.dev/profile": profile});
    fixture.gateway.apply(&fixture.manifest().merge(&json!({"metadata": {"annotations": annotations}}))).unwrap();
}

/// Nodes may do what the node authorizer, which needs a controller, would let them.
fn grant(fixture: &KubeFixture) {
    for (name, role) in [("heartbeats", "system:node"), ("reads", "view")] {
        let role = format!("--clusterrole={role}");
        fixture.admin(&["create", "clusterrolebinding", name, &role, "--group=system:nodes"]);
    }
    let object = |text: String, name: &str| {
        let file = fixture.run.write(name, text).unwrap();
        fixture.admin(&["create", "-f", file.to_str().unwrap()]);
    };
    object(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}).to_string(), "node.json");
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "node-1", "namespace": "kube-node-lease"}, "spec": {"holderIdentity": "node-1"}});
    object(lease.to_string(), "lease.json");
}

fn heartbeats(node: &H2Client) -> [u16; 3] {
    let patch = [("content-type", &b"application/strategic-merge-patch+json"[..])];
    let status = br#"{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}"#;
    [
        node.request("PATCH", LEASE, &patch, br#"{"spec": {"leaseDurationSeconds": 40}}"#).unwrap().status,
        node.get(NODE, &[]).unwrap().status,
        node.request("PATCH", &format!("{NODE}/status"), &patch, status).unwrap().status,
    ]
}

#[test]
fn heartbeats_pass_while_a_list_waits_and_later_all_pass() {
    let Some(fixture) = KubeFixture::start("freeze", &KubeOptions::default()) else { return };
    grant(&fixture);
    let spec = CertSpec::client("system:node:node-1", ["system:nodes"]);
    let node = fixture.kube.client_ca().issue(&spec).unwrap();
    let node = H2Client::connect(&fixture.target().identity(&node)).unwrap();
    let alice = H2Client::connect(&fixture.target().identity(&fixture.alice)).unwrap();
    let list = || alice.get(PODS, &[]).unwrap();
    assert_eq!((heartbeats(&node), list().status), ([200; 3], 200));

    step(&fixture, "frozen");
    assert_eq!((heartbeats(&node), list().status), ([429; 3], 429));

    step(&fixture, "heartbeats");
    assert_eq!(heartbeats(&node), [200; 3]);
    let answer = list();
    assert!(answer.status == 429 && matches!(answer.retry_after(), Some(1..=4)), "{answer:?}");
    let told = fixture.kubectl(&fixture.alice).args(["get", "--raw", PODS]).run().unwrap();
    assert!(told.stderr.contains("too many requests"), "{told:?}");

    step(&fixture, "trickle");
    assert_eq!((heartbeats(&node), list().status), ([200; 3], 200));

    fixture.gateway.apply(&fixture.manifest()).unwrap();
    assert_eq!((heartbeats(&node), list().status), ([200; 3], 200));
}

#[test]
fn operators_pass_a_freeze_with_protected_identities() {
    let Some(fixture) = KubeFixture::start("freeze-protected", &KubeOptions::default()) else { return };
    let admin = "--clusterrole=cluster-admin";
    fixture.admin(&["create", "clusterrolebinding", "operators", admin, "--group=kubeadm:cluster-admins"]);
    let client = |name: &str, group: &str| {
        let identity = fixture.kube.client_ca().issue(&CertSpec::client(name, [group])).unwrap();
        H2Client::connect(&fixture.target().identity(&identity)).unwrap()
    };
    let alice = H2Client::connect(&fixture.target().identity(&fixture.alice)).unwrap();
    let protected = json!({"groups": ["system:masters"]});
    fixture.gateway.change_settings(|spec| spec["protectedIdentities"] = protected).unwrap();
    let status = |client: &H2Client| client.get("/api/v1/nodes", &[]).unwrap().status;
    // Settings are the listener's matter: connections from before drain.
    let is_protected = || (status(&client("root", "system:masters")) == 403).then_some(());
    wait::until("system:masters is refused", SOON, is_protected).unwrap();
    let steps = [("frozen", [429; 3]), ("heartbeats", [200, 403, 429]), ("trickle", [200, 403, 200])];
    for (profile, [of_operators, of_masters, of_others]) in steps {
        step(&fixture, profile);
        assert_eq!(status(&client("operator", "kubeadm:cluster-admins")), of_operators, "{profile}");
        assert_eq!(status(&client("root", "system:masters")), of_masters, "{profile}");
        assert_eq!(alice.get(PODS, &[]).unwrap().status, of_others, "{profile}");
    }
}
