//! Over a thousand users at once, over shared and own connections: each is answered as itself, and each request is handled as its
//! own user's.

use std::time::{Duration, Instant};

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::{CertSpec, Identity};
use portcullis_harness::client::{ClientPool, H2Client, Outgoing, Response, Timed};
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::TokenEntry;
use serde_json::{Value, json};

use crate::fixture::{NAME, StubFixture};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
/// How often each user asks.
const ROUNDS: usize = 3;
/// Users with tokens, or whom an administrator impersonates, on one HTTP/2 connection.
const SHARING: usize = 100;

/// How long anybody waits, on a machine of its own.
const LONGEST: Duration = Duration::from_secs(30);

fn token_of(user: usize) -> String {
    format!("the-token-of-user-{user}")
}

/// How long a review may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// The user in a response that came within this time; `None` for one that asks the client to retry: so many reviews at once may
/// be too many, or take too long; in wasm, where they share connections with users' requests, sooner than elsewhere.
fn told(response: &Response, within: Duration) -> Option<Value> {
    let may_be_given_up = within >= DEADLINE || deps::runs_wasm();
    if response.status == 429 || (response.status == 503 && may_be_given_up) {
        assert!(response.header("retry-after").is_some(), "{} {}", response.status, response.text());
        return None;
    }
    assert_eq!(response.status, 201, "{}", response.text());
    Some(response.json().unwrap()["status"]["userInfo"].take())
}

/// Says who asks, for the server's record. The gateway passes it on unread.
fn path_of(user: usize) -> String {
    format!("{REVIEWS}?owner=user-{user}")
}

fn is_own(told: &Value, user: usize) {
    let group = format!("group-{user}");
    assert_eq!(told["username"], format!("user-{user}"));
    assert_eq!(told["groups"], json!([group, "system:authenticated"]), "user-{user}");
    assert_eq!(told["uid"], format!("uid-{user}"), "user-{user}");
}

fn token_lines(user: usize) -> Vec<(String, Vec<u8>)> {
    vec![("authorization".to_owned(), format!("Bearer {}", token_of(user)).into_bytes())]
}

fn impersonated(user: usize) -> Vec<(String, Vec<u8>)> {
    let line = |part: &str, value: String| (format!("impersonate-{part}"), value.into_bytes());
    let (name, uid, group) = (format!("user-{user}"), format!("uid-{user}"), format!("group-{user}"));
    vec![line("user", name), line("uid", uid), line("group", group)]
}

/// Users who share a connection, each with header lines of its own.
fn sharing_h2(client: &H2Client, users: &[usize], identity: impl Fn(usize) -> Vec<(String, Vec<u8>)>) {
    let mut waiting: Vec<usize> = (0..ROUNDS).flat_map(|_| users.iter().copied()).collect();
    let started = Instant::now();
    while !waiting.is_empty() {
        assert!(
            started.elapsed() < LONGEST.saturating_mul(wait::deadline_factor()),
            "{} never got an answer",
            waiting.len()
        );
        let request = |user: &usize| Outgoing {
            method: "POST".to_owned(),
            path: path_of(*user),
            headers: [identity(*user), vec![("content-type".to_owned(), b"application/json".to_vec())]].concat(),
            body: REVIEW.as_bytes().to_vec(),
        };
        let answers = client.timed_burst(waiting.iter().map(request).collect(), SHARING);
        let told_again = |(user, timed): (usize, Timed)| {
            let Some(told) = told(&timed.answer.unwrap(), timed.took) else { return Some(user) };
            is_own(&told, user);
            None
        };
        waiting = waiting.into_iter().zip(answers).filter_map(told_again).collect();
    }
}

fn by_certificate_h2(client: &H2Client, user: usize) {
    for _ in 0..ROUNDS {
        let headers = [("content-type", &b"application/json"[..])];
        let response = client.request("POST", &path_of(user), &headers, REVIEW.as_bytes()).unwrap();
        // Certificates are not reviewed.
        is_own(&told(&response, Duration::ZERO).unwrap(), user);
    }
}

