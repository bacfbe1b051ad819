//! Nothing that a client writes changes whom kube-apiserver takes it for, on any way in.

use std::time::{Duration, Instant};

use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::{H2Client, Response, TlsTarget};
use portcullis_harness::wait;
use portcullis_stub_apiserver::Record;

use super::fixture::{IngressFixture, ReconnectingClient, bearer};
use crate::fixture::PODS;
use crate::spoofing::{FORGED, check, variants};

/// One sender on one way in.
struct Sender<'a> {
    fixture: &'a IngressFixture,
    line: ReconnectingClient,
    host: &'a str,
    token: &'a str,
}

impl Sender<'_> {
    fn send(&mut self, headers: &[(String, String)]) -> (Response, Option<Record>) {
        self.fixture.clear();
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!("GET {PODS} HTTP/1.1\r\nHost: {}\r\n{}{lines}\r\n", self.host, self.token);
        (self.line.send(&request), self.fixture.sides[0].seen())
    }
}

/// Headers that kube-apiserver judges itself in this mode: they go on.
fn means_something_upstream(name: &str) -> bool {
    let name = name.to_lowercase();
    name.starts_with("impersonate-") || name == "authorization"
}

#[test]
fn forged_headers_change_nothing_or_are_refused() {
    let fixture = IngressFixture::start("gardener-spoofing");
    let side = &fixture.sides[0];
    let token = format!("Authorization: {}\r\n", bearer(&side.token));
    let shoot = fixture.shoot(0);
    let ways = [
        (fixture.ingress.target(shoot), shoot.host.as_str()),
        (fixture.ingress.tunnel(&shoot.socket(), shoot), "kubernetes.default"),
    ];
    for (target, host) in ways {
        let alice = target.clone().identity(&side.alice);
        for (who, target, token) in [("nobody", &target, ""), ("alice", &alice, ""), ("robot", &target, &*token)] {
            let mut sender = Sender { fixture: &fixture, line: ReconnectingClient::new(target.clone()), host, token };
            let clean = sender.send(&[]).1.expect("an honest request goes through");
            for (name, value) in FORGED.iter().filter(|(name, _)| !means_something_upstream(name)) {
                // Each with a Connection of its own needs a connection of its own.
                let is_cheap = |case: &str| who == "alice" || !case.contains("Connection");
                for (case, lines) in variants(name, value).into_iter().filter(|(case, _)| is_cheap(case)) {
                    let (response, record) = sender.send(&lines);
                    check(&format!("{host}, {who}: {name}, {case}"), &clean, &response, record.as_ref());
                }
            }
        }
    }
}

#[test]
fn forged_trailers_change_nothing() {
    let fixture = IngressFixture::start("gardener-trailers");
    let side = &fixture.sides[0];
    let shoot = fixture.shoot(0);
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"t"}}"#;
    let forged = "X-Remote-User: eve\r\nX_Remote_Group: system:masters\r\nX-Remote-Extra-A: b\r\n";
    let request = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X-Remote-User\r\n\r\n\
         {:x}\r\n{body}\r\n0\r\n{forged}\r\n",
        shoot.host,
        body.len()
    );
    let target = fixture.ingress.target(shoot).identity(&side.alice);
    let response = target.raw_request(request.as_bytes()).unwrap();
    let record = side.seen().unwrap();
    assert_eq!(record.header_all("x-remote-user"), ["alice"], "{}", response.text());
    assert_eq!(record.effective.unwrap().username, "alice");
    assert_eq!(response.status, 201);
}

/// An address that no client of these tests has.
const FORGED_ADDRESS: [(&str, &str); 4] = [
    ("x-forwarded-for", "192.0.2.1"),
    ("x-real-ip", "192.0.2.1"),
    ("forwarded", "for=192.0.2.1"),
    ("x-envoy-external-address", "192.0.2.1"),
];

