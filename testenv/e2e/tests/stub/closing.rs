//! The feature gate CloseConnectionWhenIdle: every connection takes its last request, and nothing that runs is hurt.

use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::client::{H2Client, H2Stream, Outgoing, TlsTarget};
use portcullis_harness::wait;
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};
use crate::pods::{create_pod, read_until, watch_shows};

const SOON: Duration = Duration::from_secs(20);
/// Envoy sends its last word on a connection this long after the first.
const DRAIN_TIME: Duration = Duration::from_secs(5);
const EXEC: &str = "/api/v1/namespaces/default/pods/web/exec";

fn gated(fixture: &StubFixture, gates: &str) -> Manifest {
    fixture.manifest().set("/metadata/annotations", json!({"proxy.kubegateway.io/feature-gates": gates}))
}

fn start(test: &str, gates: &str) -> (StubFixture, TlsTarget) {
    let fixture = StubFixture::without_cluster(test, &GatewayOptions::default());
    fixture.gateway.apply(&gated(&fixture, gates)).unwrap();
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    (fixture, target)
}

fn watch(client: &H2Client) -> H2Stream<'_> {
    let stream = client.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    assert_eq!(stream.response.status, 200);
    stream
}

#[test]
fn http2_connections_take_no_further_request_and_watches_go_on() {
    let (fixture, target) = start("closing-h2", "");
    let client = H2Client::connect(&target).unwrap();
    let mut older = watch(&client);
    for _ in 0..3 {
        assert_eq!(client.get(PODS, &[]).unwrap().status, 200, "without the gate a connection is kept");
    }
    fixture.gateway.apply(&gated(&fixture, "CloseConnectionWhenIdle=true")).unwrap();
    watch_shows(&target, &mut older, "before").unwrap();

    let mut newer = watch(&client);
    let refused = || client.get(PODS, &[]).is_err().then_some(());
    wait::until("the connection takes no more requests", SOON, refused).unwrap();
    let since = Instant::now();
    let mut pods = 0;
    let last_word = || {
        pods += 1;
        watch_shows(&target, &mut newer, &format!("pod-{pods}")).unwrap();
        (since.elapsed() > DRAIN_TIME + Duration::from_secs(1)).then_some(())
    };
    wait::until("the last word is said", SOON, last_word).unwrap();
    watch_shows(&target, &mut newer, "last").unwrap();
    read_until(&mut older, "last").unwrap();
    drop((older, newer));
    wait::until("the connection is closed", SOON, || client.is_closed().then_some(())).unwrap();
}

#[test]
fn each_answer_is_the_last_of_its_http2_connection() {
    let (_world, target) = start("closing-each", "CloseConnectionWhenIdle=true");
    for path in [PODS, "/version", "/nowhere"] {
        let client = H2Client::connect(&target).unwrap();
        assert!(client.get(path, &[]).unwrap().status < 500);
        assert!(client.get(path, &[]).is_err(), "{path}: a second request");
        wait::until("the connection is closed", SOON, || client.is_closed().then_some(())).unwrap();
    }
}

#[test]
fn requests_at_once_on_one_connection_are_all_answered() {
    let (fixture, target) = start("closing-burst", "CloseConnectionWhenIdle=true");
    for _ in 0..5 {
        let client = H2Client::connect(&target).unwrap();
        fixture.stub.clear();
        let answers = client.burst(vec![Outgoing::get(PODS, &[]); 50], 50);
        let statuses: Vec<_> = answers.iter().flatten().map(|answer| answer.status).collect();
        assert!(!statuses.is_empty() && statuses.iter().all(|status| *status == 200), "{statuses:?}");
        assert_eq!(fixture.client_records().len(), statuses.len(), "what was not answered never came");
        wait::until("the connection is closed", SOON, || client.is_closed().then_some(())).unwrap();
    }
}

#[test]
fn http1_answers_say_that_they_are_the_last_and_streams_go_on() {
    let (fixture, target) = start("closing-h1", "CloseConnectionWhenIdle=true");
    let ask = |path: &str, more: &str| {
        let mut connection = target.connect().unwrap();
        connection.write(format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\n{more}\r\n").as_bytes()).unwrap();
        connection
    };
    let mut plain = ask(PODS, "");
    let answer = plain.read_response(false).unwrap();
    assert_eq!((answer.status, answer.header("connection").as_deref()), (200, Some("close")));
    assert_eq!(plain.read_to_end().unwrap(), b"");

    let mut watch = ask(&format!("{PODS}?watch=true"), "");
    let answer = watch.read_head().unwrap();
    assert_eq!((answer.status, answer.header("connection").as_deref()), (200, Some("close")));

    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut tunnel = ask(&format!("{EXEC}?command=x"), upgrade);
    assert_eq!(tunnel.read_response(false).unwrap().status, 101);
    let since = Instant::now();
    let last_word = || {
        tunnel.write(b"ping").unwrap();
        assert_eq!(tunnel.read_exact(4).unwrap(), b"ping");
        (since.elapsed() > DRAIN_TIME + Duration::from_secs(1)).then_some(())
    };
    wait::until("the last word is said", SOON, last_word).unwrap();
    create_pod(&H2Client::connect(&target).unwrap(), "late").unwrap();
    let mut shown = String::new();
    while !shown.contains("late") {
        shown += &String::from_utf8(watch.read_chunk().unwrap().unwrap()).unwrap();
    }

    let both = "CloseConnectionWhenIdle=true,DenyAllRequests=true";
    fixture.gateway.apply(&gated(&fixture, both)).unwrap();
    let answer = ask(PODS, "").read_response(false).unwrap();
    assert_eq!((answer.status, answer.header("connection").as_deref()), (429, Some("close")));
    fixture.gateway.apply(&gated(&fixture, "")).unwrap();
    let answer = ask(PODS, "").read_response(false).unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, None));
}
