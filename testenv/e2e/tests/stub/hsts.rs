//! `listener.hsts`: every answer has the one header, a server's, the filter's and Envoy's own.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{H2Client, Response, TlsTarget};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture};

const HSTS: &str = "strict-transport-security";

fn start(test: &str, listener: Value) -> StubFixture {
    StubFixture::start(test, &GatewayOptions { listener, ..GatewayOptions::default() })
}

fn h1(target: &TlsTarget, request: &str) -> Response {
    target.raw_request(format!("{request}\r\n\r\n").as_bytes()).unwrap()
}

/// Answers of every origin, each with its status.
fn answers(fixture: &StubFixture) -> Vec<(&'static str, u16, Response)> {
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let h2 = H2Client::connect(&target).unwrap();
    let get = |path: &str, rest: &str| h1(&target, &format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\n{rest}"));
    let denied = [("impersonate-user", "eve")];
    let unknown = fixture.gateway.target("localhost").identity(&fixture.pki.alice);
    let mut answers = vec![
        ("a server's, HTTP/2", 200, h2.get(PODS, &[]).unwrap()),
        ("a server's, HTTP/1.1", 200, get(PODS, "X-Test: a")),
        ("the filter's, HTTP/2", 403, h2.get(PODS, &denied).unwrap()),
        ("the filter's, HTTP/1.1", 403, get(PODS, "Impersonate-User: eve")),
        ("of no request", 400, h1(&target, "NONSENSE")),
        ("of headers that are too large", 431, get(PODS, &format!("x-large: {}", "a".repeat(70_000)))),
        ("of a version that is not served", 426, h1(&target, &format!("GET / HTTP/1.0\r\nHost: {NAME}"))),
        ("of an upgrade of no known kind", 400, get(PODS, "Connection: Upgrade\r\nUpgrade: tea")),
        ("of a route to nothing", 404, h1(&target, &format!("OPTIONS * HTTP/1.1\r\nHost: {NAME}"))),
        ("of an unknown name", 503, H2Client::connect(&unknown).unwrap().get(PODS, &[]).unwrap()),
    ];
    fixture.stub.fault(Fault::new(PODS, Action::CloseConnection));
    answers.push(("of a server that breaks off", 503, h2.get(PODS, &[]).unwrap()));
    answers
}

#[test]
fn strict_transport_security_is_in_every_answer() {
    let fixture = start("hsts", json!({"hsts": {"maxAgeSeconds": 31_536_000, "includeSubDomains": true}}));
    for (what, status, answer) in answers(&fixture) {
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        assert_eq!(answer.header_all(HSTS), ["max-age=31536000; includeSubDomains"], "{what}");
    }
}

#[test]
fn strict_transport_security_is_in_no_answer_without_it() {
    let fixture = start("hsts-none", json!({}));
    for (what, _, answer) in answers(&fixture) {
        assert_eq!(answer.header(HSTS), None, "{what}");
    }
}
