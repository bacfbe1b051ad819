//! Traces of requests: spans of Envoy's tracer with the filter's attributes.

mod away;
mod collector;
mod edits;
mod hostile;
mod motion;
mod parents;
mod reviews;

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::H2Client;
use portcullis_harness::deps;
use portcullis_harness::otel::{Sink, Span, Spans};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture, connect};

/// Envoy sends spans every five seconds.
pub(crate) const ARRIVES: Duration = Duration::from_secs(30);

/// `spec.tracing` that traces every request, to a receiver for OTLP over HTTP.
pub(crate) fn all_to(address: std::net::SocketAddr) -> Value {
    json!({"endpoint": address.to_string(), "protocol": "HTTP", "samplingRatePerMillion": 1_000_000})
}

/// A gateway whose requests are traced.
fn traced(test: &str, options: &GatewayOptions, tracing: &Value) -> StubFixture {
    let fixture = StubFixture::start(test, options);
    fixture.gateway.change_settings(|spec| spec["tracing"] = tracing.clone()).unwrap();
    fixture
}

/// The span of a request that came with this user agent.
fn server_span(spans: &impl Spans, agent: &str) -> Span {
    let what = format!("the span of {agent}");
    spans.wait_span(&what, ARRIVES, |span| span.kind == 2 && span.attribute("user_agent") == agent).unwrap()
}

fn upstream_span(spans: &impl Spans, server: &Span) -> Span {
    let what = format!("the upstream's span below {}", server.id);
    spans.wait_span(&what, ARRIVES, |span| span.kind == 3 && span.parent == server.id).unwrap()
}

#[test]
fn span_says_what_was_asked_and_decided() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let sink = Sink::start().unwrap();
        says_what_was_asked(&traced(&format!("span-{version}"), &options, &all_to(sink.address())), &sink);
    }
}

#[test]
fn span_says_what_was_asked_and_decided_with_wasm() {
    let options = GatewayOptions { wasm: Some(deps::wasm().unwrap()), ..GatewayOptions::default() };
    let sink = Sink::start().unwrap();
    says_what_was_asked(&traced("span-wasm", &options, &all_to(sink.address())), &sink);
}

fn says_what_was_asked(fixture: &StubFixture, sink: &Sink) {
    let read_only = json!([{"rules": [{"verbs": ["get", "list"], "apiGroups": ["*"], "resources": ["*"]}]}]);
    fixture.gateway.apply(&fixture.manifest().policies(read_only)).unwrap();
    let alice = connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice));
    let secret = "/api/v1/namespaces/default/secrets/tokens?token=hidden-in-the-query";
    alice.get(secret, &[("user-agent", "reads")]).unwrap();
    let denied = alice.request("DELETE", secret, &[("user-agent", b"deletes")], b"").unwrap();
    assert_eq!(denied.status, 403);

    let read = server_span(sink, "reads");
    assert_eq!((read.service.as_str(), read.parent.as_str()), ("e2e", ""));
    assert_eq!(upstream_span(sink, &read).trace, read.trace);
    for (name, value) in [
        ("portcullis.cluster", NAME),
        ("portcullis.verb", "get"),
        ("portcullis.api_version", "v1"),
        ("portcullis.resource", "secrets"),
        ("portcullis.namespace", "default"),
        ("portcullis.name", "tokens"),
        ("portcullis.policy", "0"),
        ("portcullis.server_group", "all"),
        ("portcullis.decision", "forwarded"),
        ("portcullis.reason", "-"),
        ("portcullis.user", ""),
        ("portcullis.review_wait_ms", ""),
        ("url.path", "/api/v1/namespaces/default/secrets/tokens"),
    ] {
        assert_eq!(read.attribute(name), value, "{name} of {read:?}");
    }
    let deleted = server_span(sink, "deletes");
    for (name, value) in [
        ("portcullis.verb", "delete"),
        ("portcullis.decision", "refused"),
        ("portcullis.reason", "no_policy"),
        ("http.status_code", "403"),
    ] {
        assert_eq!(deleted.attribute(name), value, "{name} of {deleted:?}");
    }
    let told = format!("{:?}", sink.spans().unwrap());
    for secret in ["hidden-in-the-query", "alice"] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
}

#[test]
fn span_is_named_by_verb_and_resource_of_closed_sets() {
    let sink = Sink::start().unwrap();
    let fixture = traced("span-names", &GatewayOptions::default(), &all_to(sink.address()));
    let alice = connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice));
    for (agent, path, name) in [
        ("lists", PODS, "LIST pods"),
        ("plain", "/version", "GET"),
        ("log", "/api/v1/namespaces/default/pods/a/log", "CONNECT pods log"),
        ("invents", "/api/v1/inventions", "LIST other"),
    ] {
        alice.get(path, &[("user-agent", agent)]).unwrap();
        assert_eq!(server_span(&sink, agent).name, name, "{path}");
    }
}

