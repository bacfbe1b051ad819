//! Tokens and impersonation are reviewed by the upstream: once for all who wait, within bounds, and never concluded from a
//! missing answer.

use std::sync::Barrier;
use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{Response, TlsConnection, TlsTarget};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SOON: Duration = Duration::from_secs(20);

fn get(target: &TlsTarget, headers: &str) -> Response {
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{headers}\r\n");
    target.raw_request(request.as_bytes()).unwrap()
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn token_is_reviewed_once_for_all_who_wait_and_then_remembered() {
    let fixture = StubFixture::start("single-flight", &GatewayOptions::default());
    fixture.stub.fault(Fault::new(REVIEWS, Action::Delay { millis: 500 }));
    let target = fixture.gateway.target(NAME);
    let start = Barrier::new(20);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                start.wait();
                assert_eq!(get(&target, &bearer(ROBOT)).status, 200);
            });
        }
    });
    assert_eq!(get(&target, &bearer(ROBOT)).status, 200);
    fixture.assert_reviews(REVIEWS, 1);
    let records = fixture.stub.records_for(PODS);
    assert_eq!(records.len(), 21);
    for record in records {
        assert_eq!(record.effective.unwrap().username, "robot");
        assert_eq!(record.peer_common_name.as_deref(), Some("portcullis"));
        assert!(record.headers.iter().all(|header| header.name != "authorization"));
    }
}

#[test]
fn waiting_client_that_leaves_takes_no_answer_along() {
    let fixture = StubFixture::start("leaver", &GatewayOptions::default());
    fixture.stub.fault(Fault::new(REVIEWS, Action::Delay { millis: 500 }));
    let target = fixture.gateway.target(NAME);
    let mut leaver = target.connect().unwrap();
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n{}\r\n", bearer(ROBOT));
    leaver.write(request.as_bytes()).unwrap();
    let asked = || (!fixture.stub.records_for(REVIEWS).is_empty()).then_some(());
    wait::until("the review is under way", SOON, asked).unwrap();
    drop(leaver);
    assert_eq!(get(&target, &bearer(ROBOT)).status, 200);
    fixture.assert_reviews(REVIEWS, 1);
}

#[test]
fn rejected_token_is_401_and_not_asked_about_again_at_once() {
    let fixture = StubFixture::start("rejected", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME);
    for _ in 0..3 {
        let response = get(&target, &bearer("forged"));
        assert_eq!(response.status, 401);
        assert_eq!(response.json().unwrap()["message"], "Unauthorized");
        assert!(response.header("retry-after").is_none());
    }
    fixture.assert_reviews(REVIEWS, 1);
    assert!(fixture.stub.records_for(PODS).is_empty());
    let alice = target.identity(&fixture.pki.alice);
    assert_eq!(get(&alice, &bearer("forged")).status, 200, "a certificate that is good is enough");
}

