//! Upgrades that are refused, and upgrades that bring more than a head: nothing of them is ever a second request.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};

const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec";
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// Another user's request.
const SMUGGLED: &str = "/api/v1/namespaces/kube-system/secrets";
const KINDS: [&str; 2] = ["SPDY/3.1", "websocket"];

fn smuggled() -> String {
    format!(
        "GET {SMUGGLED} HTTP/1.1\r\nHost: {NAME}\r\nImpersonate-User: admin\r\nImpersonate-Group: system:masters\r\n\r\n"
    )
}

fn upgrade(path: &str, kind: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: {kind}\r\n{more}\r\n")
}

/// A cluster with something to refuse in every way.
fn refusing(fixture: &StubFixture) -> Manifest {
    let of = |resource: &str| json!({"verbs": ["*"], "apiGroups": ["*"], "resources": [resource]});
    let none = json!({"flowControlSchemas": [{"name": "none", "maxRequestsInflight": {"max": 0}}]});
    let policies = json!([
        {"rules": [of("services/proxy")], "flowControlSchemaName": "none"},
        {"rules": [of("pods"), of("pods/exec")]},
    ]);
    fixture.manifest().set("/spec/flowControl", none).policies(policies)
}

#[test]
fn refused_upgrade_is_the_last_request_of_its_connection() {
    let fixture = StubFixture::start("refused-upgrades", &GatewayOptions::default());
    fixture.gateway.apply(&refusing(&fixture)).unwrap();
    let pod = |status: u16| format!("/api/v1/namespaces/default/pods/of-{status}/exec");
    for status in [200, 401, 403, 404, 429, 500, 503] {
        let action = Action::Respond { status, headers: Vec::new(), body: "{}".to_owned() };
        fixture.stub.fault(Fault::new(&pod(status), action));
    }
    fixture
        .stub
        .fault(Fault::new(TOKEN_REVIEWS, Action::Respond { status: 500, headers: Vec::new(), body: String::new() }));
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let nobody = fixture.gateway.target(NAME);
    let token = "Authorization: Bearer nobody-knows\r\n";
    let by_gateway = [
        (&alice, "/api/v1/namespaces/a%2Fb/pods/p/exec".to_owned(), "", 400),
        (&alice, EXEC.to_owned(), "Content-Length: 5\r\n", 400),
        (&alice, "/apis/apps/v1/deployments".to_owned(), "", 403),
        (&alice, EXEC.to_owned(), "Impersonate-User: bob\r\n", 403),
        (&alice, "/api/v1/namespaces/default/services/s/proxy/".to_owned(), "", 429),
        (&nobody, EXEC.to_owned(), token, 503),
    ];
    // A 401 of the upstream is about the gateway's own credential.
    let by_upstream = [(200, 200), (401, 503), (403, 403), (404, 404), (429, 429), (500, 500), (503, 503)]
        .map(|(status, expected)| (&alice, pod(status), "", expected));
    // Envoy takes a second to close each connection.
    std::thread::scope(|scope| {
        for (target, path, more, expected) in by_gateway.iter().chain(&by_upstream) {
            for kind in KINDS {
                scope.spawn(move || at_once(target, &upgrade(path, kind, more), *expected));
                scope.spawn(move || after_the_answer(target, &upgrade(path, kind, more), *expected));
            }
        }
    });
    let seen = fixture.stub.records_for(SMUGGLED);
    assert!(seen.is_empty(), "{seen:?}");
    assert_eq!(fixture.stub.records_for(&pod(403)).len(), 2 * KINDS.len());
}

/// The other request is on its way before the answer comes.
fn at_once(target: &TlsTarget, head: &str, expected: u16) {
    let mut connection = target.connect().unwrap();
    connection.write(format!("{head}{}", smuggled()).as_bytes()).unwrap();
    let answers = String::from_utf8_lossy(&connection.read_to_end().unwrap()).into_owned();
    assert!(answers.starts_with(&format!("HTTP/1.1 {expected} ")), "{head}{answers}");
    assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{head}{answers}");
}

/// The client reads the refusal and goes on as if the connection were still good for a request.
fn after_the_answer(target: &TlsTarget, head: &str, expected: u16) {
    let mut connection = target.connect().unwrap();
    connection.write(head.as_bytes()).unwrap();
    let answer = connection.read_response(false).unwrap();
    assert_eq!(answer.status, expected, "{head}{}", answer.text());
    assert_eq!(answer.header("connection").as_deref(), Some("close"), "{head}");
    // Envoy may have closed already.
    let _ = connection.write(smuggled().as_bytes());
    assert_eq!(connection.read_to_end().unwrap_or_default(), b"", "{head}");
}

