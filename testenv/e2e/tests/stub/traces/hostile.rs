//! Clients that use headers of tracers, and requests of which little may be in a span.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::TlsTarget;
use portcullis_harness::deps;
use portcullis_harness::otel::{Sink, Span, Spans};
use serde_json::json;

use super::{ARRIVES, all_to, server_span, traced};
use crate::fixture::{NAME, PODS, StubFixture, connect};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// The most bytes of an attribute: a path of 1,024 characters, each of which may be replaced by one of three bytes.
const MOST: usize = 3 * 1_025;

/// Headers by which tracers let a client, or a proxy in front, demand a trace.
fn demands() -> Vec<Vec<(&'static str, String)>> {
    let id = |digit: char| format!("3f1b0c9a-77a2-{digit}0aa-8a52-000000000000");
    let one = |name: &'static str, value: &str| vec![(name, value.to_owned())];
    let long = "a".repeat(8_000);
    vec![
        vec![("traceparent", PARENT.to_owned()), ("tracestate", "evil=1".to_owned()), ("baggage", "evil=1".to_owned())],
        vec![("traceparent", PARENT.to_owned()), ("traceparent", PARENT.replace("-b7", "-c7"))],
        one("traceparent", &PARENT.replacen("00", "ff", 1)),
        one("traceparent", &format!("{PARENT}-more")),
        one("traceparent", &PARENT.to_uppercase()),
        one("traceparent", "01"),
        one("traceparent", &long),
        vec![("traceparent", PARENT.to_owned()), ("tracestate", format!("evil={long}"))],
        vec![("traceparent", PARENT.to_owned()), ("baggage", format!("evil={long}"))],
        one("x-request-id", &id('9')),
        one("x-request-id", &id('a')),
        one("x-request-id", &id('b')),
        one("x-request-id", &long),
        vec![("x-client-trace-id", "forced".to_owned()), ("x-envoy-force-trace", "1".to_owned())],
        one("b3", "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1"),
        vec![
            ("x-b3-traceid", TRACE.to_owned()),
            ("x-b3-spanid", "b7ad6b7169203331".to_owned()),
            ("x-b3-sampled", "1".to_owned()),
            ("x-b3-flags", "1".to_owned()),
        ],
        one("x-cloud-trace-context", &format!("{TRACE}/1;o=1")),
        one("grpc-trace-bin", "AAA"),
        one("sw8", "1-a-b-1-c-d-e-f"),
    ]
}

/// Sends a request over HTTP/1.1, with names in capital letters.
fn get_http1(target: &TlsTarget, headers: &[(&str, String)]) -> u16 {
    let lines: String = headers.iter().map(|(name, value)| format!("{}: {value}\r\n", name.to_uppercase())).collect();
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{lines}\r\n");
    target.raw_request(request.as_bytes()).unwrap().status
}

#[test]
fn no_header_of_a_client_forces_a_trace() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let sink = Sink::start().unwrap();
        let mut tracing = all_to(sink.address());
        tracing["samplingRatePerMillion"] = json!(0);
        let fixture = traced(&format!("forced-{version}"), &options, &tracing);
        let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
        let demands = demands();
        for headers in &demands {
            let lines: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(connect(&target).get(PODS, &lines).unwrap().status, 200, "{headers:?}");
            assert_eq!(get_http1(&target, headers), 200, "{headers:?}");
        }
        let records = fixture.stub.records_for(PODS);
        assert_eq!(records.len(), 2 * demands.len());
        for record in records {
            let parents = record.header_all("traceparent");
            let is_own = |parent: &String| parent.ends_with("-00") && !parent.contains(TRACE);
            assert!(parents.len() == 1 && parents.iter().all(is_own), "{record:?}");
            assert_eq!(
                (record.header("baggage"), record.header("tracestate").unwrap_or_default()),
                (None, String::new())
            );
        }
        tracing["samplingRatePerMillion"] = json!(1_000_000);
        fixture.gateway.change_settings(|spec| spec["tracing"] = tracing).unwrap();
        assert_eq!(connect(&target).get(PODS, &[("user-agent", "last")]).unwrap().status, 200);
        server_span(&sink, "last");
        let forced: Vec<_> = sink.spans().unwrap().into_iter().filter(|span| span.kind == 2).collect();
        assert_eq!(forced.len(), 1, "{forced:#?}");
    }
}

#[test]
fn span_holds_no_secret_and_is_bounded() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        holds_no_secret(&format!("secrets-{version}"), &options);
    }
}

#[test]
fn span_holds_no_secret_and_is_bounded_with_wasm() {
    let options = GatewayOptions { wasm: Some(deps::wasm().unwrap()), ..GatewayOptions::default() };
    holds_no_secret("secrets-wasm", &options);
}

