//! Reviews when the upstream misbehaves, and for how long their answers are believed.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{Response, TlsConnection, TlsTarget};
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::{Action, Fault, StubServer, TokenEntry};
use serde_json::json;

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// Another path of clients.
const NODES: &str = "/api/v1/nodes";
const SOON: Duration = Duration::from_secs(20);
/// How long a review may take.
const DEADLINE: Duration = Duration::from_secs(5);

fn get(target: &TlsTarget, token: &str) -> Response {
    let request =
        format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n");
    target.raw_request(request.as_bytes()).unwrap()
}

fn respond(status: u16, body: impl Into<String>) -> Action {
    Action::Respond { status, headers: vec![("content-type".into(), "application/json".into())], body: body.into() }
}

fn review(status: &serde_json::Value) -> String {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}).to_string()
}

fn lifetimes(fixture: &StubFixture, token: &str, rejected: &str) {
    let caches = json!({"credentialCache": {"tokenTTL": token, "rejectedTokenTTL": rejected}});
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", caches)).unwrap();
}

#[test]
fn two_hundred_requests_over_all_workers_share_one_review() {
    wait::retry_if_slow("the review ends in time", one_flight).unwrap();
}

/// Nothing if the review took so long that it was given up.
fn one_flight() -> Option<()> {
    let fixture = StubFixture::start("one-flight", &GatewayOptions::default());
    fixture.stub.fault(Fault::new(REVIEWS, Action::Hold));
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let connections: Vec<_> = (0..200).map(|_| target.connect().unwrap()).collect();
    let started = Instant::now();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = |mut connection: TlsConnection| {
            let head = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: Bearer {ROBOT}\r\n\r\n");
            connection.write(head.as_bytes()).unwrap();
            connection.read_response(false).unwrap().status
        };
        let asking: Vec<_> = connections.into_iter().map(|connection| scope.spawn(move || ask(connection))).collect();
        let all_wait = || {
            let active = fixture.gateway.envoy().admin().stats("^http\\..*downstream_rq_active$").unwrap();
            (active.iter().map(|(_, count)| *count).max() == Some(200)).then_some(())
        };
        wait::until("all requests wait", SOON, all_wait).unwrap();
        fixture.stub.clear_faults();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    if started.elapsed() >= DEADLINE && statuses.contains(&503) {
        return None;
    }
    assert_eq!(statuses, [200; 200]);
    // With wasm each of the two workers asks for itself.
    fixture.assert_reviews(REVIEWS, if deps::runs_wasm() { 2 } else { 1 });
    assert_eq!(fixture.stub.records_for(PODS).len(), 200);
    let per_worker = fixture.gateway.envoy().admin().stats("^listener\\..*worker_.\\.downstream_cx_total$").unwrap();
    let busy = per_worker.iter().filter(|(name, count)| !name.contains("admin") && *count > 10).count();
    assert_eq!(busy, 2, "{per_worker:?}");
    Some(())
}

