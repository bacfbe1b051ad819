//! `rebalance` of the GatewaySettings: a request drains its connection now and then, and nothing that runs is hurt.

use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, MetricsPage};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::wait;
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture};
use crate::observe::with_another_request;
use crate::pods::watch_shows;

const SOON: Duration = Duration::from_secs(20);
/// Envoy sends its last word on a connection this long after the first.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// By chance 0.02 one of 10^13 connections takes so many requests.
const MANY: usize = 1_500;
const EXEC: &str = "/api/v1/namespaces/default/pods/web/exec";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn start(test: &str) -> (StubFixture, TlsTarget) {
    let fixture = StubFixture::start(test, &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    (fixture, target)
}

fn set(fixture: &StubFixture, when: &Value) {
    let change = |spec: &mut Value| {
        spec["rebalance"] = json!({"chance": 0.02, "connectionsPerSecond": 1_000});
        if !when.is_null() {
            spec["rebalance"]["when"] = when.clone();
        }
    };
    fixture.gateway.change_settings(change).unwrap();
}

/// The number of requests that a connection takes before it takes no more; `None` if it takes all.
fn takes(client: &H2Client, path: &str, status: u16, most: usize) -> Option<usize> {
    (0..most).find(|_| match client.get(path, &[]) {
        Ok(answer) => {
            assert_eq!(answer.status, status, "{}", answer.text());
            false
        }
        Err(_) => true,
    })
}

fn drained(fixture: &StubFixture, trigger: &str) -> u64 {
    with_another_request(&fixture.gateway.target(NAME));
    let labels = [("cluster", NAME), ("trigger", trigger)];
    MetricsPage::of(&fixture.gateway).sum("rebalanced_connections_total", &labels)
}

#[test]
fn drained_connection_keeps_its_watch() {
    let (fixture, target) = start("rebalance-watch");
    let client = H2Client::connect(&target).unwrap();
    let mut watch = client.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    assert_eq!(takes(&client, PODS, 200, 200), None, "without the setting a connection is kept");
    set(&fixture, &Value::Null);
    let taken = takes(&client, PODS, 200, MANY).expect("it is drained some time");
    eprintln!("drained after {taken} requests");
    assert!(taken > 0, "the change of the settings itself drains nothing");
    let (since, mut pods) = (Instant::now(), 0);
    wait::until("the last word is said", SOON, || {
        pods += 1;
        watch_shows(&target, &mut watch, &format!("pod-{pods}")).unwrap();
        (since.elapsed() > DRAIN_TIME + Duration::from_secs(1)).then_some(())
    })
    .unwrap();
    drop(watch);
    wait::until("the connection is closed", SOON, || client.is_closed().then_some(())).unwrap();
    wait::until("the drain is counted", SOON, || (drained(&fixture, "chance") > 0).then_some(())).unwrap();
}

#[test]
fn limited_requests_drain_connections_where_that_is_asked_for() {
    let fixture = StubFixture::without_cluster("rebalance-limited", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let rule = |resource: &str| json!({"verbs": ["*"], "apiGroups": ["*"], "resources": [resource]});
    let none = json!({"flowControlSchemas": [{"name": "none", "maxRequestsInflight": {"max": 0}}]});
    let limited = json!({"rules": [rule("pods")], "flowControlSchemaName": "none"});
    let policies = json!([limited, {"rules": [rule("secrets")]}]);
    let manifest = fixture.manifest().set("/spec/flowControl", none).policies(policies);
    fixture.gateway.apply(&manifest).unwrap();
    set(&fixture, &json!({"onLimited": true}));
    let client = H2Client::connect(&target).unwrap();
    assert_eq!(takes(&client, SECRETS, 200, 400), None, "requests below the limit drain nothing");
    let taken = takes(&client, PODS, 429, MANY).expect("it is drained some time");
    eprintln!("drained after {taken} limited requests");
    wait::until("the connection is closed", SOON, || client.is_closed().then_some(())).unwrap();
    let strangers = H2Client::connect(&fixture.gateway.target(NAME)).unwrap();
    let refused = takes(&strangers, "/api/v1/nodes", 403, 400);
    assert_eq!(refused, None, "whoever is refused for another reason stays");
    wait::until("the drain is counted", SOON, || (drained(&fixture, "onLimited") > 0).then_some(())).unwrap();
}

#[test]
fn thresholds_that_are_not_reached_drain_nothing() {
    let (fixture, target) = start("rebalance-below");
    set(&fixture, &json!({"inFlight": 1, "requestsPerSecond": 1_000_000, "memory": "100Ti"}));
    let client = H2Client::connect(&target).unwrap();
    assert_eq!(takes(&client, PODS, 200, MANY), None, "one request at a time is not above one");
    for (when, trigger) in [(json!({"memory": "1Mi"}), "memory"), (json!({"inFlight": 0}), "inFlight")] {
        set(&fixture, &when);
        let client = H2Client::connect(&target).unwrap();
        let taken = takes(&client, PODS, 200, MANY).expect(trigger);
        eprintln!("{trigger}: drained after {taken} requests");
        wait::until("the drain is counted", SOON, || (drained(&fixture, trigger) > 0).then_some(())).unwrap();
    }
}

#[test]
fn http1_connection_is_told_that_an_answer_is_its_last() {
    let (fixture, target) = start("rebalance-h1");
    set(&fixture, &Value::Null);
    let mut plain = target.connect().unwrap();
    let mut answers = 0;
    loop {
        plain.write(format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n\r\n").as_bytes()).unwrap();
        let answer = plain.read_response(false).unwrap();
        assert_eq!(answer.status, 200);
        answers += 1;
        assert!(answers < MANY);
        if answer.header("connection").as_deref() == Some("close") {
            break;
        }
    }
    assert_eq!(plain.read_to_end().unwrap(), b"");
    eprintln!("closed after {answers} requests");

    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let before = drained(&fixture, "chance");
    for _ in 0..200 {
        let mut tunnel = target.connect().unwrap();
        tunnel.write(format!("GET {EXEC}?command=x HTTP/1.1\r\nHost: {NAME}\r\n{upgrade}\r\n").as_bytes()).unwrap();
        assert_eq!(tunnel.read_response(false).unwrap().status, 101);
        tunnel.write(b"ping").unwrap();
        assert_eq!(tunnel.read_exact(4).unwrap(), b"ping");
    }
    let after = drained(&fixture, "chance");
    assert!(after <= before + 1, "the one of before may be counted late: {before}, {after}");
}
