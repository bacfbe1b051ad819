//! Edits of the settings of traces while requests run.

use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{ClientPool, LoadProfile, Protocol};
use portcullis_harness::otel::{Sink, Span, Spans};
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::{ARRIVES, all_to};
use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

/// How many times all settings are made.
const TURNS: usize = 3;

/// Two collectors: one learns names of users, the other must not.
struct Collectors {
    trusted: Sink,
    other: Sink,
}

impl Collectors {
    /// `spec.tracing`, one after the other.
    fn settings(&self) -> Vec<Value> {
        let mut with_users = all_to(self.trusted.address());
        with_users["users"] = json!("Sent");
        let mut parents = with_users.clone();
        parents["parents"] = json!("Trusted");
        let mut some = all_to(self.other.address());
        some["samplingRatePerMillion"] = json!(500_000);
        vec![with_users.clone(), all_to(self.other.address()), parents, some, with_users, Value::Null]
    }
}

#[test]
fn edits_under_load_give_no_collector_spans_of_another() {
    // Streams of connections that are drained end within the test.
    let envoy_flags = ["--drain-time-s", "2"].map(str::to_owned).to_vec();
    let fixture = StubFixture::start("traces-motion", &GatewayOptions { envoy_flags, ..GatewayOptions::default() });
    let collectors = Collectors { trusted: Sink::start().unwrap(), other: Sink::start().unwrap() };
    let target = fixture.gateway.target(NAME).timeout(Duration::from_secs(60));
    let by_certificate = |protocol| {
        LoadProfile::new(format!("alice, {protocol:?}"), &target.clone().identity(&fixture.pki.alice), protocol)
    };
    let by_token = |protocol| LoadProfile::new(format!("robot, {protocol:?}"), &target, protocol).token(ROBOT);
    let lanes: Vec<_> = [Protocol::Http2, Protocol::Http1]
        .into_iter()
        .flat_map(|protocol| [by_certificate(protocol), by_token(protocol)])
        .collect();
    let pool = ClientPool::new(2).unwrap();
    let load = pool.steady(&lanes, &[PODS, "/version"], 200.0).unwrap();
    let mut total = load.take();
    for tracing in std::iter::repeat_n(collectors.settings(), TURNS).flatten() {
        let is_on = !tracing.is_null();
        fixture.gateway.change_settings(|spec| spec["tracing"] = tracing).unwrap();
        let answered = total.good();
        wait::until("requests after the edit", ARRIVES, || {
            total = std::mem::take(&mut total).and(load.take());
            (total.good() > answered + if is_on { 100 } else { 50 }).then_some(())
        })
        .unwrap();
        fixture.stub.clear();
    }
    let total = total.and(load.stop().unwrap());
    eprintln!("{total}");
    assert_eq!(total.failed, 0, "{total}");
    let described = |span: &Span| span.kind == 2 && span.attributes.contains_key("portcullis.verb");
    let has_user = |span: &Span| span.attributes.contains_key("portcullis.user");
    collectors.trusted.wait_span("a span with its user", ARRIVES, |span| described(span) && has_user(span)).unwrap();
    collectors.other.wait_span("a span without", ARRIVES, described).unwrap();
    let (trusted, other) = (collectors.trusted.spans().unwrap(), collectors.other.spans().unwrap());
    eprintln!("{} and {} spans", trusted.len(), other.len());
    let strays: Vec<_> = other.iter().filter(|span| has_user(span)).collect();
    assert!(strays.is_empty(), "{} of {}: {:#?}", strays.len(), other.len(), strays.first());
    let strays: Vec<_> = trusted.iter().filter(|span| described(span) && !has_user(span)).collect();
    assert!(strays.is_empty(), "{} of {}: {:#?}", strays.len(), trusted.len(), strays.first());
}
