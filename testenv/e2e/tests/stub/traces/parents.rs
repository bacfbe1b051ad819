//! Trace contexts of clients, which are hostile unless the settings trust them.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::deps;
use portcullis_harness::otel::Sink;
use portcullis_stub_apiserver::Record;
use serde_json::json;

use super::{all_to, server_span, traced, upstream_span};
use crate::fixture::{NAME, PODS, StubFixture, connect};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn context(flags: &str) -> [(String, String); 3] {
    [
        ("traceparent", format!("00-{TRACE}-{PARENT}-{flags}")),
        ("tracestate", "evil=1".to_owned()),
        ("baggage", "evil=1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// Sends a request with such a context, and gives what the server saw.
fn send(fixture: &StubFixture, agent: &str, context: &[(String, String)]) -> Record {
    let alice = connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice));
    let headers = context.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let headers: Vec<_> = headers.chain([("user-agent", agent)]).collect();
    assert_eq!(alice.get(PODS, &headers).unwrap().status, 200);
    let is_it = |record: &Record| record.header("user-agent").as_deref() == Some(agent);
    fixture.stub.records_for(PODS).into_iter().find(is_it).unwrap()
}

#[test]
fn context_of_a_client_is_ignored_unless_it_is_trusted() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let sink = Sink::start().unwrap();
        let mut tracing = all_to(sink.address());
        let fixture = traced(&format!("parents-{version}"), &options, &tracing);
        for (agent, context) in [("sampled", context("01")), ("unsampled", context("00"))] {
            let record = send(&fixture, agent, &context);
            let parent = record.header_all("traceparent");
            assert!(parent.len() == 1 && parent[0].ends_with("-01") && !parent[0].contains(TRACE), "{parent:?}");
            assert_eq!(
                (record.header("baggage"), record.header("tracestate").unwrap_or_default()),
                (None, String::new())
            );
            let span = server_span(&sink, agent);
            assert!(span.trace != TRACE && span.parent.is_empty(), "{span:?}");
            assert!(parent[0].contains(&upstream_span(&sink, &span).id), "{parent:?}");
        }
        let garbage = [("traceparent".to_owned(), "garbage".to_owned())];
        assert_ne!(send(&fixture, "garbage", &garbage).header("traceparent").as_deref(), Some("garbage"));
        server_span(&sink, "garbage");

        tracing["parents"] = json!("Trusted");
        tracing["samplingRatePerMillion"] = json!(0);
        fixture.gateway.change_settings(|spec| spec["tracing"] = tracing).unwrap();
        let record = send(&fixture, "trusted", &context("01"));
        let span = server_span(&sink, "trusted");
        assert_eq!((span.trace.as_str(), span.parent.as_str()), (TRACE, PARENT));
        assert_eq!(span.attribute("portcullis.verb"), "list", "the filter knows that it is sampled");
        let upstream = upstream_span(&sink, &span);
        assert_eq!(record.header("traceparent"), Some(format!("00-{TRACE}-{}-01", upstream.id)));
        assert_eq!(record.header("baggage").as_deref(), Some("evil=1"));
        let unsampled = send(&fixture, "not-sampled", &context("00")).header("traceparent").unwrap();
        assert!(unsampled.contains(TRACE) && unsampled.ends_with("-00"), "{unsampled}");
    }
}

#[test]
fn context_of_a_client_goes_on_as_it_is_without_tracing() {
    let fixture = StubFixture::start("parents-off", &GatewayOptions::default());
    let record = send(&fixture, "plain", &context("01"));
    assert_eq!(record.header("traceparent"), Some(format!("00-{TRACE}-{PARENT}-01")));
    assert_eq!(record.header("tracestate").as_deref(), Some("evil=1"));
}
