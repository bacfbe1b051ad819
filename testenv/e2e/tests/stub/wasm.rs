//! Properties of portcullis.wasm alone. Everything else runs with it, too: `PORTCULLIS_FILTER=wasm`.

use std::path::PathBuf;
use std::time::Duration;

use std::sync::atomic::{AtomicBool, Ordering};

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::{deps, project_root, wait};
use portcullis_stub_apiserver::{Action, Fault, TokenEntry};

use crate::fixture::{NAME, PODS, ROBOT, StubFixture, connect};

const SOON: Duration = Duration::from_secs(20);

fn with(file: PathBuf) -> GatewayOptions {
    GatewayOptions { wasm: Some(file), ..GatewayOptions::default() }
}

fn get(target: &TlsTarget, headers: &str) -> Option<(u16, String)> {
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{headers}\r\n");
    let response = target.raw_request(request.as_bytes()).ok()?;
    Some((response.status, response.text()))
}

/// Hooks before a request goes on.
const BEFORE: [&str; 5] = ["request-headers", "decide", "removed", "applied", "decided"];

#[test]
fn panic_fails_closed_and_the_vm_comes_back() {
    let tokens = (0..4).map(|number| {
        let user = format!("robot-{number}");
        (format!("the-token-of-{user}"), TokenEntry { user, ..TokenEntry::default() })
    });
    let fixture = StubFixture::with_tokens("wasm-panic", &with(project_root().join("target/wasm/faulty.wasm")), tokens);
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    for place in BEFORE {
        let (status, body) = get(&target, &format!("X-Fault-Injection: {place}\r\n")).unwrap();
        assert_eq!(status, 503, "{place}: {body}");
        assert!(body.contains("\"kind\":\"Status\""), "{place}: {body}");
        assert!(fixture.client_records().is_empty(), "{place}");
        comes_back(&fixture, place);
    }
    // Envoy gives up a request that waits for a VM which is gone after a while; its client does so before.
    let nobody = fixture.gateway.target(NAME).timeout(Duration::from_secs(2));
    for (number, place) in ["asked", "callout", "resumed"].into_iter().enumerate() {
        let headers = format!("Authorization: Bearer the-token-of-robot-{number}\r\nX-Fault-Injection: {place}\r\n");
        let status = get(&nobody, &headers).map(|(status, _)| status);
        assert!(status.is_none_or(|status| status >= 400), "{place}: {status:?}");
        assert!(fixture.client_records().is_empty(), "{place}");
        comes_back(&fixture, place);
    }
    // The head may be with the server by now, as the client's own.
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}"#;
    for place in ["request-body", "request-trailers", "response-headers"] {
        let head = [("x-fault-injection", place.as_bytes())];
        let trailers: [(&str, &[u8]); 1] = [("impersonate-user", b"eve")];
        let client = connect(&target.clone().timeout(Duration::from_secs(2)));
        let path = "/api/v1/namespaces/default/configmaps";
        let answer = client.open_with_trailers("POST", path, &head, body.as_bytes(), &trailers);
        assert!(answer.as_ref().map_or(500, |stream| stream.response.status) >= 400, "{place}: {answer:?}");
        comes_back(&fixture, place);
    }
    assert_eq!(get(&target, "X-Fault-Injection: stream-complete\r\n").unwrap().0, 200);
    comes_back(&fixture, "stream-complete");
    // Between requests: the next one that comes to the worker has the VM made anew.
    let made = || -> u64 {
        let made = fixture.gateway.envoy().admin().stats("^wasm\\..*\\.created$").unwrap();
        made.iter().map(|(_, count)| count).sum()
    };
    let before = made();
    assert_eq!(get(&target, "X-Fault-Injection: tick\r\n").unwrap().0, 200);
    let strikes = || (get(&target, "").is_some() && made() > before).then_some(());
    wait::until("the tick strikes", SOON, strikes).unwrap();
    comes_back(&fixture, "tick");
}

/// Whatever a server saw was alice's own.
fn comes_back(fixture: &StubFixture, place: &str) {
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    // Every worker, and so several times in a row.
    let mut in_a_row = 0;
    let serves = || {
        in_a_row = if get(&target, "").is_some_and(|(status, _)| status == 200) { in_a_row + 1 } else { 0 };
        (in_a_row >= 12).then_some(())
    };
    wait::until("the VM comes back", SOON, serves).unwrap();
    for record in fixture.client_records() {
        assert_eq!(record.header_all("impersonate-user"), ["alice"], "{place}: {record:?}");
    }
    fixture.stub.clear();
}

