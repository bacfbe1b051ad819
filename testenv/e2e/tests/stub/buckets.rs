//! Token buckets admit what they say over all workers, and live edits refill none but the one that they change.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use portcullis_e2e::{GatewayOptions, Manifest, allow_all};
use portcullis_harness::client::{H2Client, TlsConnection, TlsTarget};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture};

fn schemas(fixture: &StubFixture, schemas: Value) -> Manifest {
    fixture
        .manifest()
        .set("/spec/flowControl", json!({"flowControlSchemas": schemas}))
        .policies(json!([{"rules": [allow_all()], "flowControlSchemaName": "rate"}]))
}

fn bucket(qps: u32, burst: u32) -> Value {
    json!({"name": "rate", "tokenBucket": {"qps": qps, "burst": burst}})
}

/// Sends one request on a connection that stays; whether it was let through.
fn is_admitted(connection: &mut TlsConnection) -> bool {
    connection.write(format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n\r\n").as_bytes()).unwrap();
    let response = connection.read_response(false).unwrap();
    assert!(matches!(response.status, 200 | 429), "{}", response.status);
    response.status == 200
}

fn connections(target: &TlsTarget, count: usize) -> Vec<TlsConnection> {
    (0..count).map(|_| target.connect().unwrap()).collect()
}

/// The least number of requests that a full bucket grants to constant demand, by the times of refusals: the bucket is empty
/// then, and until the next refusal everything that came in was granted. Without demand it did not fill beyond its burst.
fn least(qps: u32, burst: u32, mut refusals: Vec<Instant>) -> f64 {
    refusals.sort_unstable();
    let came_in = |pair: &[Instant]| f64::from(qps) * (pair[1] - pair[0]).as_secs_f64();
    f64::from(burst) + refusals.windows(2).map(|pair| came_in(pair).min(burst.into())).sum::<f64>()
}

/// A rate's bound for what is admitted from `start` until now.
fn most(qps: u32, burst: u32, start: Instant) -> usize {
    (f64::from(burst) + f64::from(qps) * start.elapsed().as_secs_f64()).floor() as usize
}

#[test]
fn many_connections_on_all_workers_get_the_burst_and_no_more() {
    let fixture = StubFixture::start("bucket-burst", &GatewayOptions::default());
    fixture.gateway.apply(&schemas(&fixture, json!([bucket(1, 25)]))).unwrap();
    fixture.stub.clear();
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let connections = connections(&target, 40);
    let (start, admitted) = (Instant::now(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for mut connection in connections {
            let admitted = &admitted;
            scope.spawn(move || {
                let passed = (0..25).filter(|_| is_admitted(&mut connection)).count();
                admitted.fetch_add(passed, Ordering::AcqRel);
            });
        }
    });
    let (admitted, most) = (admitted.into_inner(), most(1, 25, start));
    assert!((25..=most).contains(&admitted), "{admitted} of 1000 admitted, at most {most}");
    assert_eq!(fixture.client_records().len(), admitted, "the upstream sees no refused request");
    let workers = fixture.gateway.envoy().admin().stats(r"listener\..*\.worker_.\.downstream_cx_total").unwrap();
    let busy = workers.iter().filter(|(name, count)| !name.contains("admin") && *count > 0).count();
    assert!(busy >= 2, "both workers took connections: {workers:?}");
}

#[test]
fn edits_of_anything_else_refill_nothing() {
    const RATE: (u32, u32) = (20, 30);
    let fixture = StubFixture::start("bucket-edits", &GatewayOptions::default());
    let edited = |round: u32| {
        let mut rules = vec![allow_all()];
        rules.extend((0..round % 3).map(|_| allow_all()));
        let other = match round % 2 {
            0 => json!({"name": "other", "tokenBucket": {"qps": 1, "burst": round + 1}}),
            _ => json!({"name": "other", "maxRequestsInflight": {"max": round}}),
        };
        schemas(&fixture, json!([other, bucket(RATE.0, RATE.1)]))
            .policies(json!([{"rules": rules, "flowControlSchemaName": "rate"}]))
    };
    fixture.gateway.apply(&edited(0)).unwrap();
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let connections = connections(&target, 8);
    let (start, is_over, admitted) = (Instant::now(), AtomicBool::new(false), AtomicUsize::new(0));
    let refusals = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for mut connection in connections {
            let (is_over, admitted, refusals) = (&is_over, &admitted, &refusals);
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    match is_admitted(&mut connection) {
                        true => drop(admitted.fetch_add(1, Ordering::AcqRel)),
                        false => refusals.lock().unwrap().push(Instant::now()),
                    }
                }
            });
        }
        for round in 1..=12 {
            fixture.gateway.apply(&edited(round)).unwrap();
        }
        is_over.store(true, Ordering::Release);
    });
    let (admitted, most) = (admitted.into_inner(), most(RATE.0, RATE.1, start));
    let least = least(RATE.0, RATE.1, refusals.into_inner().unwrap());
    assert!(admitted <= most, "{admitted} admitted over 12 edits, at most {most}");
    // Nor does an edit take anything away.
    assert!(admitted as f64 * 4.0 >= least * 3.0, "{admitted} admitted over 12 edits, of {least}");
}

