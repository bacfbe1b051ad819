//! Lines of the access log about slow and failed requests, whatever the log mode.

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::H2Client;
use portcullis_harness::deps;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::access_log::{line, lines};
use crate::fixture::{NAME, PODS, StubFixture};

#[test]
fn slow_and_failed_requests_are_logged_and_no_others() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        logged(&StubFixture::start(&format!("conspicuous-{version}"), &options));
    }
}

#[test]
fn slow_and_failed_requests_are_logged_by_wasm() {
    let options = GatewayOptions { wasm: Some(deps::wasm().unwrap()), ..GatewayOptions::default() };
    logged(&StubFixture::start("conspicuous-wasm", &options));
}

fn logged(fixture: &StubFixture) {
    let manifest = fixture.manifest().policies(json!([{"rules": [allow_all()], "logMode": "off"}]));
    fixture.gateway.apply(&manifest.set("/spec/portcullis", json!({"logging": {"slow": "1s"}}))).unwrap();
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let get = |path: &str, agent: &str| alice.get(path, &[("user-agent", agent)]).unwrap().status;
    fixture.stub.fault(Fault::new(PODS, Action::Delay { millis: 1_500 }).times(1));
    let failing = Action::Respond { status: 500, headers: Vec::new(), body: String::new() };
    fixture.stub.fault(Fault::new("/api/v1/namespaces/default/secrets", failing).times(1));
    assert_eq!(get("/api/v1/namespaces/default/services", "quick"), 200);
    assert_eq!(get(PODS, "slow"), 200);
    assert_eq!(get("/api/v1/namespaces/default/secrets?secret=hidden", "failed"), 500);

    let slow = line(fixture, "slow");
    for (name, value) in json!({
        "cluster": NAME, "user": "alice", "verb": "list", "resource": "pods", "namespace": "default", "policy": "0",
        "path": PODS, "decision": "forwarded", "code": 200, "conspicuous": "slow", "longestPhase": "server",
    })
    .as_object()
    .unwrap()
    {
        assert_eq!(&slow[name], value, "{name} in {slow}");
    }
    let server = slow["serverMs"].as_u64().unwrap();
    assert!((1_500..10_000).contains(&server) && !slow["requestId"].as_str().unwrap().is_empty(), "{slow}");
    let failed = line(fixture, "failed");
    assert_eq!((&failed["conspicuous"], &failed["code"]), (&json!("failed"), &json!(500)), "{failed}");
    assert_eq!(failed["path"], "/api/v1/namespaces/default/secrets", "without its query");
    assert!(lines(fixture).iter().all(|line| line["userAgent"] != "quick"), "came before both");
    let log = fixture.gateway.envoy().process().log();
    assert!(!log.contains("Unsupported attribute"), "an error in the log for each request: {log}");
}
