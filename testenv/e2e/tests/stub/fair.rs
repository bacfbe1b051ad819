//! Requests beyond the seats of a fair queue wait their turn, in a real Envoy.

use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, Manifest, allow_all};
use portcullis_harness::client::{ClientPool, H2Client, LoadProfile, OpenLoopLoad, Outcome, Protocol};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault, TokenEntry};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture};
use crate::observe::with_another_request;

const SOON: Duration = Duration::from_secs(20);

pub(crate) fn fair(fixture: &StubFixture, more: &Value) -> Manifest {
    let mut queue = json!({"name": "fair", "max": 2, "queues": 8, "handSize": 1});
    for (field, value) in more.as_object().unwrap() {
        queue[field] = value.clone();
    }
    fixture
        .manifest()
        .set("/spec/portcullis", json!({"fairQueues": [queue]}))
        .policies(json!([{"rules": [allow_all()], "flowControlSchemaName": "fair"}]))
}

#[test]
fn requests_beyond_the_seats_wait_and_are_all_served() {
    let fixture = StubFixture::start("fair", &GatewayOptions::default());
    fixture.gateway.apply(&fair(&fixture, &json!({}))).unwrap();
    fixture.stub.fault(Fault::new(PODS, Action::Delay { millis: 50 }));
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let client = H2Client::connect(&target).unwrap();
                assert_eq!(client.get(PODS, &[]).unwrap().status, 200);
            });
        }
    });
    // Twenty requests of fifty milliseconds on two seats.
    assert!(start.elapsed() >= Duration::from_millis(500), "{:?}", start.elapsed());
    let records = fixture.client_records();
    assert_eq!(records.len(), 20);
    assert!(records.iter().all(|record| record.header("impersonate-user").as_deref() == Some("alice")), "{records:?}");
}

#[test]
fn full_queue_and_long_wait_are_answered_429() {
    let fixture = StubFixture::start("fair-full", &GatewayOptions::default());
    let bounds = json!({"max": 1, "queues": 1, "queueLength": 1, "timeout": "1s"});
    fixture.gateway.apply(&fair(&fixture, &bounds)).unwrap();
    fixture.stub.fault(Fault::new(PODS, Action::Delay { millis: 3_000 }));
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    std::thread::scope(|scope| {
        let answers: Vec<_> =
            (0..3).map(|_| scope.spawn(|| H2Client::connect(&target).unwrap().get(PODS, &[]).unwrap())).collect();
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.join().unwrap()).collect();
        let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 429, 429], "one runs, one waits in vain, one finds the queue full");
        let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
        assert!(refused.iter().all(|answer| matches!(answer.retry_after(), Some(1..=4))));
        let told = |words: &str| {
            refused.iter().any(|answer| answer.json().unwrap()["message"].as_str().unwrap().contains(words))
        };
        assert!(told("too many requests of this flow wait") && told("waited too long"), "{refused:?}");
    });
}

#[test]
fn client_that_leaves_the_queue_frees_its_place() {
    let fixture = StubFixture::start("fair-left", &GatewayOptions::default());
    let bounds = json!({"max": 1, "queues": 1, "queueLength": 3});
    fixture.gateway.apply(&fair(&fixture, &bounds)).unwrap();
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    fixture.stub.fault(Fault::new(PODS, Action::Delay { millis: 20 }));
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for _ in 0..20 {
                    target.connect().unwrap().write(request.as_bytes()).unwrap();
                }
            });
        }
    });
    fixture.stub.clear_faults();
    let client = H2Client::connect(&target).unwrap();
    let served = || (client.get(PODS, &[]).ok()?.status == 200).then_some(());
    wait::until("the seat is free again", SOON, served).unwrap();
    let watches: Vec<_> =
        (0..5).map(|_| client.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap()).collect();
    assert!(watches.iter().all(|watch| watch.response.status == 200), "a watch that has begun holds no seat");
    assert_eq!(client.get(PODS, &[]).unwrap().status, 200);
}

