//! Streams of clients whom an edit denies: they end, and those of others go on.

use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, Manifest, MetricsPage, allow_all};
use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::{H2Client, H2Stream, TlsConnection, TlsTarget};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, ROBOT, StubFixture, connect};
use crate::pods::watch_shows;

const SOON: Duration = Duration::from_secs(20);
const EXEC: &str = "/api/v1/namespaces/default/pods/web/exec?command=x";
const LOG: &str = "/api/v1/namespaces/default/pods/web/log";
const UPLOAD: &str = "/api/v1/namespaces/default/pods/web/proxy/upload";
/// Watches on each connection.
const WATCHES: usize = 50;
const CONNECTIONS: usize = 10;

fn watch<'a>(client: &'a H2Client, headers: &[(&str, &[u8])]) -> H2Stream<'a> {
    let stream = client.open("GET", &format!("{PODS}?watch=true"), headers, b"").unwrap();
    assert_eq!(stream.response.status, 200);
    stream
}

fn terminal(target: &TlsTarget) -> TlsConnection {
    let upgrade = format!(
        "GET {EXEC} HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let mut connection = target.connect().unwrap();
    connection.write(upgrade.as_bytes()).unwrap();
    assert_eq!(connection.read_response(false).unwrap().status, 101);
    connection
}

/// Reads a watch until its end, which is the end of an answer: the client may open it again.
fn read_end(mut watch: H2Stream<'_>) {
    while watch.next_chunk(SOON).unwrap().is_some() {}
}

fn ended(fixture: &StubFixture) -> u64 {
    MetricsPage::of(&fixture.gateway).sum("requests_total", &[("decision", "ended"), ("reason", "newly_denied")])
}

fn with_access(fixture: &StubFixture, access: Value) -> Manifest {
    fixture.manifest().set("/spec/portcullis", json!({"access": access}))
}

#[test]
fn streams_of_who_is_newly_denied_end_and_others_go_on() {
    let fixture = StubFixture::start("newly-denied", &GatewayOptions::default());
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let strangers = fixture.gateway.target(NAME);
    let token = format!("Bearer {ROBOT}");
    let robots_lines = [("authorization", token.as_bytes())];

    let connections: Vec<_> = (0..CONNECTIONS).map(|_| connect(&alice)).collect();
    let watches = connections.iter().flat_map(|client| (0..WATCHES).map(|_| watch(client, &[])));
    let watches: Vec<_> = watches.collect();
    let mut session = terminal(&alice);
    let robots_client = connect(&strangers);
    let mut robots = watch(&robots_client, &robots_lines);

    // An edit that denies neither of them ends nothing.
    fixture.gateway.apply(&with_access(&fixture, json!({"deny": [{"users": ["mallory"]}]}))).unwrap();
    let denying = with_access(&fixture, json!({"deny": [{"users": ["mallory"]}, {"users": ["alice"]}]}));
    let edited = Instant::now();
    let end_all = || -> portcullis_harness::Result<()> {
        fixture.gateway.write(&denying)?;
        watches.into_iter().for_each(read_end);
        eprintln!("the last of {} watches ended {:?} after the edit", CONNECTIONS * WATCHES, edited.elapsed());
        Ok(())
    };
    fixture.gateway.and_wait(end_all).unwrap();
    assert_eq!(session.read_to_end().unwrap(), b"");
    assert_eq!(connections[0].get(&format!("{PODS}?watch=true"), &[]).unwrap().status, 403, "the connection goes on");
    let all = u64::try_from(CONNECTIONS * WATCHES + 1).unwrap();
    wait::until("each is counted", SOON, || (ended(&fixture) == all).then_some(())).unwrap();
    let bob = fixture.pki.client_ca.issue(&CertSpec::client("bob", ["dev"])).unwrap();
    let bob = fixture.gateway.target(NAME).identity(&bob);
    watch_shows(&bob, &mut robots, "while-alice-is-out").unwrap();

    // A policy that denies is as good as a list.
    let denying = json!([
        {"rules": [{"users": ["robot"], "verbs": ["watch"], "apiGroups": [""], "resources": ["pods"]}],
         "portcullis": {"action": "Deny"}},
        {"rules": [allow_all()]},
    ]);
    fixture.gateway.apply(&fixture.manifest().set("/spec/dispatchPolicies", denying)).unwrap();
    read_end(robots);
    wait::until("it is counted", SOON, || (ended(&fixture) == all + 1).then_some(())).unwrap();
    let refused = robots_client.open("GET", &format!("{PODS}?watch=true"), &robots_lines, b"").unwrap();
    assert_eq!(refused.response.status, 403);
    assert_eq!(connections[0].get(PODS, &[]).unwrap().status, 200, "alice is let in again");
}

/// A server may read the body of a request for as long as it likes, and a log begins with its first line.
#[test]
fn requests_without_an_answer_end_when_they_are_denied() {
    let fixture = StubFixture::start("denied-unanswered", &GatewayOptions::default());
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let bob = fixture.pki.client_ca.issue(&CertSpec::client("bob", ["dev"])).unwrap();
    let bob = fixture.gateway.target(NAME).identity(&bob);
    for path in [LOG, UPLOAD] {
        fixture.stub.fault(Fault::new(path, Action::Hold));
    }
    let ask = |target: &TlsTarget, request: &str| {
        let mut connection = target.connect().unwrap();
        connection.write(request.as_bytes()).unwrap();
        connection
    };
    let log = format!("GET {LOG}?follow=true HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    let upload = format!("POST {UPLOAD} HTTP/1.1\r\nHost: {NAME}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    let denied = [ask(&alice, &log), ask(&alice, &upload)];
    let mut allowed = ask(&bob, &log);
    let held = || (fixture.stub.records_for(LOG).len() + fixture.stub.records_for(UPLOAD).len() == 3).then_some(());
    wait::until("the server has all of them", SOON, held).unwrap();
    fixture.gateway.apply(&with_access(&fixture, json!({"deny": [{"users": ["alice"]}]}))).unwrap();
    for mut connection in denied {
        let end = connection.read_to_end();
        assert!(end.as_ref().map_or_else(|error| !error.is_timeout(), |text| text.is_empty()), "{end:?}");
    }
    wait::until("each is counted", SOON, || (ended(&fixture) == 2).then_some(())).unwrap();
    fixture.stub.clear_faults();
    assert_eq!(allowed.read_head().unwrap().status, 200, "the other one's log begins");
}