fn by_h1(fixture: &StubFixture, identity: Option<&Identity>, user: usize) {
    let target = fixture.gateway.target(NAME).timeout(LONGEST);
    let (target, credential) = match identity {
        Some(identity) => (target.identity(identity), String::new()),
        None => (target, format!("Authorization: Bearer {}\r\n", token_of(user))),
    };
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: {NAME}\r\n{credential}Content-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{REVIEW}",
        path_of(user),
        REVIEW.len()
    );
    let mut connection = target.connect().unwrap();
    let (mut answered, started) = (0, Instant::now());
    while answered < ROUNDS {
        assert!(
            started.elapsed() < LONGEST.saturating_mul(wait::deadline_factor()),
            "user-{user} got {answered} answers"
        );
        let asked = Instant::now();
        connection.write(request.as_bytes()).unwrap();
        let response = connection.read_response(false).unwrap();
        if let Some(told) = told(&response, asked.elapsed()) {
            is_own(&told, user);
            answered += 1;
        }
        // A refusal may come before the body was read.
        if response.header("connection").as_deref() == Some("close") {
            connection = target.connect().unwrap();
        }
    }
}

/// `h2` and `h1` users with a certificate, then as many with a token, then some whom an administrator impersonates.
fn crowd(test: &str, (h2, h1): (usize, usize), impersonated_users: usize) {
    let with_certificate = h2 + h1;
    let with_token = 2 * with_certificate;
    let all = with_token + impersonated_users;
    let entry = |user: usize| TokenEntry {
        user: format!("user-{user}"),
        uid: format!("uid-{user}"),
        groups: vec![format!("group-{user}")],
        ..TokenEntry::default()
    };
    let tokens = (with_certificate..with_token).map(|user| (token_of(user), entry(user)));
    let fixture = StubFixture::with_tokens(test, &GatewayOptions::default(), tokens);
    let identity = |user: usize| {
        let spec = CertSpec::client(format!("user-{user}"), [format!("group-{user}")]).uid(format!("uid-{user}"));
        fixture.pki.client_ca.issue(&spec).unwrap()
    };
    let identities: Vec<Identity> = (0..with_certificate).map(identity).collect();
    let crowd = ClientPool::new(2).unwrap();
    let target = fixture.gateway.target(NAME).timeout(LONGEST);
    let sharers: Vec<usize> = (with_certificate..with_certificate + h2).collect();
    let others: Vec<usize> = (with_token..all).collect();
    let started = Instant::now();
    std::thread::scope(|scope| {
        let (fixture, crowd, target, identities) = (&fixture, &crowd, &target, &identities);
        for (user, identity) in identities.iter().enumerate().take(h2) {
            let connect = move || crowd.connect(&target.clone().identity(identity)).unwrap();
            scope.spawn(move || by_certificate_h2(&connect(), user));
        }
        for (user, identity) in identities.iter().enumerate().skip(h2) {
            scope.spawn(move || by_h1(fixture, Some(identity), user));
        }
        for users in sharers.chunks(SHARING) {
            scope.spawn(move || sharing_h2(&crowd.connect(target).unwrap(), users, token_lines));
        }
        for users in others.chunks(SHARING) {
            let connect = || crowd.connect(&target.clone().identity(&fixture.pki.admin)).unwrap();
            scope.spawn(move || sharing_h2(&connect(), users, impersonated));
        }
        for user in with_certificate + h2..with_token {
            scope.spawn(move || by_h1(fixture, None, user));
        }
    });
    eprintln!("{all} users were answered {ROUNDS} times each in {:?}", started.elapsed());
    let records = fixture.stub.records_for(REVIEWS);
    assert_eq!(records.len(), ROUNDS * all);
    for record in &records {
        let user = record.effective.as_ref().unwrap();
        let number = user.username.strip_prefix("user-").unwrap();
        assert_eq!(record.target, format!("{REVIEWS}?owner={}", user.username), "whose request it was");
        assert_eq!(user.uid, format!("uid-{number}"));
        assert_eq!(user.groups, [format!("group-{number}"), "system:authenticated".to_owned()]);
    }
    let upstream: std::collections::BTreeSet<u64> = records.iter().map(|record| record.connection).collect();
    assert!(upstream.len() < all / 10, "they shared {} connections to the upstream", upstream.len());
}

#[test]
fn thousand_users_each_see_only_themselves() {
    crowd("crowd", (400, 100), 200);
}