#[test]
fn upgrade_is_a_head_and_nothing_else() {
    let fixture = StubFixture::start("upgrade-bodies", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    for (framing, body, expected) in [
        ("Content-Length: 0\r\n", "", 101),
        ("Expect: 100-continue\r\n", "", 101),
        // Neither side takes it for a body.
        ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", 101),
        ("Content-Length: 5\r\n", "hello", 400),
        ("Content-Length: 5\r\n", "", 400),
        ("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello", 400),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", 400),
        ("Content-Length: 0\r\nContent-Length: 5\r\n", "hello", 400),
    ] {
        for kind in KINDS {
            fixture.stub.clear();
            let mut connection = target.connect().unwrap();
            connection.write(format!("{}{body}", upgrade(EXEC, kind, framing)).as_bytes()).unwrap();
            let answer = connection.read_response(false).unwrap();
            assert_eq!(answer.status, expected, "{kind} {framing}: {}", answer.text());
            let records = fixture.client_records();
            assert_eq!(records.len(), usize::from(expected == 101), "{kind} {framing}: {records:?}");
            if let [record] = &records[..] {
                assert_eq!((record.header("expect"), record.header("transfer-encoding")), (None, None));
                connection.write(b"through").unwrap();
                let echo = format!("{body}through");
                assert_eq!(connection.read_exact(echo.len()).unwrap(), echo.as_bytes(), "{kind} {framing}");
            }
        }
    }
}

/// kube-apiserver looks for the word in any case and among others.
#[test]
fn every_spelling_of_an_upgrade_is_one_and_arrives_in_one() {
    let fixture = StubFixture::start("upgrade-spellings", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice).timeout(Duration::from_secs(10));
    for (connection, upgrade) in [
        ("Connection: Upgrade", "websocket"),
        ("Connection: upgrade", "WebSocket"),
        ("connection: UPGRADE", "SPDY/3.1"),
        ("Connection: keep-alive, Upgrade", "websocket"),
        ("Connection: keep-alive,\tupgrade ,", "spdy/3.1"),
        ("Connection: keep-alive\r\nConnection: Upgrade", "websocket"),
        ("Connection: Upgrade, close", "SPDY/3.1"),
    ] {
        fixture.stub.clear();
        let head = format!("GET {EXEC} HTTP/1.1\r\nHost: {NAME}\r\n{connection}\r\nUpgrade: {upgrade}\r\n\r\n");
        let mut session = target.connect().unwrap();
        session.write(head.as_bytes()).unwrap();
        assert_eq!(session.read_head().unwrap().status, 101, "{connection}, {upgrade}");
        let record = fixture.stub.records_for(EXEC).pop().unwrap();
        assert_eq!(record.header_all("connection"), ["Upgrade"], "{connection}");
        assert_eq!(record.header_all("upgrade"), [upgrade]);
    }
}

#[test]
fn token_among_subprotocols_is_believed_and_goes_no_further() {
    let fixture = StubFixture::start("upgrade-token", &GatewayOptions::default());
    let nobody = fixture.gateway.target(NAME);
    let encoded = "base64url.bearer.authorization.k8s.io.dGhlLXRva2VuLW9mLXRoZS1yb2JvdA";
    let both = format!("Sec-WebSocket-Protocol: v5.channel.k8s.io, {encoded}, v4.channel.k8s.io\r\n");
    let lines = format!("Sec-WebSocket-Protocol: {encoded}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n");
    for (protocols, kept) in [(&both, "v5.channel.k8s.io,v4.channel.k8s.io"), (&lines, "v5.channel.k8s.io")] {
        let answer = nobody.raw_request(upgrade(EXEC, "websocket", protocols).as_bytes()).unwrap();
        assert_eq!(answer.status, 101, "{protocols}{}", answer.text());
        assert_eq!(answer.header("sec-websocket-protocol").as_deref(), Some("v5.channel.k8s.io"));
        let record = fixture.stub.records_for(EXEC).pop().unwrap();
        assert_eq!(record.header_all("sec-websocket-protocol"), [kept]);
        assert_eq!(record.effective.as_ref().unwrap().username, "robot");
        assert!(!record.headers.iter().any(|header| header.value.windows(4).any(|part| part == b"dGhl")));
    }
    let alone = format!("Sec-WebSocket-Protocol: {encoded}\r\n");
    let bad = format!("Sec-WebSocket-Protocol: v5.channel.k8s.io, {encoded}x\r\n");
    let two = format!("{both}Sec-WebSocket-Protocol: {encoded}\r\n");
    fixture.stub.clear();
    for protocols in [&alone, &bad, &two] {
        let answer = nobody.raw_request(upgrade(EXEC, "websocket", protocols).as_bytes()).unwrap();
        assert_eq!(answer.status, 401, "{protocols}{}", answer.text());
    }
    assert!(fixture.stub.records_for(EXEC).is_empty());
}

#[test]
fn no_upgrade_comes_over_http_2() {
    let fixture = StubFixture::start("extended-connect", &GatewayOptions::default());
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    for protocol in ["websocket", "SPDY/3.1"] {
        let client = H2Client::connect(&alice).unwrap();
        assert_eq!(client.get(PODS, &[]).unwrap().status, 200);
        fixture.stub.clear();
        // Envoy offers no such thing, and ends the connection of a client that asks for it all the same.
        let answer = client.extended_connect(protocol, EXEC);
        assert!(answer.is_err(), "{protocol}: {answer:?}");
        assert!(fixture.client_records().is_empty());
    }
}