#[test]
fn request_without_a_review_answer_is_refused() {
    let fixture = StubFixture::start("no-answer", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).timeout(Duration::from_secs(20));
    let respond = |status, body: &str| Action::Respond { status, headers: vec![], body: body.to_owned() };
    let user = r#"{"kind":"TokenReview","status":{"authenticated":true,"user":{"username":"eve"}}}"#;
    let faults = [
        respond(500, ""),
        respond(403, "{}"),
        respond(200, user),
        respond(201, "garbage"),
        respond(201, r#"{"kind":"TokenReview","status":{"authenticated":tru"#),
        Action::Unauthorized,
        Action::CloseConnection,
        Action::ResetStream { code: 2 },
    ];
    for fault in faults {
        fixture.stub.clear_faults();
        fixture.stub.fault(Fault::new(REVIEWS, fault.clone()));
        let response = get(&target, &bearer(ROBOT));
        assert_eq!(response.status, 503, "{fault:?}: {}", response.text());
        assert!(matches!(response.retry_after(), Some(1..=4)), "{fault:?}: {response:?}");
        assert!(fixture.stub.records_for(PODS).is_empty(), "{fault:?}");
    }
    fixture.stub.clear_faults();
    assert_eq!(get(&target, &bearer(ROBOT)).status, 200, "a failure is not remembered");
}

#[test]
fn reviews_that_hang_are_bounded_in_number_and_time() {
    let fixture = StubFixture::start("hanging-reviews", &GatewayOptions::default());
    fixture.stub.fault(Fault::new(REVIEWS, Action::Hang));
    wait::retry_if_slow("all ask before the first is told to come back", || {
        fixture.stub.clear();
        bounded_in_number(&fixture)
    })
    .unwrap();
    fixture.stub.clear_faults();
    let target = fixture.gateway.target(NAME);
    let after = get(&target, &bearer(ROBOT));
    assert_eq!(after.status, 200, "the places are free again: {}", after.text());
}

/// Asks about more tokens than there are places. Nothing if fewer are refused than there are too many: they came so late
/// that the first had left their places, which they have for as long as a review may take.
fn bounded_in_number(fixture: &StubFixture) -> Option<()> {
    // Every client is answered before this.
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let connections: Vec<_> = (0..80).map(|_| target.connect().unwrap()).collect();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = |(number, mut connection): (usize, TlsConnection)| {
            let header = bearer(&format!("stranger-{number}"));
            connection.write(format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\n{header}\r\n").as_bytes()).unwrap();
            connection.read_response(false).unwrap().status
        };
        let asking: Vec<_> = connections.into_iter().enumerate().map(|one| scope.spawn(move || ask(one))).collect();
        let full = || (fixture.questions(REVIEWS) >= 64).then_some(());
        wait::until("as many reviews as may be are under way", SOON, full).unwrap();
        let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
        assert_eq!(get(&alice, "").status, 200, "the known user next door notices nothing");
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    let (refused, given_up) = (count(429), count(503));
    assert_eq!(refused + given_up, 80, "{statuses:?}");
    assert_eq!(fixture.stub.records_for(PODS).len(), 1);
    (refused >= 16).then(|| assert_eq!((refused, fixture.questions(REVIEWS)), (16, 64), "{statuses:?}"))
}

#[test]
fn upload_waits_for_its_review_and_arrives_whole() {
    let fixture = StubFixture::start("upload", &GatewayOptions::default());
    fixture.stub.fault(Fault::new(REVIEWS, Action::Delay { millis: 300 }));
    let data = "x".repeat(2_900_000);
    let body =
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"big"}},"data":{{"k":"{data}"}}}}"#);
    let request = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        bearer(ROBOT),
        body.len()
    );
    let response = fixture.gateway.target(NAME).raw_request(request.as_bytes()).unwrap();
    assert_eq!(response.status, 201, "{}", response.text());
    let record = fixture.stub.records_for("/api/v1/namespaces/default/configmaps").pop().unwrap();
    assert_eq!(record.body.len(), body.len());
}

#[test]
fn no_token_is_written_anywhere() {
    let fixture = StubFixture::start("secrets", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME);
    let (good, bad, unclear) = (ROBOT, "a-token-that-nobody-knows", "a-token-that-nobody-tells-of");
    assert_eq!(get(&target, &bearer(good)).status, 200);
    assert_eq!(get(&target, &bearer(bad)).status, 401);
    for action in [Action::CloseConnection, Action::Respond { status: 500, headers: vec![], body: String::new() }] {
        fixture.stub.fault(Fault::new(REVIEWS, action));
        assert_eq!(get(&target, &bearer(unclear)).status, 503);
        fixture.stub.clear_faults();
    }
    let envoy = fixture.gateway.envoy();
    let dumps = [
        ("Envoy's log", envoy.process().log()),
        ("config_dump", envoy.admin().get("/config_dump?include_eds").unwrap().text()),
        ("stats", envoy.admin().get("/stats").unwrap().text()),
        ("the control plane's log", fixture.gateway.plane().process().log()),
        ("status", fixture.gateway.plane().status().unwrap().to_string()),
    ];
    let key = fixture.pki.gateway.key_pem();
    let key = key.lines().nth(1).unwrap();
    for (place, text) in dumps {
        for secret in [good, bad, unclear, key] {
            assert!(!text.contains(secret), "{place}");
        }
    }
    let mut read = 0;
    let mut directories = vec![fixture.run.path().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.is_file() {
                let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                read += 1;
                assert!([good, bad, unclear].iter().all(|token| !text.contains(token)), "{}", path.display());
            }
        }
    }
    assert!(read >= 4, "logs, bootstrap and manifests: {read}");
}

#[test]
fn impersonation_needs_the_upstreams_permission() {
    let fixture = StubFixture::start("impersonate", &GatewayOptions::default());
    let as_bob = "Impersonate-User: bob\r\nImpersonate-Group: ops\r\n";
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let refused = get(&alice, as_bob);
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("cannot impersonate resource"), "{}", refused.text());
    assert!(fixture.stub.records_for(PODS).is_empty());
    let admin = fixture.gateway.target(NAME).identity(&fixture.pki.admin);
    assert_eq!(get(&admin, as_bob).status, 200);
    let record = fixture.stub.records_for(PODS).pop().unwrap();
    assert_eq!(record.effective.as_ref().unwrap().username, "bob");
    assert_eq!(record.header_all("impersonate-user"), ["bob"]);
    assert_eq!(record.header_all("impersonate-group"), ["ops"]);
    let without_user = get(&admin, "Impersonate-Group: system:masters\r\n");
    assert_eq!(without_user.status, 400);
    assert_eq!(get(&admin, "Impersonate-User: bob\r\nImpersonate-Unheard-Of: x\r\n").status, 403);
}