/// Edits reach requests that wait: more seats serve them, and they are still the same user's.
#[test]
fn waiting_requests_survive_edits_of_their_queue() {
    let fixture = StubFixture::start("fair-edit", &GatewayOptions::default());
    fixture.gateway.apply(&fair(&fixture, &json!({"max": 1, "queues": 1, "timeout": "30s"}))).unwrap();
    // Each answer comes by this one's end only.
    let hangs = "/version";
    fixture.stub.fault(Fault::new(hangs, Action::Delay { millis: 8_000 }));
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let get = |path| H2Client::connect(&target).unwrap().get(path, &[]).unwrap().status;
    std::thread::scope(|scope| {
        let first = scope.spawn(|| get(hangs));
        wait::until("the first is at the server", SOON, || (!fixture.stub.records_for(hangs).is_empty()).then_some(()))
            .unwrap();
        let second = scope.spawn(|| get(PODS));
        let waits = || {
            with_another_request(&target);
            fixture.gateway.envoy().admin().stats("queued_requests").unwrap().iter().any(|(_, one)| *one == 1)
        };
        wait::until("the second waits", SOON, || waits().then_some(())).unwrap();
        assert!(fixture.stub.records_for(PODS).is_empty());
        // Another edit than of the queue first: the request waits on.
        fixture.gateway.apply(&fair(&fixture, &json!({"max": 1, "queues": 1, "timeout": "29s"}))).unwrap();
        assert!(fixture.stub.records_for(PODS).is_empty() && waits());
        fixture.gateway.apply(&fair(&fixture, &json!({"max": 2, "queues": 1, "timeout": "30s"}))).unwrap();
        assert_eq!(second.join().unwrap(), 200);
        assert!(!first.is_finished(), "served beside the first");
        assert_eq!(first.join().unwrap(), 200);
    });
    let records = fixture.stub.records_for(PODS);
    assert!(records.iter().all(|record| record.header("impersonate-user").as_deref() == Some("alice")), "{records:?}");
}

/// Users with few requests, and their requests per second together.
const MICE: usize = 20;
const MICE_PER_SECOND: f64 = 100.0;
const ELEPHANT_PER_SECOND: f64 = 500.0;
/// Answers of the mice that are measured.
const MEASURED: u64 = 2_000;

/// Four seats of ten milliseconds for a request: 400 requests a second.
fn crowd() -> (StubFixture, Vec<LoadProfile>) {
    let name = |number: usize| format!("user-{number}");
    let entry = |number| TokenEntry { user: name(number), ..TokenEntry::default() };
    let tokens = (0..=MICE).map(|number| (format!("the-token-of-{}", name(number)), entry(number)));
    let fixture = StubFixture::with_tokens("fair-crowd", &GatewayOptions::default(), tokens);
    fixture.gateway.apply(&fair(&fixture, &json!({"max": 4, "queues": 64, "handSize": 6}))).unwrap();
    fixture.stub.fault(Fault::new(PODS, Action::Delay { millis: 10 }));
    let target = fixture.gateway.target(NAME).timeout(SOON.saturating_mul(wait::deadline_factor()));
    let lane = |number| {
        LoadProfile::new(name(number), &target, Protocol::Http2).token(&format!("the-token-of-{}", name(number)))
    };
    let lanes = (0..=MICE).map(lane).collect();
    (fixture, lanes)
}

fn measured(load: &OpenLoopLoad) -> Outcome {
    let mut outcome = Outcome::default();
    load.take();
    wait::until("so many are answered", SOON * 4, || {
        outcome = std::mem::take(&mut outcome).and(load.take());
        (outcome.good() >= MEASURED).then_some(())
    })
    .unwrap();
    outcome
}

#[test]
#[ignore = "compares times: 600 requests a second for a minute, on a machine with nothing else to do"]
fn mice_keep_their_share_beside_an_elephant() {
    let (fixture, lanes) = crowd();
    let paths = [format!("{PODS}?limit=1")];
    let paths = [paths[0].as_str()];
    let pool = ClientPool::new(2).unwrap();
    let mice = pool.steady(&lanes[1..], &paths, MICE_PER_SECOND).unwrap();
    measured(&mice);
    let alone = measured(&mice);
    let elephant = pool.steady(&lanes[..1], &paths, ELEPHANT_PER_SECOND).unwrap();
    measured(&mice);
    elephant.take();
    let beside = measured(&mice);
    let large = elephant.stop().unwrap();
    mice.stop().unwrap();
    eprintln!("mice alone: {alone}\nmice beside the elephant: {beside}\nelephant: {large}");
    let peak = fixture.stub.take_peak();
    eprintln!("requests at the server at a time: {peak}");
    assert!(peak <= 4, "{peak}");
    assert_eq!(beside.failed, 0, "{beside}");
    assert!(beside.quantile(0.99) < alone.quantile(0.99) * 3, "{beside}");
    let answered = |one: &Outcome| one.good() as f64 / one.elapsed.as_secs_f64();
    assert!(answered(&large) + answered(&beside) > 300.0, "capacity is left unused: {large}");
}
