//! Sizes, counts and bytes at the edge of what is let through, on a live Envoy.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{H2Client, Response, TlsTarget};

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

type Lines = Vec<(String, Vec<u8>)>;

fn line(name: &str, value: impl AsRef<[u8]>) -> (String, Vec<u8>) {
    (name.to_owned(), value.as_ref().to_owned())
}

fn over_h1(target: &TlsTarget, lines: &Lines) -> Response {
    let mut request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n").into_bytes();
    for (name, value) in lines {
        request.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    request.extend(b"\r\n");
    target.raw_request(&request).unwrap()
}

/// Nothing where the stream was reset, or the request cannot be expressed.
fn over_h2(target: &TlsTarget, lines: &Lines) -> Option<Response> {
    let headers: Vec<(String, &[u8])> = lines.iter().map(|(name, value)| (name.to_lowercase(), &value[..])).collect();
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    H2Client::connect(target).unwrap().request("GET", PODS, &headers, b"").ok()
}

#[test]
fn heads_that_are_too_large_end_at_envoy() {
    let fixture = StubFixture::start("large-heads", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let filler = |count: usize| -> Lines { (0..count).map(|number| line(&format!("x-f-{number}"), "v")).collect() };
    // Host, Connection and what Envoy adds count as well.
    for fits in [filler(90), vec![line("x-large", "x".repeat(12 << 10))]] {
        assert_eq!(over_h1(&target, &fits).status, 200);
        assert_eq!(over_h2(&target, &fits).unwrap().status, 200);
    }
    fixture.stub.clear();
    for too_much in [filler(129), filler(5_000), vec![line("x-large", "x".repeat(61 << 10))]] {
        assert_eq!(over_h1(&target, &too_much).status, 431);
        let answer = over_h2(&target, &too_much);
        assert!(answer.as_ref().is_none_or(|response| response.status == 431), "{answer:?}");
    }
    assert!(fixture.client_records().is_empty());
    assert_eq!(over_h1(&target, &filler(1)).status, 200, "Envoy goes on");
}

#[test]
fn tokens_beyond_the_bound_are_rejected_unread() {
    let fixture = StubFixture::start("large-tokens", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME);
    let token = |length: usize| vec![line("authorization", format!("Bearer {}", "x".repeat(length)))];
    for (length, status, reviews) in
        [(16 << 10, 401, 1), ((16 << 10) + 1, 401, 0), (50 << 10, 401, 0), (60 << 10, 431, 0)]
    {
        fixture.stub.clear();
        assert_eq!(over_h1(&target, &token(length)).status, status, "{length}");
        assert_eq!(fixture.stub.records_for(TOKEN_REVIEWS).len(), reviews, "{length}");
        if status != 431 {
            assert_eq!(over_h2(&target, &token(length)).unwrap().status, status, "{length}");
        }
        assert!(fixture.client_records().is_empty(), "{length}");
    }
}

#[test]
fn impersonated_parts_are_bounded() {
    let fixture = StubFixture::start("parts", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.admin);
    let asking = |groups: usize| -> Lines {
        let groups = (0..groups).map(|number| line("Impersonate-Group", format!("group-{number}")));
        std::iter::once(line("Impersonate-User", "bob")).chain(groups).collect()
    };
    for answer in [over_h1(&target, &asking(63)), over_h2(&target, &asking(63)).unwrap()] {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let user = fixture.client_records().pop().unwrap().effective.unwrap();
        assert_eq!((user.username.as_str(), user.groups.len()), ("bob", 64), "and system:authenticated");
    }
    fixture.stub.clear();
    for answer in [over_h1(&target, &asking(64)), over_h2(&target, &asking(64)).unwrap()] {
        assert_eq!(answer.status, 400);
        assert_eq!(answer.json().unwrap()["reason"], "BadRequest");
    }
    assert!(fixture.stub.records().iter().all(|record| record.path() == "/readyz"), "not even a review");
}

#[test]
fn bytes_that_no_header_carries_unchanged_are_refused() {
    let fixture = StubFixture::start("odd-bytes", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.admin);
    let bob = || line("Impersonate-User", "bob");
    let cases: [(&str, Lines, u16); 12] = [
        ("a user that is no UTF-8", vec![line("Impersonate-User", b"b\xffb")], 400),
        ("a group that is no UTF-8", vec![bob(), line("Impersonate-Group", b"\xc3")], 400),
        ("an extra key that is no UTF-8", vec![bob(), line("Impersonate-Extra-%ff", "x")], 400),
        ("an extra without a key", vec![bob(), line("Impersonate-Extra-", "x")], 403),
        ("an empty group", vec![bob(), line("Impersonate-Group", "")], 400),
        ("a tab inside", vec![line("Impersonate-User", "b\tb")], 400),
        ("a NUL", vec![line("Impersonate-User", "b\0b")], 400),
        // A line's end, to Envoy and to Go: two headers, both of which are judged.
        ("a lone line feed", vec![line("Impersonate-User", "bob\nImpersonate-Foo: system:masters")], 403),
        ("two Authorizations", vec![line("Authorization", "Bearer a"), line("Authorization", "Bearer b")], 400),
        ("two in one", vec![line("Authorization", format!("Bearer a,Bearer {ROBOT}"))], 400),
        ("a name with a blank", vec![line("Impersonate-User ", "bob")], 400),
        ("a name with a colon", vec![line("Impersonate-User:x", "bob"), bob()], 200),
    ];
    for (case, lines, expected) in cases {
        fixture.stub.clear();
        let answer = over_h1(&target, &lines);
        assert_eq!(answer.status, expected, "{case}: {}", answer.text());
        let records = fixture.client_records();
        assert_eq!(records.is_empty(), expected != 200, "{case}");
        // Some of these HTTP/2 cannot say.
        let Some(answer) = over_h2(&target, &lines) else { continue };
        assert_eq!(answer.status, expected, "{case}, HTTP/2: {}", answer.text());
    }
}

#[test]
fn names_beyond_ascii_arrive_as_they_are() {
    let fixture = StubFixture::start("names", &GatewayOptions::default());
    let admin = fixture.gateway.target(NAME).identity(&fixture.pki.admin);
    for user in ["Zoë", "名前", "a,b", "a;b=c", "system:serviceaccount:a:b:c", "\"x\"", "a  b"] {
        let lines = vec![line("Impersonate-User", user), line("Impersonate-Group", user)];
        for answer in [over_h1(&admin, &lines), over_h2(&admin, &lines).unwrap()] {
            assert_eq!(answer.status, 200, "{user}: {}", answer.text());
            let effective = fixture.client_records().pop().unwrap().effective.unwrap();
            assert_eq!((effective.username.as_str(), effective.groups[0].as_str()), (user, user));
        }
    }
}
