//! The way to a real OpenTelemetry collector: both protocols, with TLS and without.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::deps;
use portcullis_harness::otel::{Collector, CollectorCertificate, Spans};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::{ARRIVES, server_span};
use crate::fixture::{NAME, PODS, StubFixture, connect};

fn to(endpoint: std::net::SocketAddr, protocol: &str, more: &Value) -> Value {
    let mut tracing =
        json!({"endpoint": endpoint.to_string(), "protocol": protocol, "samplingRatePerMillion": 1_000_000});
    tracing.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tracing
}

fn send(fixture: &StubFixture, tracing: Value, agent: &str) {
    fixture.gateway.change_settings(|spec| spec["tracing"] = tracing).unwrap();
    let alice = connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice));
    assert_eq!(alice.get(PODS, &[("user-agent", agent)]).unwrap().status, 200);
}

#[test]
fn spans_arrive_at_a_collector_by_both_protocols() {
    if deps::otel_or_skip("otel-plain").unwrap().is_none() {
        return;
    }
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let fixture = StubFixture::start(&format!("otel-plain-{version}"), &options);
        let collector = Collector::start(&fixture.run).unwrap();
        for (protocol, endpoint) in [("GRPC", collector.grpc()), ("HTTP", collector.http())] {
            send(&fixture, to(endpoint, protocol, &json!({})), protocol);
            let span = server_span(&collector, protocol);
            assert_eq!((span.service.as_str(), span.attribute("portcullis.cluster")), ("e2e", NAME));
        }
    }
}

#[test]
fn collector_is_verified_by_its_ca_and_name() {
    if deps::otel_or_skip("otel-tls").unwrap().is_none() {
        return;
    }
    let run = RunDir::new("otel-tls").unwrap();
    let ca = Ca::new("collectors").unwrap();
    let identity = ca.issue(&CertSpec::server("collector", ["otel.test"])).unwrap();
    let own = CollectorCertificate { certificate: run.path().join("otel.crt"), key: run.path().join("otel.key") };
    identity.write_pem(&own.certificate, &own.key).unwrap();
    let collector = Collector::start_with(&run, Some(&own)).unwrap();
    ca.write_pem(&run.path().join("otel-ca.crt")).unwrap();
    let plane_flags = ["--tracing-endpoint", &format!("https://localhost:{}", collector.grpc().port()), "--tracing-ca"];
    let mut plane_flags: Vec<_> = plane_flags.iter().map(|flag| (*flag).to_owned()).collect();
    plane_flags.push(run.path().join("otel-ca.crt").display().to_string());
    let fixture = StubFixture::start("otel-tls-gateway", &GatewayOptions { plane_flags, ..GatewayOptions::default() });
    let encoded = |ca: &Ca| portcullis_e2e::encode(&ca.pem());
    let trusted = json!({"ca": {"data": encoded(&ca)}, "serverName": "otel.test"});
    for (protocol, endpoint) in [("GRPC", collector.grpc()), ("HTTP", collector.http())] {
        send(&fixture, to(endpoint, protocol, &trusted), protocol);
        server_span(&collector, protocol);
    }
    // The certificate is also localhost's, as all of the test's authorities are.
    let edit = collector.wait_span("the edit", ARRIVES, |span| span.name == "edit").unwrap();
    assert_eq!(edit.service, "portcullis");

    let stranger = Ca::new("strangers").unwrap();
    for (what, counter, more) in [
        ("another name", "fail_verify_san", json!({"ca": {"data": encoded(&ca)}, "serverName": "other.test"})),
        (
            "another authority",
            "fail_verify_error",
            json!({"ca": {"data": encoded(&stranger)}, "serverName": "otel.test"}),
        ),
    ] {
        send(&fixture, to(collector.grpc(), "GRPC", &more), what);
        let failed =
            || fixture.gateway.envoy().admin().stats(&format!(r"^cluster\.e2e/-/-/collector\.ssl\.{counter}$"));
        let counts = || failed().unwrap().iter().map(|(_, count)| count).sum::<u64>();
        wait::until("the collector is not believed", ARRIVES, || (counts() > 0).then_some(())).unwrap();
    }
    let spans = collector.spans().unwrap();
    assert!(spans.iter().all(|span| !span.attribute("user_agent").starts_with("another")), "{spans:#?}");
}