#[test]
fn answer_that_is_none_is_a_503_each_time_and_never_anonymous() {
    let fixture = StubFixture::start("odd-answers", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).timeout(SOON);
    let user = json!({"username": "eve", "groups": ["system:masters"]});
    let whole = review(&json!({"authenticated": true, "user": user}));
    let odd = [
        ("429", respond(429, "")),
        ("500 with a good body", respond(500, &whole)),
        ("200 with a good body", respond(200, &whole)),
        ("wrong kind", respond(201, whole.replace("TokenReview", "SubjectAccessReview"))),
        ("a list", respond(201, "[]")),
        ("no body", respond(201, "")),
        ("cut", respond(201, whole.strip_suffix("}}").unwrap())),
        ("1 MiB of nothing", respond(201, "x".repeat(1 << 20))),
        ("nested too deep", respond(201, "[".repeat(100_000))),
        ("a Status", respond(201, r#"{"kind":"Status","status":"Failure"}"#)),
        ("no user", respond(201, review(&json!({"authenticated": true})))),
        ("a user without a name", respond(201, review(&json!({"authenticated": true, "user": {"username": ""}})))),
        ("authenticated is text", respond(201, whole.replace("true", "\"true\""))),
    ];
    for (case, action) in odd {
        fixture.stub.clear_faults();
        fixture.stub.clear();
        fixture.stub.fault(Fault::new(REVIEWS, action));
        let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
        for _ in 0..2 {
            let response = get(&target, ROBOT);
            assert_eq!(response.status, 503, "{case}: {}", response.text());
            assert!(matches!(response.retry_after(), Some(1..=4)), "{case}: {response:?}");
            assert_eq!(response.json().unwrap()["reason"], "ServiceUnavailable", "{case}");
        }
        assert!(fixture.stub.records_for(REVIEWS).len() >= 2, "{case}: the failure is not remembered");
        assert!(fixture.stub.records_for(PODS).is_empty(), "{case}");
        assert_eq!(get(&alice, ROBOT).status, 200, "{case}: a certificate needs no review");
    }
    fixture.stub.clear_faults();
    assert_eq!(get(&target, ROBOT).status, 200);
}

/// In another form, the user would be another one.
#[test]
fn user_whom_no_header_can_carry_is_rejected() {
    let fixture = StubFixture::start("untellable", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME);
    let users = [
        json!({"username": " alice"}),
        json!({"username": "alice\r\nImpersonate-Group: system:masters"}),
        json!({"username": "alice", "groups": ["dev", " system:masters"]}),
        json!({"username": "alice", "groups": [""]}),
        json!({"username": "alice", "uid": "1\n2"}),
    ];
    for (number, user) in users.iter().enumerate() {
        fixture.stub.clear_faults();
        let answer = review(&json!({"authenticated": true, "user": user}));
        fixture.stub.fault(Fault::new(REVIEWS, respond(201, answer)));
        let response = get(&target, &format!("token-{number}"));
        assert_eq!(response.status, 401, "{user}: {}", response.text());
    }
    assert!(fixture.stub.records_for(PODS).is_empty());
    fixture.stub.clear_faults();
    let refused = review(&json!({"authenticated": false, "user": {"username": "eve"}}));
    fixture.stub.fault(Fault::new(REVIEWS, respond(201, refused)));
    assert_eq!(get(&target, "not-authenticated").status, 401);
    assert!(fixture.stub.records_for(PODS).is_empty());
}

#[test]
fn review_that_fails_at_one_server_is_asked_of_another() {
    let fixture = StubFixture::with_tokens("other-server", &GatewayOptions::default(), tokens(40));
    let mut options = fixture.pki.stub_options("stub-1");
    options.tokens.extend(tokens(40));
    let second = StubServer::start(options).unwrap();
    let manifest = fixture.cluster(NAME, [fixture.stub.address(), second.address()]);
    fixture.gateway.apply(&manifest).unwrap();
    let target = fixture.gateway.target(NAME);
    let both =
        || (!fixture.stub.records_for(REVIEWS).is_empty() && !second.records_for(REVIEWS).is_empty()).then_some(());
    let mut stranger = 0;
    let asked = || {
        stranger += 1;
        get(&target, &format!("stranger-{stranger}"));
        both()
    };
    wait::until("reviews go to both servers", SOON, asked).unwrap();
    let faults = [
        respond(500, ""),
        respond(429, ""),
        respond(503, ""),
        Action::CloseConnection,
        Action::ResetStream { code: 2 },
    ];
    for (round, fault) in faults.into_iter().enumerate() {
        second.clear_faults();
        second.clear();
        second.fault(Fault::new(REVIEWS, fault.clone()));
        for number in 0..6 {
            let response = get(&target, &format!("token-{}", round * 6 + number));
            assert_eq!(response.status, 200, "{fault:?}: {}", response.text());
        }
        assert!(!second.records_for(REVIEWS).is_empty(), "{fault:?} was met");
    }
    drop(second);
    for number in 30..40 {
        let response = get(&target, &format!("token-{number}"));
        assert_eq!(response.status, 200, "a server that is gone: {}", response.text());
    }
    for record in fixture.stub.records_for(REVIEWS) {
        let names: Vec<&str> = record.headers.iter().map(|header| header.name.as_str()).collect();
        assert!(!names.iter().any(|name| name.contains("retr")), "what steers Envoy stays there: {names:?}");
    }
}

fn tokens(count: usize) -> impl Iterator<Item = (String, TokenEntry)> {
    (0..count).map(|number| {
        (format!("token-{number}"), TokenEntry { user: format!("user-{number}"), ..TokenEntry::default() })
    })
}

#[test]
fn token_is_never_believed_past_its_own_expiry() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let fixture = StubFixture::start("expiry", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME);
    let expires = now() + 3;
    let claims = URL_SAFE_NO_PAD.encode(format!(r#"{{"exp":{expires}}}"#));
    let token = format!("e30.{claims}.c2ln");
    let good = review(&json!({"authenticated": true, "user": {"username": "robot"}}));
    fixture.stub.fault(Fault::new(REVIEWS, respond(201, good)).times(1));
    assert_eq!(get(&target, &token).status, 200);
    // From now on the stub, which does not know it, rejects the token: only the memory of the first answer lets it in.
    let refused = || {
        let (before, response) = (now(), get(&target, &token));
        assert!(response.status == 401 || before < expires, "believed {} s past its end", before - expires);
        (response.status == 401).then_some(())
    };
    wait::until("the token's end", SOON, refused).unwrap();
    assert!(now() >= expires, "believed until its end");
    fixture.assert_reviews(REVIEWS, 2);
}

#[test]
fn answers_are_believed_for_as_long_as_configured_and_no_longer() {
    let fixture = StubFixture::start("lifetimes", &GatewayOptions::default());
    lifetimes(&fixture, "1s", "2s");
    let target = fixture.gateway.target(NAME);
    assert_eq!(get(&target, ROBOT).status, 200);
    let revoked = respond(201, review(&json!({"authenticated": false})));
    fixture.stub.fault(Fault::new(REVIEWS, revoked));
    // A cached answer is not used after the end of its life, which began before the answer arrived.
    let changes = |remembered: u16, life: u64, wanted: u16| {
        let known = Instant::now();
        let status = || {
            let sent = Instant::now();
            let status = get(&target, ROBOT).status;
            let is_remembered = status == remembered;
            assert!(is_remembered || status == wanted, "{status}");
            assert!(!is_remembered || sent <= known + Duration::from_secs(life), "{:?} after {known:?}", sent - known);
            (!is_remembered).then_some(())
        };
        wait::until("it is asked about again", SOON, status).unwrap();
    };
    changes(200, 1, 401);
    fixture.stub.clear_faults();
    changes(401, 2, 200);
    // Once for each answer.
    fixture.assert_reviews(REVIEWS, 3);
}

#[test]
fn slow_review_ends_at_the_deadline_and_counts_for_nothing() {
    wait::retry_if_slow("the review ends at its deadline", slow).unwrap();
}

/// Nothing if the review did not end before a request that began earlier and may take a second longer: both times are Envoy's.
fn slow() -> Option<()> {
    let fixture = StubFixture::start("slow-review", &GatewayOptions::default());
    let longer = json!({"requestTimeout": format!("{}s", DEADLINE.as_secs() + 1)});
    fixture.gateway.apply(&fixture.manifest().set("/spec/portcullis", longer)).unwrap();
    fixture.stub.fault(Fault::new(REVIEWS, Action::Hang));
    fixture.stub.fault(Fault::new(NODES, Action::Hang));
    let target = fixture.gateway.target(NAME).timeout(SOON);
    std::thread::scope(|scope| {
        let request = format!("GET {NODES} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
        let alice = target.clone().identity(&fixture.pki.alice);
        let earlier = scope.spawn(move || alice.raw_request(request.as_bytes()).unwrap().status);
        let is_there = || (!fixture.stub.records_for(NODES).is_empty()).then_some(());
        wait::until("the earlier one is under way", SOON, is_there).unwrap();
        let started = Instant::now();
        let response = get(&target, ROBOT);
        let (took, is_first) = (started.elapsed(), !earlier.is_finished());
        assert!(response.status == 503 && matches!(response.retry_after(), Some(1..=4)), "{response:?}");
        assert!(took >= DEADLINE, "{took:?}");
        assert!(fixture.stub.records_for(PODS).is_empty());
        assert_eq!(earlier.join().unwrap(), 504);
        is_first.then_some(())
    })
}
