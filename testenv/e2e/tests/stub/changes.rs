//! A changed manifest takes effect without a restart, and a wrong object affects no other.

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::project_root;
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture};

fn status_of(fixture: &StubFixture, name: &str, path: &str) -> u16 {
    let target = fixture.gateway.target(name).identity(&fixture.pki.alice);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    target.raw_request(request.as_bytes()).unwrap().status
}

#[test]
fn policies_change_while_the_gateway_runs() {
    let fixture = StubFixture::start("policies", &GatewayOptions::default());
    assert_eq!(status_of(&fixture, NAME, PODS), 200);
    let no_pods = json!([{"rules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["-pods"]}]}]);
    fixture.gateway.apply(&fixture.manifest().policies(no_pods)).unwrap();
    assert_eq!(status_of(&fixture, NAME, PODS), 403);
    assert_eq!(status_of(&fixture, NAME, "/api/v1/namespaces/default/configmaps"), 200);
    fixture.gateway.apply(&fixture.manifest()).unwrap();
    assert_eq!(status_of(&fixture, NAME, PODS), 200);
}

#[test]
fn subsets_send_requests_to_their_servers_only() {
    let fixture = StubFixture::start("subsets", &GatewayOptions::default());
    let second = fixture.pki.stub("stub-1");
    let servers = [fixture.stub.address(), second.address()];
    let manifest = fixture.cluster(NAME, servers).policies(json!([
        {"rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}],
         "upsteamSubset": [second.url()]},
        {"rules": [allow_all()], "upstreamSubset": [fixture.stub.url()]},
    ]));
    fixture.gateway.apply(&manifest).unwrap();
    let configmaps = "/api/v1/namespaces/default/configmaps";
    fixture.stub.clear();
    for _ in 0..10 {
        assert_eq!(status_of(&fixture, NAME, configmaps), 200);
        assert_eq!(status_of(&fixture, NAME, PODS), 200);
    }
    assert_eq!(second.records_for(configmaps).len(), 10);
    assert_eq!(second.records_for(PODS).len(), 0);
    assert_eq!(fixture.stub.records_for(PODS).len(), 10);
}

/// The policies of examples/policies, in front of three stubs.
#[test]
fn example_policies_choose_their_servers() {
    let fixture = StubFixture::start("example", &GatewayOptions::default());
    let others = [fixture.pki.stub("stub-1"), fixture.pki.stub("stub-2")];
    let example = std::fs::read_to_string(project_root().join("examples/policies/prod.yaml")).unwrap();
    let servers = [fixture.stub.url(), others[0].url(), others[1].url()];
    let example = (0..3).fold(example, |text, at| text.replace(&format!("https://10.0.0.1{at}:6443"), &servers[at]));
    let example: Value = serde_saphyr::from_str(&example).unwrap();
    let manifest = fixture
        .cluster(NAME, [fixture.stub.address(), others[0].address(), others[1].address()])
        .set("/spec/flowControl", example["spec"]["flowControl"].clone())
        .policies(example["spec"]["dispatchPolicies"].clone());
    fixture.gateway.apply(&manifest).unwrap();
    for _ in 0..10 {
        assert_eq!(status_of(&fixture, NAME, PODS), 200);
    }
    assert_eq!(fixture.stub.records_for(PODS).len(), 0, "the server of the nodes");
    assert!(others.iter().all(|server| !server.records_for(PODS).is_empty()));
}

#[test]
fn requests_are_balanced_one_by_one() {
    let fixture = StubFixture::start("balance", &GatewayOptions::default());
    let second = fixture.pki.stub("stub-1");
    let manifest = fixture.cluster(NAME, [fixture.stub.address(), second.address()]);
    fixture.gateway.apply(&manifest).unwrap();
    let client =
        portcullis_harness::client::H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice))
            .unwrap();
    // Workers learn of a new server one after the other; from then on a single connection reaches both.
    let reached = || {
        let response = client.get(PODS, &[]).ok()?;
        (response.status == 200 && !second.records_for(PODS).is_empty()).then_some(())
    };
    portcullis_harness::wait::until("the new server is reached", std::time::Duration::from_secs(20), reached).unwrap();
    // One of them may count for more as long as both are eased in.
    let in_turn = || {
        let servers: Vec<_> = (0..40).map(|_| client.get(PODS, &[]).unwrap().header("x-stub-name").unwrap()).collect();
        if servers.windows(2).all(|pair| pair[0] != pair[1]) { Ok(()) } else { Err(format!("{servers:?}")) }
    };
    let eased_in = std::time::Duration::from_secs(40);
    portcullis_harness::wait::until_ok("they are asked in turn", eased_in, in_turn).unwrap();
}

#[test]
fn edit_that_is_wrong_changes_nothing() {
    let fixture = StubFixture::start("bad-edit", &GatewayOptions::default());
    let told = |accepted: bool| {
        move |status: &serde_json::Value| {
            let objects = status["objects"].as_array().cloned().unwrap_or_default();
            objects.iter().any(|object| object["name"] == NAME && object["accepted"] == accepted)
        }
    };
    let soon = std::time::Duration::from_secs(20);
    fixture.gateway.write(&fixture.manifest().policies(json!([{"rules": []}]))).unwrap();
    let status = fixture.gateway.plane().wait_status("the edit is refused", soon, told(false)).unwrap();
    assert!(status.to_string().contains("accepted last is still served"), "{status}");
    assert_eq!(status_of(&fixture, NAME, PODS), 200);
    let closed = json!({"proxy.kubegateway.io/feature-gates": "DenyAllRequests=true"});
    fixture.gateway.apply(&fixture.manifest().set("/metadata/annotations", closed)).unwrap();
    assert_eq!(status_of(&fixture, NAME, PODS), 429);
    fixture.gateway.remove(NAME).unwrap();
    let gone = |status: &serde_json::Value| !told(true)(status) && !told(false)(status);
    fixture.gateway.plane().wait_status("the object is gone", soon, gone).unwrap();
    let target = portcullis_harness::client::TlsTarget::new(fixture.gateway.address()).sni(NAME);
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
    let gone = || (target.raw_request(request.as_bytes()).ok()?.status == 503).then_some(());
    portcullis_harness::wait::until("a removed object is served no more", soon, gone).unwrap();
}

#[test]
fn bad_object_takes_nobody_along() {
    let fixture = StubFixture::start("bad-object", &GatewayOptions::default());
    let bad = fixture.manifest().set("/metadata/name", json!("bad.example.com")).set("/spec/servers", json!([]));
    fixture.gateway.write(&bad).unwrap();
    fixture.gateway.write_file("broken.yaml", "kind: [").unwrap();
    let told = |status: &serde_json::Value| {
        let objects = status["objects"].as_array().cloned().unwrap_or_default();
        objects.iter().any(|object| object["name"] == "bad.example.com" && object["accepted"] == false)
    };
    fixture.gateway.plane().wait_status("the bad object is told", std::time::Duration::from_secs(20), told).unwrap();
    assert_eq!(status_of(&fixture, NAME, PODS), 200);
    let good = fixture
        .manifest()
        .set("/metadata/name", json!("good.example.com"))
        .serving(&fixture.gateway.serving_identity("good.example.com").unwrap(), &fixture.pki.client_ca);
    fixture.gateway.apply(&good).unwrap();
    assert_eq!(status_of(&fixture, "good.example.com", PODS), 200);
}