/// The address in a load balancer's PROXY header is forwarded, and is no credential.
#[test]
fn proxy_header_is_an_address_and_no_identity() {
    let fixture = IngressFixture::start("gardener-proxy-protocol");
    let side = &fixture.sides[0];
    let target = fixture.ingress.target(fixture.shoot(0)).preamble(b"PROXY TCP4 203.0.113.9 127.0.0.1 4711 443\r\n");
    let (response, record) = fixture.send(&target.clone().identity(&side.alice), PODS, &FORGED_ADDRESS);
    assert_eq!(response.status, 200);
    let record = record.unwrap();
    assert_eq!(record.header_all("x-forwarded-for"), ["203.0.113.9"]);
    for name in ["x-real-ip", "forwarded"] {
        assert_eq!(record.header(name), None, "{name}");
    }
    assert_eq!(record.effective.unwrap().username, "alice");
    let (response, _) = fixture.send(&target, PODS, &[]);
    assert_eq!(response.status, 403, "nobody");
    let garbage = fixture.ingress.target(fixture.shoot(0)).preamble(b"PROXY TCP4 forged\r\n");
    assert!(garbage.connect().is_err());
    let twice = b"PROXY TCP4 203.0.113.9 127.0.0.1 4711 443\r\nPROXY TCP4 127.0.0.1 127.0.0.1 1 443\r\n";
    assert!(fixture.ingress.target(fixture.shoot(0)).preamble(twice).connect().is_err(), "one header, and then TLS");
}

#[test]
fn nodes_proxy_tells_no_address_and_believes_none() {
    let fixture = IngressFixture::start("gardener-addresses");
    let shoot = fixture.shoot(0);
    let header = "PROXY TCP4 203.0.113.9 127.0.0.1 4711 8443\r\n";
    for target in [fixture.ingress.tunnel(&shoot.socket(), shoot), fixture.ingress.balanced_tunnel(header, shoot)] {
        let (response, record) = fixture.send(&target.identity(&fixture.sides[0].alice), PODS, &FORGED_ADDRESS);
        assert_eq!(response.status, 200);
        let record = record.unwrap();
        assert_eq!(record.effective.as_ref().unwrap().username, "alice");
        for (name, _) in FORGED_ADDRESS {
            assert_eq!(record.header_all(name), [""; 0], "{name}");
        }
    }
}

/// Istio lets clients resume sessions, and then only the filter verifies the certificate again.
#[test]
fn resumed_session_is_judged_as_any_other() {
    let fixture = IngressFixture::start("gardener-resumption");
    wait::retry_if_slow("the certificate lives as long as it is asked with", || resumed(&fixture)).unwrap();
}

/// Nothing if the certificate had expired before it was to.
fn resumed(fixture: &IngressFixture) -> Option<()> {
    const LIFE: Duration = Duration::from_secs(4);
    let (side, shoot) = (&fixture.sides[0], fixture.shoot(0));
    let issued = Instant::now();
    let short = CertSpec::client("alice", ["dev"]).valid_for(LIFE);
    let short = side.client_ca.issue(&short).unwrap();
    let target = fixture.ingress.target(shoot).identity(&short).resuming().unwrap();
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {}\r\n\r\n", shoot.host);
    let ask = |target: &TlsTarget| {
        let mut connection = target.connect().ok()?;
        connection.write(request.as_bytes()).ok()?;
        let response = connection.read_response(false).ok()?;
        Some((connection.is_resumed(), response.status))
    };
    let begun = [ask(&target), ask(&target)];
    let open = H2Client::connect(&fixture.ingress.target(shoot).identity(&short)).ok();
    // A second may have been over when the certificate was issued.
    (issued.elapsed() < LIFE - Duration::from_secs(1)).then_some(())?;
    let open = open.unwrap();
    assert_eq!(begun, [Some((false, 200)), Some((true, 200))], "resumed, and still alice");
    assert_eq!(side.seen().unwrap().effective.unwrap().username, "alice");
    let refused = || match ask(&target) {
        Some((_, 200)) => None,
        other => Some(other),
    };
    let refused = wait::until("the certificate has expired", Duration::from_secs(10), refused).unwrap();
    assert!(matches!(refused, None | Some((_, 401))), "{refused:?}");
    assert_eq!(open.get(PODS, &[]).unwrap().status, 401, "on connections from before, too");
    // A session of the one name is not taken for another.
    let other = target.clone().sni(&shoot.wildcard_host);
    assert!(ask(&other).is_none_or(|(is_resumed, status)| !is_resumed && status != 200));
    Some(())
}
