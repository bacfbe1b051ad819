//! Limits of requests in flight hold exactly over all workers, live edits included.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest, allow_all};
use portcullis_harness::client::H2Client;
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};

const SOON: Duration = Duration::from_secs(20);
const EVENTS: &str = "/api/v1/namespaces/default/events";

fn limited(fixture: &StubFixture, max: u32) -> Manifest {
    fixture
        .manifest()
        .set("/spec/flowControl", json!({"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": max}}]}))
        .policies(json!([{"rules": [allow_all()], "flowControlSchemaName": "few"}]))
}

#[test]
fn watches_count_against_the_limit_until_they_end() {
    let fixture = StubFixture::start("limits", &GatewayOptions::default());
    fixture.gateway.apply(&limited(&fixture, 3)).unwrap();
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let clients: Vec<_> = (0..4).map(|_| H2Client::connect(&target).unwrap()).collect();
    let open = |client: usize| clients[client].open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    let mut watches: Vec<_> = (0..3).map(open).collect();
    assert!(watches.iter().all(|watch| watch.response.status == 200));

    let refused = clients[3].get(PODS, &[]).unwrap();
    assert!(refused.status == 429 && matches!(refused.retry_after(), Some(1..=4)), "{refused:?}");
    assert_eq!(refused.json().unwrap()["reason"], "TooManyRequests");
    let event = clients[3].get(EVENTS, &[]).unwrap();
    assert_eq!((event.status, event.header("retry-after")), (429, None), "clients drop events");

    fixture.gateway.apply(&limited(&fixture, 4)).unwrap();
    assert_eq!(clients[3].get(PODS, &[]).unwrap().status, 200, "growing acts at once");
    fixture.gateway.apply(&limited(&fixture, 1)).unwrap();
    assert_eq!(clients[3].get(PODS, &[]).unwrap().status, 429);
    watches.truncate(1);
    assert_eq!(clients[3].get(PODS, &[]).unwrap().status, 429, "the place that is left is taken");
    drop(watches);
    let free = || (clients[3].get(PODS, &[]).ok()?.status == 200).then_some(());
    wait::until("a place is free", SOON, free).unwrap();
    fixture.gateway.apply(&limited(&fixture, 0)).unwrap();
    assert_eq!(clients[3].get(PODS, &[]).unwrap().status, 429, "0 refuses all");
}

/// A limit of one, of these requests.
fn counting(fixture: &StubFixture, counts: &str) -> Manifest {
    let schema = json!({"name": "few", "maxRequestsInflight": {"max": 1}, "counts": counts});
    let limited = fixture.manifest().set("/spec/flowControl", json!({"flowControlSchemas": [schema]}));
    limited.policies(json!([{"rules": [allow_all()], "flowControlSchemaName": "few"}]))
}

/// Of each kind as many as the limit says run, and one of the kind that is not counted beside them.
#[test]
fn watches_and_other_requests_have_budgets_of_their_own() {
    let fixture = StubFixture::start("limits-counts", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let client = H2Client::connect(&target).unwrap();
    let watch = format!("{PODS}?watch=true");
    let open = || client.open("GET", &watch, &[], b"").unwrap();
    // A place is free soon after its request has ended; one that is taken stays so.
    let soon = |status: u16, ask: &dyn Fn() -> u16| match status {
        200 => wait::until("a place is free", SOON, || (ask() == 200).then_some(())).unwrap(),
        status => assert_eq!(ask(), status),
    };
    for (counts, get, second) in [("Requests", 200, 200), ("Watches", 200, 429), ("All", 429, 429), ("", 429, 429)] {
        fixture.gateway.apply(&counting(&fixture, counts)).unwrap();
        let is_open = || Some(open()).filter(|watch| watch.response.status == 200);
        let first = wait::until("a watch is open", SOON, is_open).unwrap();
        soon(get, &|| client.get(PODS, &[]).unwrap().status);
        soon(second, &|| open().response.status);
        drop(first);
    }
    // A request that runs leaves no place for another one, and one for watches.
    fixture.gateway.apply(&counting(&fixture, "Requests")).unwrap();
    fixture.stub.fault(Fault::new(EVENTS, Action::Hold));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| H2Client::connect(&target).unwrap().get(EVENTS, &[]).unwrap().status);
        wait::until("it runs", SOON, || (!fixture.stub.records_for(EVENTS).is_empty()).then_some(())).unwrap();
        assert_eq!((client.get(PODS, &[]).unwrap().status, open().response.status), (429, 200));
        fixture.stub.clear_faults();
        assert_eq!(running.join().unwrap(), 200);
    });
}

#[test]
fn no_more_requests_run_than_may_and_every_place_comes_back() {
    let fixture = StubFixture::start("exact", &GatewayOptions::default());
    fixture.gateway.apply(&limited(&fixture, 5)).unwrap();
    fixture.stub.fault(Fault::new(PODS, Action::Delay { millis: 50 }));
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
    std::thread::scope(|scope| {
        for number in 0..20 {
            let (target, request) = (&target, &request);
            scope.spawn(move || {
                for round in 0..10 {
                    if (number + round) % 3 == 0 {
                        // A client that leaves at once.
                        target.connect().unwrap().write(request.as_bytes()).unwrap();
                    } else {
                        let status = target.raw_request(request.as_bytes()).unwrap().status;
                        assert!(matches!(status, 200 | 429), "{status}");
                    }
                }
            });
        }
    });
    fixture.stub.clear_faults();
    let clients: Vec<_> = (0..5).map(|_| H2Client::connect(&target).unwrap()).collect();
    let all_free = || {
        let watches: Vec<_> = clients
            .iter()
            .map(|client| client.open("GET", &format!("{PODS}?watch=true"), &[], b"").ok())
            .collect::<Option<_>>()?;
        watches.iter().all(|watch| watch.response.status == 200).then_some(())
    };
    wait::until("all five places are free again", SOON, all_free).unwrap();
}

#[test]
fn closed_cluster_refuses_all_and_reopens() {
    let fixture = StubFixture::start("deny-all", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let status = || H2Client::connect(&target).unwrap().get(PODS, &[]).unwrap().status;
    let gates = json!({"proxy.kubegateway.io/feature-gates": "DenyAllRequests=true"});
    fixture.gateway.apply(&fixture.manifest().set("/metadata/annotations", gates)).unwrap();
    fixture.stub.clear();
    assert_eq!(status(), 429);
    assert!(fixture.client_records().is_empty());
    fixture.gateway.apply(&fixture.manifest()).unwrap();
    assert_eq!(status(), 200);
}
