//! A cluster is closed and reopened step by step, by the profiles that every object has.

use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::{H2Client, Response, TlsConnection};
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};
use crate::pods::read_until;

const SOON: Duration = Duration::from_secs(20);
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const NODE: &str = "/api/v1/nodes/node-1";
const PATCH: [(&str, &[u8]); 1] = [("content-type", b"application/merge-patch+json")];

fn with_profile(fixture: &StubFixture, profile: &str) -> Manifest {
    let annotations = json!({"portcullis.dev/profile": profile});
    fixture.manifest().merge(&json!({"metadata": {"annotations": annotations}}))
}

fn step(fixture: &StubFixture, profile: &str) {
    fixture.gateway.apply(&with_profile(fixture, profile)).unwrap();
}

/// The statuses of all heartbeats of a node.
fn heartbeats(node: &H2Client, number: usize) -> [u16; 4] {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": format!("node-1-{number}")}, "spec": {"holderIdentity": "node-1"}});
    let json = [("content-type", &b"application/json"[..])];
    let status = br#"{"status": {"phase": "Running"}}"#;
    [
        node.request("POST", LEASES, &json, lease.to_string().as_bytes()).unwrap().status,
        node.request("PATCH", &format!("{LEASES}/node-1-{number}"), &PATCH, br#"{"spec": {}}"#).unwrap().status,
        node.get(NODE, &[]).unwrap().status,
        node.request("PATCH", &format!("{NODE}/status"), &PATCH, status).unwrap().status,
    ]
}

fn refused(answer: &Response, message: &str) {
    assert_eq!(answer.status, 429, "{}", answer.text());
    let status = answer.json().unwrap();
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("TooManyRequests")));
    assert!(answer.text().contains(message), "{}", answer.text());
}

/// One more request on an open HTTP/1.1 connection.
fn again(connection: &mut TlsConnection) -> Response {
    connection.write(format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n\r\n").as_bytes()).unwrap();
    connection.read_response(false).unwrap()
}

fn identity(fixture: &StubFixture, user: &str, group: &str) -> Identity {
    fixture.pki.client_ca.issue(&CertSpec::client(user, [group])).unwrap()
}

#[test]
fn frozen_cluster_reopens_for_heartbeats_first() {
    let fixture = StubFixture::start("freeze", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME);
    let connect = |identity: &Identity| H2Client::connect(&target.clone().identity(identity)).unwrap();
    let node = connect(&identity(&fixture, "system:node:node-1", "system:nodes"));
    let (alice, admin) = (connect(&fixture.pki.alice), connect(&fixture.pki.admin));
    let mut open = target.clone().identity(&fixture.pki.alice).connect().unwrap();
    let made = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}).to_string();
    let json = [("content-type", &b"application/json"[..])];
    assert_eq!(admin.request("POST", "/api/v1/nodes", &json, made.as_bytes()).unwrap().status, 201);
    let mut watch = alice.open("GET", "/api/v1/nodes?watch=true&resourceVersion=1", &[], b"").unwrap();
    assert_eq!((again(&mut open).status, watch.response.status), (200, 200));

    let edited = Instant::now();
    let freeze = || -> portcullis_harness::Result<()> {
        fixture.gateway.write(&with_profile(&fixture, "frozen"))?;
        let is_closed = || (alice.get(PODS, &[]).unwrap().status == 429).then_some(());
        wait::until("the cluster is closed", SOON, is_closed)?;
        eprintln!("an open connection was refused {:?} after the edit", edited.elapsed());
        Ok(())
    };
    fixture.gateway.and_wait(freeze).unwrap();
    for answer in [alice.get(PODS, &[]).unwrap(), again(&mut open), admin.get("/version", &[]).unwrap()] {
        refused(&answer, "denies all requests");
        assert_eq!(answer.header("retry-after"), None);
    }
    assert_eq!(heartbeats(&node, 1), [429; 4]);

    step(&fixture, "heartbeats");
    assert_eq!(heartbeats(&node, 2), [201, 200, 200, 200]);
    for answer in [alice.get(PODS, &[]).unwrap(), node.get(PODS, &[]).unwrap(), again(&mut open)] {
        refused(&answer, "too many requests of this kind");
        assert!(matches!(answer.retry_after(), Some(1..=4)), "{answer:?}");
    }
    let told = alice.get("/api/v1/namespaces/kube-node-lease/pods", &[]).unwrap();
    refused(&told, "too many requests of this kind");
    assert_eq!(admin.get(PODS, &[]).unwrap().status, 200, "operators may look");
    // The watch has been open all the time, and reports the node's status.
    read_until(&mut watch, "Running").unwrap();

    step(&fixture, "trickle");
    assert_eq!(heartbeats(&node, 3), [201, 200, 200, 200]);
    assert_eq!((alice.get(PODS, &[]).unwrap().status, node.get(PODS, &[]).unwrap().status), (200, 200));
    let statuses: Vec<_> = (0..500).map(|_| alice.get(PODS, &[]).unwrap().status).collect();
    assert!(statuses.contains(&200) && statuses.contains(&429), "they come in at a rate");
    assert_eq!(heartbeats(&node, 4), [201, 200, 200, 200], "while others wait");

    fixture.gateway.apply(&fixture.manifest()).unwrap();
    assert!((0..100).all(|_| alice.get(PODS, &[]).unwrap().status == 200));
    assert_eq!(again(&mut open).status, 200);
}
