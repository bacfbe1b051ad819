//! Attacks of a hostile client beyond single headers.

use std::time::{Duration, Instant};

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::deps;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::fixture::{NAME, PODS, ROBOT, StubFixture, assert_asked, given_up};

/// A request that only another user than the client could send.
const SMUGGLED: &str = "/api/v1/namespaces/kube-system/secrets";

#[test]
fn bytes_after_a_refused_upgrade_are_no_request() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let fixture = StubFixture::start("smuggling", &options);
        let (nobody, robot) = (fixture.gateway.target(NAME), format!("Authorization: Bearer {ROBOT}\r\n"));
        let alice = nobody.clone().identity(&fixture.pki.alice);
        let chunked = ("Transfer-Encoding: chunked\r\n", "0\r\n\r\n");
        // Envoy takes a second to close each connection.
        std::thread::scope(|scope| {
            for (target, token) in [(&alice, ""), (&nobody, ""), (&nobody, &*robot)] {
                for kind in ["SPDY/3.1", "websocket"] {
                    for (framing, body) in [("", ""), ("Content-Length: 0\r\n", ""), chunked] {
                        scope.spawn(move || pipeline(target, &format!("{token}Upgrade: {kind}\r\n{framing}"), body));
                    }
                }
            }
        });
        let seen = fixture.stub.records_for(SMUGGLED);
        assert!(seen.is_empty(), "{version}: {seen:?}");
        assert!(!fixture.stub.records_for(PODS).is_empty(), "{version}");
    }
}

/// Asks for an upgrade where there is none to be had, and sends another request behind it.
fn pipeline(target: &TlsTarget, headers: &str, body: &str) {
    let request = format!(
        "GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\n{headers}\r\n{body}\
         GET {SMUGGLED} HTTP/1.1\r\nHost: {NAME}\r\nImpersonate-User: admin\r\nImpersonate-Group: system:masters\r\n\r\n"
    );
    let mut connection = target.connect().unwrap();
    connection.write(request.as_bytes()).unwrap();
    let answer = connection.read_to_end().unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 "), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn bytes_before_the_101_arrive_after_it() {
    let exec = "/api/v1/namespaces/default/pods/p/exec?command=x";
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let fixture = StubFixture::start("early-bytes", &options);
        let nobody = fixture.gateway.target(NAME).timeout(Duration::from_secs(10));
        let alice = nobody.clone().identity(&fixture.pki.alice);
        let robot = format!("Authorization: Bearer {ROBOT}\r\n");
        for (target, token) in [(&alice, ""), (&nobody, &*robot)] {
            for kind in ["SPDY/3.1", "websocket"] {
                for (early, late) in [("", "late"), ("early", "late"), ("early", "")] {
                    let mut connection = target.connect().unwrap();
                    let head = format!(
                        "POST {exec} HTTP/1.1\r\nHost: {NAME}\r\n{token}Connection: Upgrade\r\nUpgrade: {kind}\r\n\r\n{early}"
                    );
                    connection.write(head.as_bytes()).unwrap();
                    let case = format!("{version}, {token}, {kind}, {early:?}, {late:?}");
                    assert_eq!(connection.read_head().unwrap().status, 101, "{case}");
                    connection.write(late.as_bytes()).unwrap();
                    let echo = connection.read_exact(early.len() + late.len()).unwrap();
                    assert_eq!(String::from_utf8_lossy(&echo), format!("{early}{late}"), "{case}");
                }
            }
        }
    }
}

/// The owner of an upstream writes the answers to its reviews; the gateway's memory is shared by all upstreams.
#[test]
fn large_answers_to_reviews_are_not_kept() {
    let fixture = StubFixture::start("large-answers", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME);
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    // The upstream's own limit refuses the first; the second is no user for anybody; the others are no answers.
    for (kib, expected, asked) in [(16, 431, 1), (128, 401, 1), (384, 503, 2), (8192, 503, 2)] {
        let user = json!({"authenticated": true, "user": {"username": "u".repeat(kib << 10), "groups": ["dev"]}});
        let answer = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": user});
        fixture.stub.clear_faults();
        fixture.stub.clear();
        let (since, given_up_before) = (Instant::now(), given_up(&fixture.gateway));
        let action = Action::Respond { status: 201, headers: Vec::new(), body: answer.to_string() };
        fixture.stub.fault(Fault::new(reviews, action));
        for _ in 0..2 {
            let request = format!(
                "GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nAuthorization: Bearer {kib}\r\n\r\n"
            );
            assert_eq!(target.raw_request(request.as_bytes()).unwrap().status, expected, "{kib} KiB");
        }
        // A server that takes its time is asked again.
        let given_up = given_up(&fixture.gateway) - given_up_before;
        assert_asked(fixture.stub.records_for(reviews).len(), asked, given_up, since);
    }
}
