//! `clientCertificateVerification: Handshake`: who presents a certificate that does not verify gets no connection.

use std::time::{Duration, Instant};

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::H2Client;
use portcullis_harness::wait;
use serde_json::json;

use crate::sessions::{WEBSOCKET, is_alive, session, tells};
use crate::world::{NAME, PODS, ROBOT, World};

/// The status of a request with a good token, or nothing where there is no connection for it.
fn status(world: &World, identity: Option<&Identity>, token: &str) -> Option<u16> {
    let mut target = world.gateway.target(NAME);
    if let Some(identity) = identity {
        target = target.identity(identity);
    }
    let request =
        format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    target.raw_request(request.as_bytes()).ok().map(|response| response.status)
}

#[test]
fn certificate_that_does_not_verify_ends_the_handshake() {
    let world = World::without_cluster("handshake", &GatewayOptions::default());
    let strict = world.manifest().set("/spec/portcullis", json!({"clientCertificateVerification": "Handshake"}));
    world.gateway.apply(&strict).unwrap();
    let (alice, other) = (&world.pki.alice, Ca::new("others").unwrap());
    let strangers = [
        other.issue(&CertSpec::client("alice", ["dev"])).unwrap(),
        world.pki.client_ca.issue(&CertSpec::client("alice", ["dev"]).expired()).unwrap(),
    ];
    assert_eq!(status(&world, Some(alice), ROBOT), Some(200));
    assert_eq!(status(&world, None, ROBOT), Some(200), "a certificate is asked for, not required");
    for stranger in &strangers {
        assert_eq!(status(&world, Some(stranger), ROBOT), None);
    }

    let open = H2Client::connect(&world.gateway.target(NAME).identity(alice)).unwrap();
    assert_eq!(open.get(PODS, &[]).unwrap().status, 200);
    let moved = strict.clone().serving(&world.gateway.serving_identity(NAME).unwrap(), &other);
    world.gateway.apply(&moved).unwrap();
    assert_eq!(open.get(PODS, &[]).unwrap().status, 401, "another CA acts on open connections, without ending them");
    assert_eq!(status(&world, Some(alice), ROBOT), None);
    assert_eq!(status(&world, Some(&strangers[0]), ROBOT), Some(200));

    world.gateway.apply(&world.manifest()).unwrap();
    assert_eq!(status(&world, Some(&strangers[0]), ROBOT), Some(200), "by default a good token is enough");
}

/// The connection and what runs on it go on; the certificate is believed no more.
#[test]
fn certificate_that_expires_names_nobody_on_open_connections() {
    let world = World::start("expires", &GatewayOptions::default());
    let limited = world.manifest().set("/spec/portcullis", json!({"maxSessionDuration": "24s"}));
    world.gateway.apply(&limited).unwrap();
    let short = CertSpec::client("alice", ["dev"]).valid_for(Duration::from_secs(20));
    let short = world.pki.client_ca.issue(&short).unwrap();
    let target = world.gateway.target(NAME).identity(&short);
    let open = H2Client::connect(&target).unwrap();
    assert_eq!(open.get(PODS, &[]).unwrap().status, 200);
    let mut watch = open.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    let since = Instant::now();
    let mut exec = session(&target, "GET", &format!("{PODS}/web/exec?command=x"), WEBSOCKET, "exec", "");
    let refused = || (open.get(PODS, &[]).unwrap().status == 401).then_some(());
    wait::until("the certificate expires", Duration::from_secs(40), refused).unwrap();
    assert!(!open.is_closed());
    // As at kube-apiserver itself, what was let in goes on; of sessions the gateway sets an end.
    let other = H2Client::connect(&world.gateway.target(NAME).identity(&world.pki.alice)).unwrap();
    tells(&mut watch, &other, "after-the-end");
    if is_alive(&mut exec) {
        exec.read_to_end().unwrap();
    }
    assert!(since.elapsed() >= Duration::from_secs(24), "{:?}", since.elapsed());
    let bearer = format!("Bearer {ROBOT}");
    assert_eq!(open.get(PODS, &[("authorization", &bearer)]).unwrap().status, 200, "a token beside it");
    world.stub.clear();
    assert_eq!(open.get(PODS, &[]).unwrap().status, 401);
    assert!(world.client_records().is_empty());
}

/// A resumed session would skip the validator, and a ticket could be taken to the name of another cluster: there is none.
#[test]
fn no_session_is_resumed() {
    let world = World::start("resumption", &GatewayOptions::default());
    let alice = world.gateway.target(NAME).identity(&world.pki.alice).resuming().unwrap();
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    for _ in 0..3 {
        let mut connection = alice.connect().unwrap();
        connection.write(request.as_bytes()).unwrap();
        assert_eq!(connection.read_response(false).unwrap().status, 200);
        assert!(!connection.is_resumed());
        assert_eq!(connection.tickets(), 0);
    }
}
