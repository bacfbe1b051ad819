//! Two gateways get the same requests, one of them with a shadow: their clients and their servers get the same bytes.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, MetricsPage, allow_all};
use portcullis_harness::client::{H2Client, Outgoing, Response};
use portcullis_harness::wait;
use portcullis_stub_apiserver::Record;
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const SOON: Duration = Duration::from_secs(20);
/// Requests between two comparisons, and of these at a time on each connection.
const CHUNK: usize = 1_000;
const AT_ONCE: usize = 8;
/// Kinds of requests in the mix, and connections that send them.
const KINDS: usize = 14;
const CLIENTS: usize = 3;

fn rule(fields: Value) -> Value {
    let mut rule = allow_all();
    rule.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    rule
}

/// Requests are denied, refused by a limit, or let go.
fn policies() -> Value {
    let secrets = rule(json!({"users": ["robot"], "resources": ["secrets"], "nonResourceURLs": []}));
    let limited = rule(json!({"resources": ["configmaps"], "nonResourceURLs": []}));
    json!([
        {"rules": [secrets], "portcullis": {"action": "Deny", "message": "no secrets"}},
        {"rules": [limited], "flowControlSchemaName": "none"},
        {"rules": [allow_all()]},
    ])
}

/// Each outcome has its opposite: lists are denied, the anonymous and one user are refused, what is refused is let go, and limits are
/// others.
fn shadow() -> Value {
    let lists = rule(json!({"users": ["alice"], "verbs": ["list"]}));
    json!({
        "access": {"deny": [{"users": ["system:anonymous"]}, {"users": ["bob"]}]},
        "flowControl": {"flowControlSchemas": [
            {"name": "few", "maxRequestsInflight": {"max": 1}},
            {"name": "rate", "tokenBucket": {"qps": 5, "burst": 5}},
        ]},
        "dispatchPolicies": [
            {"rules": [lists], "portcullis": {"action": "Deny", "message": "not yet"}},
            {"rules": [rule(json!({"verbs": ["delete", "update"]}))], "flowControlSchemaName": "rate"},
            {"rules": [rule(json!({"users": ["robot"]}))], "flowControlSchemaName": "few"},
            {"rules": [allow_all()]},
        ],
    })
}

/// A gateway with its server, and connections of a user, of a user who impersonates, and of a client without a certificate.
struct Twin {
    clients: [H2Client; CLIENTS],
    fixture: StubFixture,
}

impl Twin {
    fn start(test: &str, shadow: &Value) -> Self {
        let fixture = StubFixture::without_cluster(test, &GatewayOptions::default());
        let none = json!({"flowControlSchemas": [{"name": "none", "maxRequestsInflight": {"max": 0}}]});
        let manifest = fixture.manifest().set("/spec/flowControl", none).set("/spec/logging", json!({"mode": "on"}));
        let manifest = manifest.set("/spec/portcullis", json!({"shadow": shadow})).policies(policies());
        fixture.gateway.apply(&manifest).unwrap();
        let target = fixture.gateway.target(NAME).timeout(SOON.saturating_mul(wait::deadline_factor()));
        let [alice, admin] = [&fixture.pki.alice, &fixture.pki.admin];
        let clients = [target.clone().identity(alice), target.clone().identity(admin), target];
        Twin { clients: clients.map(|target| H2Client::connect(&target).unwrap()), fixture }
    }

    /// Answers to these requests, in order, and records of the server, in any order.
    fn ask(&self, numbers: std::ops::Range<usize>) -> (Vec<String>, Vec<String>) {
        self.fixture.stub.clear();
        let mut queues: [Vec<Outgoing>; CLIENTS] = Default::default();
        for (client, request) in numbers.map(request) {
            queues[client].push(request);
        }
        let answers = std::thread::scope(|scope| {
            let bursts =
                self.clients.iter().zip(queues).map(|(client, queue)| scope.spawn(|| client.burst(queue, AT_ONCE)));
            let bursts: Vec<_> = bursts.collect();
            bursts.into_iter().flat_map(|burst| burst.join().unwrap()).collect::<Vec<_>>()
        });
        let answers = answers.into_iter().map(|answer| shown(&answer.unwrap())).collect();
        let mut records: Vec<String> = self.fixture.client_records().iter().map(received).collect();
        records.sort();
        (answers, records)
    }

    /// Requests that were judged by the shadow, and those of them that differ.
    fn judged(&self) -> (u64, u64) {
        let page = MetricsPage::of(&self.fixture.gateway);
        let (all, same) = (page.sum("shadow_total", &[]), page.sum("shadow_total", &[("agreement", "same")]));
        (all, all - same)
    }
}