fn holds_no_secret(test: &str, options: &GatewayOptions) {
    let sink = Sink::start().unwrap();
    let fixture = traced(test, options, &all_to(sink.address()));
    send_secrets(&fixture);
    let told = spans_of_all(&sink);
    let is_long = |(_, value): &(&String, &String)| value.len() > MOST;
    for (what, span) in &told {
        let long: Vec<_> = span.attributes.iter().filter(is_long).map(|(name, value)| (name, value.len())).collect();
        assert!(long.is_empty() && span.name.len() < 100, "{test}: {what}: {} {long:?}", span.name);
    }
    assert_eq!(told["agent"].attribute("user_agent"), format!("{}…", &long_agent()[..253]));
    assert_eq!(told["grpc"].attribute("grpc.path"), PODS);
    for secret in [SECRET.to_owned(), URL_SAFE_NO_PAD.encode(SECRET)] {
        let holds = |span: &Span| format!("{span:?}").contains(&secret);
        let holding: Vec<_> = sink.spans().unwrap().into_iter().filter(holds).collect();
        assert!(holding.is_empty(), "{test}: {holding:#?}");
    }
}

fn long_agent() -> String {
    format!("agent{}", "x".repeat(9_000))
}

const SECRET: &str = "only-between-client-and-server";
/// The beginnings of the clients' `User-Agent`s.
const AGENTS: [&str; 12] = [
    "query",
    "bearer",
    "socket",
    "grpc",
    "verbose",
    "internal",
    "host",
    "method",
    "cookie",
    "agent",
    "path",
    "impersonates",
];

/// Sends requests that hold a secret, or too much, of which some are refused.
fn send_secrets(fixture: &StubFixture) {
    let target = fixture.gateway.target(NAME);
    let (alice, nobody) = (connect(&target.clone().identity(&fixture.pki.alice)), connect(&target));
    let (bearer, cookie) = (format!("Bearer {SECRET}"), format!("session={SECRET}"));
    let socket = format!("base64url.bearer.authorization.k8s.io.{}, v4.channel.k8s.io", URL_SAFE_NO_PAD.encode(SECRET));
    let (query, long) = (format!("{PODS}?token={SECRET}"), format!("{PODS}/{}", "n".repeat(9_000)));
    let agent = long_agent();
    alice.get(&query, &[("user-agent", "query")]).unwrap();
    nobody.get(PODS, &[("user-agent", "bearer"), ("authorization", &bearer)]).unwrap();
    let exec = format!("{PODS}/a/exec?command={SECRET}");
    nobody.get(&exec, &[("user-agent", "socket"), ("sec-websocket-protocol", &socket)]).unwrap();
    // A gateway's own answer to gRPC is a reset.
    let grpc = |agent: &'static [u8], kind, timeout| {
        let headers = [("user-agent", agent), ("content-type", kind), ("te", b"trailers"), ("grpc-timeout", timeout)];
        let _ = alice.request("POST", &query, &headers, b"");
    };
    grpc(b"grpc", b"application/grpc", b"1S");
    let long_kind = format!("application/grpc+{}", "k".repeat(9_000));
    grpc(b"verbose", long_kind.as_bytes(), "9".repeat(9_000).as_bytes());
    let of_envoy = [("x-envoy-downstream-service-cluster", &*agent), ("x-client-trace-id", &agent)];
    alice.get(PODS, &[&[("user-agent", "internal")][..], &of_envoy].concat()).unwrap();
    let host = connect(&target.clone().identity(&fixture.pki.alice)).authority(&"h".repeat(9_000));
    assert_eq!(host.get(PODS, &[("user-agent", "host")]).unwrap().status, 421);
    assert_eq!(alice.request(&"M".repeat(9_000), PODS, &[("user-agent", b"method")], b"").unwrap().status, 400);
    alice.get(PODS, &[("user-agent", "cookie"), ("cookie", &cookie)]).unwrap();
    alice.get(PODS, &[("user-agent", &agent)]).unwrap();
    alice.get(&long, &[("user-agent", "path")]).unwrap();
    let impersonates =
        [("user-agent", "impersonates"), ("impersonate-user", SECRET), ("impersonate-extra-token", SECRET)];
    assert_eq!(alice.get(PODS, &impersonates).unwrap().status, 403);
}

fn spans_of_all(sink: &Sink) -> BTreeMap<&'static str, Span> {
    let of = |agent: &'static str| {
        let is_it = |span: &Span| span.kind == 2 && span.attribute("user_agent").starts_with(agent);
        (agent, sink.wait_span(&format!("the span of {agent}"), ARRIVES, is_it).unwrap())
    };
    AGENTS.map(of).into()
}
