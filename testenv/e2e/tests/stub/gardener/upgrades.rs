//! Streams: over HTTP/1.1 to the server, with the credential's own destination, and with nothing after a refusal.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_harness::client::TlsTarget;

use super::fixture::{FRONT, IngressFixture, bearer};
use crate::fixture::PODS;

const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec";

fn names(fixture: &IngressFixture) -> [(TlsTarget, String); 2] {
    let shoot = fixture.shoot(0);
    [
        (fixture.ingress.target(shoot), shoot.host.clone()),
        (fixture.ingress.tunnel(&shoot.socket(), shoot), "kubernetes.default.svc".to_owned()),
    ]
}

#[test]
fn spdy_and_websocket_work_for_certificates_and_tokens() {
    let fixture = IngressFixture::start("gardener-upgrades");
    let side = &fixture.sides[0];
    let token = format!("Authorization: {}\r\n", bearer(&side.token));
    for (target, host) in names(&fixture) {
        let senders =
            [("alice", target.clone().identity(&side.alice), "", Some(FRONT)), ("robot", target, token.as_str(), None)];
        for (user, target, token, certificate) in senders {
            for (method, kind) in [("POST", "SPDY/3.1"), ("GET", "SPDY/3.1"), ("GET", "websocket")] {
                for connection in ["Upgrade", "upgrade", "keep-alive, Upgrade", "Upgrade, X-Secret"] {
                    fixture.clear();
                    let case = format!("{host}: {user}, {method} {kind}, {connection}");
                    let mut stream = target.connect().unwrap();
                    let head = format!(
                        "{method} {EXEC}?command=x HTTP/1.1\r\nHost: {host}\r\n{token}Connection: {connection}\r\n\
                         Upgrade: {kind}\r\nX-Secret: 1\r\nX-Remote-User: eve\r\n\r\n"
                    );
                    stream.write(head.as_bytes()).unwrap();
                    assert_eq!(stream.read_head().unwrap().status, 101, "{case}");
                    stream.write(b"through").unwrap();
                    assert_eq!(stream.read_exact(7).unwrap(), b"through", "{case}");
                    let record = side.seen().unwrap();
                    assert_eq!(
                        (record.version.as_str(), record.peer_common_name.as_deref()),
                        ("HTTP/1.1", certificate),
                        "{case}"
                    );
                    assert_eq!(record.header_all("connection"), ["Upgrade"], "{case}");
                    assert_eq!(record.effective.as_ref().unwrap().username, user, "{case}");
                    assert_eq!(record.header("x-secret").is_none(), connection.contains("X-Secret"), "{case}");
                }
            }
        }
    }
}

/// As browsers send it. kube-apiserver reads the subprotocol itself.
#[test]
fn token_as_websocket_subprotocol_goes_on() {
    let fixture = IngressFixture::start("gardener-subprotocol");
    let side = &fixture.sides[0];
    let encoded = URL_SAFE_NO_PAD.encode(&side.token);
    for (target, host) in names(&fixture) {
        let mut stream = target.connect().unwrap();
        let head = format!(
            "GET {EXEC}?command=x HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.{encoded}\r\n\r\n"
        );
        stream.write(head.as_bytes()).unwrap();
        assert_eq!(stream.read_head().unwrap().status, 101, "{host}");
        let record = side.seen().unwrap();
        assert_eq!(record.peer_common_name, None, "{host}");
        assert_eq!(record.effective.unwrap().username, "robot", "{host}");
    }
}

#[test]
fn refused_upgrade_forwards_no_bytes() {
    let fixture = IngressFixture::start("gardener-smuggling");
    let side = &fixture.sides[0];
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let token = format!("Authorization: {}\r\n", bearer(&side.token));
    // Envoy takes a second to close each connection.
    std::thread::scope(|scope| {
        for (target, host) in names(&fixture) {
            for (target, token) in [(target.clone().identity(&side.alice), ""), (target.clone(), ""), (target, &*token)]
            {
                for kind in ["SPDY/3.1", "websocket"] {
                    for framing in ["", "Content-Length: 0\r\n"] {
                        let request = format!(
                            "GET {PODS} HTTP/1.1\r\nHost: {host}\r\n{token}Connection: Upgrade\r\nUpgrade: {kind}\r\n{framing}\r\n\
                             GET {secrets} HTTP/1.1\r\nHost: {host}\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n\r\n"
                        );
                        let target = target.clone();
                        scope.spawn(move || {
                            let mut connection = target.connect().unwrap();
                            connection.write(request.as_bytes()).unwrap();
                            let answer = connection.read_to_end().unwrap();
                            assert!(answer.starts_with(b"HTTP/1.1 "), "{}", String::from_utf8_lossy(&answer));
                        });
                    }
                }
            }
        }
    });
    assert!(side.stub.records_for(secrets).is_empty());
    assert!(!side.stub.records_for(PODS).is_empty());
}

#[test]
fn messages_with_two_readings_are_refused() {
    let fixture = IngressFixture::start("gardener-framing");
    let side = &fixture.sides[0];
    let inner = "GET /api/v1/secrets HTTP/1.1\r\nHost: a\r\n\r\n";
    for (target, host) in names(&fixture) {
        let target = target.identity(&side.alice);
        for framing in [
            format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", inner.len()),
            format!("Content-Length: {}\r\nContent-Length: 0\r\n", inner.len()),
            "Transfer-Encoding: chunked, identity\r\n".to_owned(),
            "Transfer-Encoding: xchunked\r\n".to_owned(),
            "Content-Length: +5\r\n".to_owned(),
        ] {
            let request = format!("POST {EXEC} HTTP/1.1\r\nHost: {host}\r\n{framing}\r\n{inner}");
            let answer = target.raw_request(request.as_bytes()).unwrap();
            assert!(matches!(answer.status, 400 | 501), "{host}, {framing}: {}", answer.status);
        }
    }
    assert!(side.seen().is_none());
}

/// Also on what the filter and Envoy answer themselves.
#[test]
fn every_answer_says_that_there_is_no_way_but_tls() {
    let fixture = IngressFixture::start("gardener-hsts");
    let target = fixture.ingress.target(fixture.shoot(0));
    let header = ["max-age=31536000"];
    let (response, _) = fixture.send(&target.clone().identity(&fixture.sides[0].alice), PODS, &[]);
    assert_eq!((response.status, response.header_all("strict-transport-security")), (200, vec![header[0].to_owned()]));
    for (headers, status) in [(vec![], 403), (vec![("authorization", "Bearer unheard-of")], 401)] {
        let (response, _) = fixture.send(&target, PODS, &headers);
        assert_eq!(response.status, status);
        assert_eq!(response.header_all("strict-transport-security"), header, "{status}");
    }
}
