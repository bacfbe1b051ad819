//! Waiting for reviews in a trace.

use std::sync::Barrier;
use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::deps;
use portcullis_harness::otel::{Sink, Span, Spans};
use portcullis_harness::wait;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::json;

use super::{ARRIVES, all_to, server_span, traced};
use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

fn get(target: &TlsTarget, headers: &str) -> u16 {
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{headers}\r\n");
    target.raw_request(request.as_bytes()).unwrap().status
}

fn wait_below(sink: &Sink, server: &Span, name: &str) -> Span {
    let is_it = |span: &Span| span.name == name && span.parent == server.id;
    sink.wait_span(&format!("{name} below {}", server.id), ARRIVES, is_it).unwrap()
}

/// The parents of the reviews that the server was asked for.
fn parents(fixture: &StubFixture, path: &str) -> Vec<String> {
    fixture.stub.records_for(path).iter().filter_map(|record| record.header("traceparent")).collect()
}

#[test]
fn review_is_a_span_of_each_request_that_waits_for_it() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let sink = Sink::start().unwrap();
        shown(&traced(&format!("waits-{version}"), &options, &all_to(sink.address())), &sink);
    }
}

fn shown(fixture: &StubFixture, sink: &Sink) {
    fixture.stub.fault(Fault::new(TOKEN_REVIEWS, Action::Delay { millis: 500 }));
    let target = fixture.gateway.target(NAME);
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        for agent in ["first", "second"] {
            let (start, target) = (&start, &target);
            scope.spawn(move || {
                start.wait();
                assert_eq!(get(target, &format!("User-Agent: {agent}\r\nAuthorization: Bearer {ROBOT}\r\n")), 200);
            });
        }
    });
    let waits = ["first", "second"].map(|agent| {
        let server = server_span(sink, agent);
        let wait = wait_below(sink, &server, "TokenReview");
        assert_eq!((wait.trace.as_str(), wait.kind, wait.attribute("portcullis.reviews")), (&*server.trace, 3, "1"));
        assert!(wait.start >= server.start && wait.end <= server.end, "{wait:?} {server:?}");
        let told: u64 = server.attribute("portcullis.review_wait_ms").parse().unwrap();
        assert!(wait.duration() >= Duration::from_millis(250) && told >= 250, "{wait:?} {told}");
        wait
    });
    let parents = parents(fixture, TOKEN_REVIEWS);
    let carried = |wait: &Span| parents.contains(&format!("00-{}-{}-01", wait.trace, wait.id));
    assert!(!parents.is_empty() && waits.iter().any(carried), "{parents:?} {waits:?}");
    let told = format!("{:?}", sink.spans().unwrap());
    assert!(!told.contains(ROBOT) && !told.contains("robot"), "{told}");

    let admin = target.identity(&fixture.pki.admin);
    assert_eq!(get(&admin, "User-Agent: as-bob\r\nImpersonate-User: bob\r\n"), 200);
    let server = server_span(sink, "as-bob");
    let wait = wait_below(sink, &server, "SubjectAccessReview");
    assert_eq!(self::parents(fixture, ACCESS_REVIEWS), [format!("00-{}-{}-01", wait.trace, wait.id)]);
}

#[test]
fn wait_of_a_client_that_leaves_ends_with_it() {
    let sink = Sink::start().unwrap();
    let fixture = traced("waits-leaver", &GatewayOptions::default(), &all_to(sink.address()));
    fixture.stub.fault(Fault::new(TOKEN_REVIEWS, Action::Delay { millis: 1_500 }));
    let target = fixture.gateway.target(NAME);
    let mut leaver = target.connect().unwrap();
    let head =
        format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nUser-Agent: leaver\r\nAuthorization: Bearer {ROBOT}\r\n\r\n");
    leaver.write(head.as_bytes()).unwrap();
    let asked = || (!fixture.stub.records_for(TOKEN_REVIEWS).is_empty()).then_some(());
    wait::until("the review is under way", ARRIVES, asked).unwrap();
    drop(leaver);
    let wait = sink.wait_span("the wait of the leaver", ARRIVES, |span| span.name == "TokenReview").unwrap();
    let server = sink.wait_span("its request", ARRIVES, |span| span.kind == 2 && span.id == wait.parent).unwrap();
    assert_eq!(server.trace, wait.trace);
    assert_eq!(get(&target, &format!("Authorization: Bearer {ROBOT}\r\n")), 200, "the answer stays");
}

#[test]
fn review_is_marked_as_sampled_only_if_it_is() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let sink = Sink::start().unwrap();
        let mut tracing = all_to(sink.address());
        tracing["parents"] = json!("Trusted");
        tracing["samplingRatePerMillion"] = json!(0);
        let fixture = traced(&format!("waits-rate-{version}"), &options, &tracing);
        let target = fixture.gateway.target(NAME);
        assert_eq!(get(&target, &format!("Authorization: Bearer {ROBOT}\r\n")), 200);
        assert_eq!(fixture.stub.records_for(TOKEN_REVIEWS).len(), 1);
        assert_eq!(parents(&fixture, TOKEN_REVIEWS), Vec::<String>::new());
        let admin = target.identity(&fixture.pki.admin);
        let parent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(get(&admin, &format!("Impersonate-User: bob\r\n{parent}\r\n")), 200);
        let joined = parents(&fixture, ACCESS_REVIEWS);
        assert!(joined.len() == 1 && joined[0].contains("0af7651916cd43dd8448eb211c80319c"), "{joined:?}");
    }
}