/// A request of the mix, and the connection that sends it.
fn request(number: usize) -> (usize, Outgoing) {
    const ALICE: usize = 0;
    const ADMIN: usize = 1;
    const NOBODY: usize = 2;
    let token = format!("Bearer {ROBOT}");
    let id = number.to_string();
    let robot = [("authorization", token.as_str())];
    let of = |method: &str, body: &str| Outgoing {
        method: method.to_owned(),
        body: body.as_bytes().to_vec(),
        ..Outgoing::get(&format!("{PODS}/pod-{id}"), &[("content-type", "application/json")])
    };
    let secrets = "/api/v1/namespaces/default/secrets";
    let forged = [("x-remote-user", "admin"), ("x-custom", id.as_str()), ("impersonate_user", "admin")];
    match number % KINDS {
        0 => (ALICE, Outgoing::get(PODS, &[])),
        1 => (ALICE, Outgoing::get(&format!("{PODS}/pod-{id}"), &[])),
        2 => (ALICE, Outgoing::get("/version", &[("user-agent", "kubectl/v1")])),
        3 => (ALICE, Outgoing::get("/api/v1/namespaces/default/configmaps", &[])),
        4 => (ALICE, Outgoing::get(&format!("{PODS}?labelSelector=a%3Db,c&limit={id}"), &forged)),
        5 => (ALICE, of("PUT", &json!({"kind": "Pod", "metadata": {"name": id}}).to_string())),
        6 => (ALICE, of("DELETE", "")),
        7 => (ALICE, Outgoing::get(&format!("/healthz/{id}"), &[])),
        8 => (ADMIN, Outgoing::get(PODS, &[("impersonate-user", "bob")])),
        9 => (ADMIN, Outgoing::get("/api/v1/nodes", &[])),
        10 => (NOBODY, Outgoing::get("/version", &[])),
        11 => (NOBODY, Outgoing::get(secrets, &robot)),
        12 => (NOBODY, Outgoing::get(PODS, &robot)),
        _ => (NOBODY, Outgoing::get(&format!("{secrets}/{id}"), &[("authorization", "Bearer wrong")])),
    }
}

/// Status, header lines and body of an answer, without what no two answers share.
fn shown(answer: &Response) -> String {
    let own = ["date", "x-request-id", "audit-id", "retry-after"];
    let lines: Vec<_> = answer.headers.iter().filter(|(name, _)| !own.contains(&name.as_str())).collect();
    let body = answer.text();
    // A refusal by a limit has its time in the body, too.
    let body = if answer.status == 429 { &body[..body.find("retryAfterSeconds").unwrap_or(body.len())] } else { &body };
    format!("{} {lines:?} {body}", answer.status)
}

/// A record of a server, without what no two requests share.
fn received(record: &Record) -> String {
    let lines = record.headers.iter().filter(|line| line.name != "x-request-id");
    let lines: Vec<_> = lines.map(|line| (&line.name, String::from_utf8_lossy(&line.value))).collect();
    let Record { method, target, authority, version, body, trailers, effective, .. } = record;
    let text = format!("{method} {target} {authority} {version} {lines:?} {body:?} {trailers:?} {effective:?}");
    // Each gateway has clients with certificates of their own.
    let mut parts = text.split("X509SHA256=");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|one: char| one.is_ascii_hexdigit()))
}

/// Sends so many requests to both.
fn compare(test: &str, requests: usize) {
    let plain = Twin::start(&format!("{test}-plain"), &Value::Null);
    let shadowed = Twin::start(&format!("{test}-shadowed"), &shadow());
    let mut begin = 0;
    let (mut statuses, mut at_servers) = (std::collections::BTreeMap::<String, usize>::new(), 0);
    while begin < requests {
        let numbers = begin..(begin + CHUNK).min(requests);
        let (without, with) = std::thread::scope(|scope| {
            let without = scope.spawn(|| plain.ask(numbers.clone()));
            let with = shadowed.ask(numbers.clone());
            (without.join().unwrap(), with)
        });
        for (one, other) in without.0.iter().zip(&with.0) {
            assert_eq!(one, other, "{numbers:?}");
        }
        for (one, other) in without.1.iter().zip(&with.1) {
            assert_eq!(one, other, "{numbers:?}");
        }
        assert_eq!([without.0.len(), without.1.len()], [with.0.len(), with.1.len()]);
        at_servers += with.1.len();
        for answer in &with.0 {
            *statuses.entry(answer[..3].to_owned()).or_default() += 1;
        }
        begin = numbers.end;
    }
    // Those of clients whose token is wrong have no user.
    let expected = (0..requests).filter(|number| number % KINDS < KINDS - 1).count() as u64;
    let judged = wait::until_ok("all are counted", SOON, || {
        let judged = shadowed.judged();
        if judged.0 >= expected { Ok(judged) } else { Err(format!("{judged:?} of {expected}")) }
    });
    let (all, differ) = judged.unwrap();
    eprintln!("{requests} requests to each, {at_servers} at each server, {statuses:?}; judged {all}, {differ} differ");
    assert!(differ * 2 > all, "{differ} of {all}");
    assert_eq!(plain.judged(), (0, 0));
}

#[test]
fn clients_and_servers_get_the_same_bytes_with_a_shadow() {
    compare("shadow-twins", 3_000);
}

#[test]
#[ignore = "takes longer than 30 seconds"]
fn many_clients_and_servers_get_the_same_bytes_with_a_shadow() {
    compare("shadow-many", 100_000);
}