#[test]
fn edit_of_the_bucket_itself_takes_effect_at_once() {
    let fixture = StubFixture::start("bucket-own-edit", &GatewayOptions::default());
    let client = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let admitted = |asked: usize| (0..asked).filter(|_| client.get(PODS, &[]).unwrap().status == 200).count();
    let apply = |schema: Value| {
        let start = Instant::now();
        fixture.gateway.apply(&schemas(&fixture, json!([schema]))).unwrap();
        start
    };
    for burst in [2, 6, 3] {
        let start = apply(bucket(1, burst));
        let passed = admitted(20);
        let most = most(1, burst, start);
        assert!((burst as usize..=most).contains(&passed), "{passed} with a burst of {burst}, at most {most}");
    }
    apply(json!({"name": "rate", "maxRequestsInflight": {"max": 1}}));
    assert_eq!(admitted(10), 10, "one at a time, without a rate");
    apply(json!({"name": "rate", "exempt": {}}));
    assert_eq!(admitted(10), 10);
}

#[test]
fn refusal_says_when_to_come_back_except_to_events() {
    let fixture = StubFixture::start("bucket-429", &GatewayOptions::default());
    fixture.gateway.apply(&schemas(&fixture, json!([bucket(1, 1)]))).unwrap();
    let client = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    for (method, path, says_when) in [
        ("GET", PODS, true),
        ("POST", PODS, true),
        ("POST", "/api/v1/namespaces/default/events", false),
        ("PATCH", "/api/v1/namespaces/default/events/one", false),
        ("POST", "/apis/events.k8s.io/v1/namespaces/default/events", false),
        ("GET", "/version", true),
    ] {
        // The second of two within a second is refused, or the third.
        let send = || client.request(method, path, &[], b"").unwrap();
        let refused = (0..10).map(|_| send()).find(|response| response.status == 429).unwrap();
        assert_eq!(refused.header("retry-after").is_some(), says_when, "{method} {path}");
        assert!(refused.retry_after().is_none_or(|seconds| (1..=4).contains(&seconds)), "{refused:?}");
        assert_eq!(refused.header("content-type").as_deref(), Some("application/json"), "{method} {path}");
        let status = refused.json().unwrap();
        let told = (&status["kind"], &status["reason"], &status["code"]);
        assert_eq!(told, (&json!("Status"), &json!("TooManyRequests"), &json!(429)), "{method} {path}");
        let seconds = refused.retry_after();
        let details = seconds.map_or(Value::Null, |seconds| json!({"retryAfterSeconds": seconds}));
        assert_eq!(status["details"], details, "{method} {path}");
    }
}
