//! `clientCertificateVerification: Handshake`: who presents a certificate that does not verify gets no connection.

use std::time::{Duration, Instant};

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::H2Client;
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};
use crate::pods::{create_pod, read_until};
use crate::sessions::{WEBSOCKET, is_alive, session};

/// The status of a request with a good token, or nothing where there is no connection for it.
fn status(fixture: &StubFixture, identity: Option<&Identity>, token: &str) -> Option<u16> {
    let mut target = fixture.gateway.target(NAME);
    if let Some(identity) = identity {
        target = target.identity(identity);
    }
    let request =
        format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    target.raw_request(request.as_bytes()).ok().map(|response| response.status)
}

#[test]
fn certificate_that_does_not_verify_ends_the_handshake() {
    let fixture = StubFixture::without_cluster("handshake", &GatewayOptions::default());
    let strict = fixture.manifest().set("/spec/portcullis", json!({"clientCertificateVerification": "Handshake"}));
    fixture.gateway.apply(&strict).unwrap();
    let (alice, other) = (&fixture.pki.alice, Ca::new("others").unwrap());
    let strangers = [
        other.issue(&CertSpec::client("alice", ["dev"])).unwrap(),
        fixture.pki.client_ca.issue(&CertSpec::client("alice", ["dev"]).expired()).unwrap(),
    ];
    assert_eq!(status(&fixture, Some(alice), ROBOT), Some(200));
    assert_eq!(status(&fixture, None, ROBOT), Some(200), "a certificate is asked for, not required");
    for stranger in &strangers {
        assert_eq!(status(&fixture, Some(stranger), ROBOT), None);
    }

    let open = H2Client::connect(&fixture.gateway.target(NAME).identity(alice)).unwrap();
    assert_eq!(open.get(PODS, &[]).unwrap().status, 200);
    let moved = strict.clone().serving(&fixture.gateway.serving_identity(NAME).unwrap(), &other);
    fixture.gateway.apply(&moved).unwrap();
    assert_eq!(open.get(PODS, &[]).unwrap().status, 401, "another CA acts on open connections, without ending them");
    assert_eq!(status(&fixture, Some(alice), ROBOT), None);
    assert_eq!(status(&fixture, Some(&strangers[0]), ROBOT), Some(200));

    fixture.gateway.apply(&fixture.manifest()).unwrap();
    assert_eq!(status(&fixture, Some(&strangers[0]), ROBOT), Some(200), "by default a good token is enough");
}

/// The connection and what runs on it go on; the certificate is believed no more.
#[test]
fn certificate_that_expires_names_nobody_on_open_connections() {
    let fixture = StubFixture::start("expires", &GatewayOptions::default());
    let limited = fixture.manifest().set("/spec/portcullis", json!({"maxSessionDuration": "24s"}));
    fixture.gateway.apply(&limited).unwrap();
    let short = CertSpec::client("alice", ["dev"]).valid_for(Duration::from_secs(20));
    let short = fixture.pki.client_ca.issue(&short).unwrap();
    let target = fixture.gateway.target(NAME).identity(&short);
    let open = H2Client::connect(&target).unwrap();
    assert_eq!(open.get(PODS, &[]).unwrap().status, 200);
    let mut watch = open.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    let since = Instant::now();
    let mut exec = session(&target, "GET", &format!("{PODS}/web/exec?command=x"), WEBSOCKET, "exec", "");
    let refused = || (open.get(PODS, &[]).unwrap().status == 401).then_some(());
    wait::until("the certificate expires", Duration::from_secs(40), refused).unwrap();
    assert!(!open.is_closed());
    // As at kube-apiserver itself, what was let in goes on; of sessions the gateway sets an end.
    let other = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    create_pod(&other, "after-the-end").unwrap();
    read_until(&mut watch, "after-the-end").unwrap();
    if is_alive(&mut exec) {
        exec.read_to_end().unwrap();
    }
    assert!(since.elapsed() >= Duration::from_secs(24), "{:?}", since.elapsed());
    let bearer = format!("Bearer {ROBOT}");
    assert_eq!(open.get(PODS, &[("authorization", &bearer)]).unwrap().status, 200, "a token beside it");
    fixture.stub.clear();
    assert_eq!(open.get(PODS, &[]).unwrap().status, 401);
    assert!(fixture.client_records().is_empty());
}

/// A resumed session would skip the validator, and a ticket could be taken to the name of another cluster: there is none.
#[test]
fn no_session_is_resumed() {
    const OTHER: &str = "other.example.com";
    let fixture = StubFixture::start("resumption", &GatewayOptions::default());
    let other = fixture.cluster(OTHER, [fixture.stub.address()]);
    fixture.gateway.apply(&other).unwrap();
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    for (is_tls12, target) in [(false, alice.clone().resuming()), (true, alice.resuming_tls12())] {
        let target = target.unwrap();
        for name in [NAME, NAME, OTHER, NAME] {
            let mut connection = target.clone().sni(name).connect().unwrap();
            let request = format!("GET {PODS} HTTP/1.1\r\nHost: {name}\r\n\r\n");
            connection.write(request.as_bytes()).unwrap();
            assert_eq!(connection.read_response(false).unwrap().status, 200, "{name} {is_tls12}");
            assert_eq!(connection.is_tls12(), is_tls12);
            assert!(!connection.is_resumed(), "{name} {is_tls12}");
            assert_eq!(connection.tickets(), 0);
        }
    }
}
