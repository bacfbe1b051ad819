//! Attacks that depend on how a real kube-apiserver reads its connections.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::deps;
use portcullis_harness::kube::KubeOptions;

use serde_json::json;

use crate::fixture::{Identities, KubeFixture, NAME};

/// kube-apiserver reads on after it has refused an upgrade: what it then reads is a request on a connection that carries the
/// gateway's credential.
#[test]
fn bytes_after_a_refused_upgrade_are_no_request() {
    let older = deps::envoy_compat_versions().into_iter().map(|version| (Identities::Impersonate, Some(version)));
    for (identities, envoy_version) in older.chain([(Identities::RequestHeader, None)]) {
        let version = format!("{identities:?}, {envoy_version:?}");
        let gateway = GatewayOptions { envoy_version, ..GatewayOptions::default() };
        let Some(fixture) = KubeFixture::forwarding(identities, "smuggling", &KubeOptions::default(), &gateway) else {
            return;
        };
        let (alice, bob) = (fixture.target().identity(&fixture.alice), fixture.target().identity(&fixture.bob));
        let exec = "/api/v1/namespaces/default/pods/none/exec?command=x";
        let chunked = ("Transfer-Encoding: chunked\r\n", "0\r\n\r\n");
        // An upgrade of the first is ignored; the others are forbidden and not found.
        let cases = [(&alice, "/version", " 200 "), (&bob, exec, " 403 "), (&alice, exec, " 404 ")];
        // Envoy takes a second to close each connection.
        std::thread::scope(|scope| {
            for (target, path, expected) in cases {
                for (framing, body) in [("", ""), ("Content-Length: 0\r\n", ""), chunked] {
                    let version = &version;
                    scope.spawn(move || {
                        let answer = pipeline(target, path, framing, body);
                        assert!(answer.contains(expected), "{version}, {path}: {answer}");
                        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{version}, {path}: {answer}");
                    });
                }
            }
        });
        let namespaces = fixture.admin(&["get", "namespaces", "-o", "name"]);
        assert!(!namespaces.contains("smuggled"), "{version}: {namespaces}");
    }
}

/// Asks for an upgrade where there is none to be had, and sends another request behind it.
fn pipeline(target: &TlsTarget, path: &str, framing: &str, body: &str) -> String {
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"generateName":"smuggled-"}}"#;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n{framing}\r\n{body}\
         POST /api/v1/namespaces HTTP/1.1\r\nHost: {NAME}\r\nImpersonate-User: admin\r\n\
         Impersonate-Group: system:masters\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{namespace}",
        namespace.len()
    );
    let mut connection = target.clone().timeout(Duration::from_secs(20)).connect().unwrap();
    connection.write(request.as_bytes()).unwrap();
    String::from_utf8_lossy(&connection.read_to_end().unwrap()).into_owned()
}

/// kube-apiserver ignores line ends in a token. Each spelling of one good token would be a review and an entry in the cache of
/// good answers, at the expense of all other users.
#[test]
fn one_good_token_is_not_many() {
    let Some(fixture) = KubeFixture::start("spellings", &KubeOptions::default()) else { return };
    fixture.admin(&["create", "serviceaccount", "robot"]);
    let token = fixture.admin(&["create", "token", "robot"]).trim().to_owned();
    let review = |token: &str| {
        let spec = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let file = fixture.run.write("review.json", spec.to_string()).unwrap();
        fixture.admin(&["create", "-o", "jsonpath={.status.authenticated}", "-f", file.to_str().unwrap()])
    };
    let presented = |token: &str| {
        let entry = format!("base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode(token));
        let request = format!(
            "GET /version HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Protocol: {entry}, x\r\n\r\n"
        );
        fixture.target().raw_request(request.as_bytes()).unwrap().status
    };
    assert_eq!((review(&token).as_str(), presented(&token)), ("true", 200));
    assert_eq!(review(&format!("{token}\n")), "true", "kube-apiserver overlooks it");
    for spelling in ["\n", "\r\n\n", "\t", " ", "\u{a0}"].map(|blank| format!("{token}{blank}")) {
        assert_eq!(presented(&spelling), 401, "{spelling:?}");
    }
}