#[test]
fn slow_server_shows_in_its_span_and_no_other() {
    let sink = Sink::start().unwrap();
    let fixture = traced("span-slow", &GatewayOptions::default(), &all_to(sink.address()));
    let alice = connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice));
    fixture.stub.fault(Fault::new(PODS, Action::Delay { millis: 2_000 }).times(1));
    alice.get(PODS, &[("user-agent", "slow")]).unwrap();
    alice.get("/api/v1/namespaces/default/services", &[("user-agent", "quick")]).unwrap();
    let (slow, quick) = (server_span(&sink, "slow"), server_span(&sink, "quick"));
    let upstream = upstream_span(&sink, &slow);
    let two = Duration::from_secs(2);
    assert!(slow.duration() >= two && upstream.duration() >= two, "{slow:?} {upstream:?}");
    assert!(upstream.start >= slow.start && upstream.end <= slow.end, "{slow:?} {upstream:?}");
    assert!(quick.trace != slow.trace && quick.start >= slow.end, "{quick:?}");
}

#[test]
fn users_are_in_spans_only_if_they_are_to_be() {
    let sink = Sink::start().unwrap();
    let mut tracing = all_to(sink.address());
    tracing["users"] = json!("Sent");
    let fixture = traced("span-users", &GatewayOptions::default(), &tracing);
    fixture.gateway.apply(&fixture.manifest().policies(json!([{"rules": [allow_all()], "logMode": "off"}]))).unwrap();
    let admin = connect(&fixture.gateway.target(NAME).identity(&fixture.pki.admin));
    admin.get(PODS, &[("user-agent", "himself")]).unwrap();
    admin.get(PODS, &[("user-agent", "as-bob"), ("impersonate-user", "bob")]).unwrap();
    let stranger = connect(&fixture.gateway.target(NAME));
    stranger.get(PODS, &[("user-agent", "stranger")]).unwrap();
    let users = |agent: &str| {
        let span = server_span(&sink, agent);
        (span.attribute("portcullis.user").to_owned(), span.attribute("portcullis.impersonated_user").to_owned())
    };
    assert_eq!(users("himself"), ("admin".to_owned(), String::new()));
    assert_eq!(users("as-bob"), ("admin".to_owned(), "bob".to_owned()));
    assert_eq!(users("stranger"), ("system:anonymous".to_owned(), String::new()));
}

#[test]
fn gate_of_an_object_switches_its_traces_off() {
    let sink = Sink::start().unwrap();
    let fixture = traced("span-gate", &GatewayOptions::default(), &all_to(sink.address()));
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let get = |alice: &H2Client, agent: &str| alice.get(PODS, &[("user-agent", agent)]).unwrap().status;
    let off = json!({"proxy.kubegateway.io/feature-gates": "Tracing=false"});
    fixture.gateway.apply(&fixture.manifest().set("/metadata/annotations", off)).unwrap();
    assert_eq!(get(&connect(&target), "off"), 200);
    let record = fixture.stub.records_for(PODS).pop().unwrap();
    assert_eq!(record.header("traceparent"), None, "nothing traces it");
    fixture.gateway.apply(&fixture.manifest()).unwrap();
    assert_eq!(get(&connect(&target), "on"), 200);
    server_span(&sink, "on");
    let is_of_off = |span: &Span| span.attribute("user_agent") == "off";
    assert!(!sink.spans().unwrap().iter().any(is_of_off), "it came before the other");
}

#[test]
fn requests_are_sampled_by_the_rate_alone() {
    let sink = Sink::start().unwrap();
    let mut tracing = all_to(sink.address());
    tracing["samplingRatePerMillion"] = json!(250_000);
    let fixture = traced("span-rate", &GatewayOptions::default(), &tracing);
    let alice = connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice));
    let (count, forced) =
        (400, [("x-client-trace-id", "forced"), ("x-envoy-force-trace", "1"), ("user-agent", "many")]);
    for _ in 0..count {
        alice.get(PODS, &forced).unwrap();
    }
    let sampled = |flags: &str| {
        let records = fixture.stub.records_for(PODS).into_iter();
        records.filter(|record| record.header("traceparent").is_some_and(|parent| parent.ends_with(flags))).count()
    };
    let traced = sampled("-01");
    // Nine standard deviations around a quarter of them.
    assert!((22..=178).contains(&traced), "{traced} of {count}");
    assert_eq!(sampled("-00"), count - traced, "every one carries the decision to the server");
    sink.wait_span("the last of the sampled", ARRIVES, |_| {
        let servers = sink.spans().unwrap().into_iter().filter(|span| span.kind == 2).count();
        servers >= traced
    })
    .unwrap();
    let spans = sink.spans().unwrap();
    assert_eq!(spans.iter().filter(|span| span.kind == 2).count(), traced);
    assert!(spans.iter().all(|span| span.attribute("guid:x-client-trace-id").is_empty()));
    let with_attributes = |span: &&Span| span.kind == 2 && span.attribute("portcullis.verb") == "list";
    assert_eq!(spans.iter().filter(with_attributes).count(), traced, "the filter knows which ones are sampled");
}
