//! Traces of edits: from the source to the last acknowledgement.

use portcullis_e2e::{Gateway, GatewayOptions};
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::otel::{Sink, Span, Spans};
use serde_json::json;

use super::ARRIVES;
use crate::fixture::{NAME, StubFixture};

fn traced(test: &str) -> (StubFixture, Sink) {
    let sink = Sink::start_grpc().unwrap();
    let flags = ["--tracing-endpoint".to_owned(), format!("http://{}", sink.address())].to_vec();
    (StubFixture::without_cluster(test, &GatewayOptions { plane_flags: flags, ..GatewayOptions::default() }), sink)
}

/// The first span of the trace of an edit of these objects.
fn edit(sink: &Sink, changed: &str) -> Span {
    let is_it = |span: &Span| span.name == "edit" && span.attribute("portcullis.changed") == changed;
    sink.wait_span(&format!("the edit of {changed}"), ARRIVES, is_it).unwrap()
}

fn below(sink: &Sink, edit: &Span) -> Vec<Span> {
    let mut spans = sink.spans().unwrap();
    spans.retain(|span| span.trace == edit.trace && span.parent == edit.id);
    spans
}

#[test]
fn edit_is_traced_from_the_source_to_the_last_acknowledgement() {
    let (fixture, sink) = traced("edit");
    let bootstrap = fixture.gateway.plane().bootstrap_with("envoy-1", &[]).unwrap();
    let second = Envoy::start(&fixture.run.make_dir("second").unwrap(), "envoy-1", &EnvoyOptions::new(bootstrap));
    let _second = second.unwrap();
    fixture.gateway.plane().wait_in_sync(2, ARRIVES).unwrap();
    fixture.gateway.write(&fixture.manifest()).unwrap();
    fixture.gateway.plane().wait_in_sync(2, ARRIVES).unwrap();

    let edit = edit(&sink, NAME);
    assert_eq!((edit.service.as_str(), edit.parent.as_str(), edit.kind), ("portcullis", "", 1));
    assert_eq!(edit.attribute("portcullis.outcome"), "acknowledged");
    assert_eq!(edit.attribute("portcullis.refused_objects"), "0");
    let below = below(&sink, &edit);
    let names: Vec<_> = below.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["read", "resolve", "translate", "assemble", "acknowledge", "acknowledge"]);
    for pair in below[..4].windows(2) {
        assert!(pair[0].end <= pair[1].start, "{pair:?}");
    }
    let gateways: Vec<_> = below[4..].iter().map(|span| span.attribute("portcullis.gateway")).collect();
    assert_eq!(gateways, ["envoy-0", "envoy-1"]);
    let last = below.iter().map(|span| span.end).max().unwrap();
    assert_eq!((edit.start, edit.end), (below[0].start, last), "the last acknowledgement ends it");
    assert!(below[4..].iter().all(|span| span.start >= below[3].end), "{below:?}");
}

#[test]
fn edit_that_is_refused_is_traced_and_changes_nothing() {
    let (fixture, sink) = traced("edit-refused");
    fixture.gateway.apply(&fixture.manifest()).unwrap();
    assert_eq!(edit(&sink, NAME).attribute("portcullis.outcome"), "acknowledged");
    fixture
        .gateway
        .write(&fixture.manifest().set("/spec/servers", json!([{"endpoint": "http://plain.test"}])))
        .unwrap();
    let refused = |span: &Span| span.attribute("portcullis.refused_objects") == "1";
    let span = sink.wait_span("the refused edit", ARRIVES, refused).unwrap();
    assert_eq!(span.attribute("portcullis.outcome"), "unchanged");
    assert!(below(&sink, &span).iter().all(|span| span.name != "acknowledge"));
}

#[test]
fn collector_of_edits_that_is_away_delays_no_edit() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let flags = ["--tracing-endpoint".to_owned(), format!("http://{}", silent.local_addr().unwrap())].to_vec();
    let options = GatewayOptions { plane_flags: flags, ..GatewayOptions::default() };
    let fixture = StubFixture::start("edit-away", &options);
    for number in 0..100 {
        edit_again(&fixture.gateway, &fixture, number);
    }
    fixture.gateway.plane().wait_in_sync(1, ARRIVES).unwrap();
}

fn edit_again(gateway: &Gateway, fixture: &StubFixture, number: u32) {
    let schema = json!({"schemas": [{"name": "x", "maxRequestsInflight": {"max": number + 1}}]});
    gateway.write(&fixture.manifest().set("/spec/flowControl", schema)).unwrap();
}