#[test]
fn envoy_without_the_wasm_file_serves_nothing() {
    let fixture = StubFixture::without_cluster("no-wasm", &with(PathBuf::from("/nowhere/portcullis.wasm")));
    fixture.gateway.write(&fixture.manifest()).unwrap();
    let plane = fixture.gateway.plane();
    plane
        .wait_status("Envoy refuses the listener", SOON, |status| {
            status.to_string().contains("/nowhere/portcullis.wasm")
        })
        .unwrap();
    assert_eq!(get(&fixture.gateway.target(NAME).identity(&fixture.pki.alice), ""), None);
    assert!(fixture.client_records().is_empty());
}

#[test]
fn user_is_told_by_the_vm_and_not_by_the_module() {
    let fixture = StubFixture::start("wasm-runs", &with(deps::wasm().unwrap()));
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    assert_eq!(get(&target, "").unwrap().0, 200);
    let records = fixture.client_records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].header("impersonate-user").as_deref(), Some("alice"));
    let stats = fixture.gateway.envoy().admin().get("/stats?filter=wasm").unwrap().text();
    assert!(stats.contains("wasm.envoy.wasm.runtime.v8.active"), "{stats}");
}

/// The users; the server must see each of them as the sender of requests to the namespace of that name.
const USERS: [&str; 4] = ["anna", "bert", "carl", "dora"];

fn namespace(user: &str) -> String {
    format!("/api/v1/namespaces/{user}/pods")
}

/// Sends requests and opens watches until `stops`, whatever happens to them. Returns the number that were served.
fn goes_on(target: &TlsTarget, path: &str, stops: &AtomicBool) -> usize {
    let mut served = 0;
    while !stops.load(Ordering::Relaxed) {
        let Ok(client) = H2Client::connect(target) else { continue };
        let watch = client.open("GET", &format!("{path}?watch=true"), &[], b"");
        let mut is_alive = watch.is_ok();
        while is_alive && !stops.load(Ordering::Relaxed) {
            let answer = client.get(path, &[]);
            is_alive = answer.is_ok();
            let status = answer.map_or(0, |answer| answer.status);
            assert!(matches!(status, 0 | 200 | 503), "{path}: {status}");
            served += usize::from(status == 200);
        }
    }
    served
}

/// Every request of the other users either is theirs, or fails; none goes on as another user's, or without a user.
#[test]
fn vms_that_panic_under_load_mix_nobody_up_and_come_back() {
    let fixture = StubFixture::start("wasm-panics", &with(project_root().join("target/wasm/faulty.wasm")));
    let nobody = fixture.gateway.target(NAME);
    let targets = USERS
        .map(|user| nobody.clone().identity(&fixture.pki.client_ca.issue(&CertSpec::client(user, [""; 0])).unwrap()));
    let alice = nobody.clone().identity(&fixture.pki.alice);
    let stops = AtomicBool::new(false);
    let served: Vec<usize> = std::thread::scope(|scope| {
        let stops = &stops;
        let going: Vec<_> = USERS
            .iter()
            .zip(&targets)
            .map(|(user, target)| scope.spawn(move || goes_on(target, &namespace(user), stops)))
            .collect();
        for place in ["decide", "decided", "decide", "decided", "decide", "decided"] {
            let serves = || get(&alice, "").filter(|(status, _)| *status == 200);
            wait::until("a VM is back", SOON, serves).unwrap();
            let _ = get(&alice, &format!("X-Fault-Injection: {place}\r\n"));
        }
        stops.store(true, Ordering::Relaxed);
        going.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(served.iter().all(|count| *count > 0), "{served:?}");
    for record in fixture.client_records() {
        let user = record.header_all("impersonate-user");
        assert_eq!(user.len(), 1, "{record:?}");
        assert!(user == ["alice"] || record.path() == namespace(&user[0]), "{record:?}");
    }
}

/// Requests that wait for a review when the VM panics wait on, until Envoy ends what is idle, and reach no server.
#[test]
fn request_waiting_in_a_panicked_vm_reaches_no_server() {
    let fixture = StubFixture::start("wasm-waits", &with(project_root().join("target/wasm/faulty.wasm")));
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    fixture.stub.fault(Fault::new(reviews, Action::Hold));
    // One connection is one worker.
    let client = connect(&fixture.gateway.target(NAME).timeout(Duration::from_secs(4)));
    let authorization = format!("Bearer {ROBOT}");
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.get(PODS, &[("authorization", &authorization)]));
        let asked = || (!fixture.stub.records_for(reviews).is_empty()).then_some(());
        wait::until("the review is under way", SOON, asked).unwrap();
        let _ = client.get(PODS, &[("x-fault-injection", "decide")]);
        fixture.stub.clear_faults();
        waiting.join().unwrap()
    });
    assert!(waited.as_ref().map_or(0, |answer| answer.status) != 200, "{waited:?}");
    assert!(fixture.client_records().is_empty());
}
