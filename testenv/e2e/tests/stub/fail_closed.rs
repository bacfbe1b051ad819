//! Whatever breaks, an upstream that trusts the gateway sees no request.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, MetricsPage};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::{project_root, wait};

use crate::fixture::{NAME, PODS, StubFixture};
use crate::observe::with_another_request;

const SOON: Duration = Duration::from_secs(20);

fn get(target: &TlsTarget, headers: &str) -> Option<(u16, String)> {
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n{headers}\r\n");
    let response = target.raw_request(request.as_bytes()).ok()?;
    Some((response.status, response.text()))
}

#[test]
fn envoy_without_the_module_serves_nothing() {
    let empty = portcullis_harness::rundir::RunDir::new("empty").unwrap();
    let options = GatewayOptions { module_dir: Some(empty.path().to_owned()), ..GatewayOptions::default() };
    let fixture = StubFixture::without_cluster("no-module", &options);
    fixture.gateway.write(&fixture.manifest()).unwrap();
    fixture
        .gateway
        .plane()
        .wait_status("Envoy refuses the listener", SOON, |status| status.to_string().contains("libportcullis.so"))
        .unwrap();
    assert_eq!(get(&fixture.gateway.target(NAME).identity(&fixture.pki.alice), ""), None);
    assert!(fixture.client_records().is_empty());
}

#[test]
fn panic_answers_that_request_and_no_other() {
    let faulty = project_root().join("target/fault/debug");
    let options = GatewayOptions { module_dir: Some(faulty), ..GatewayOptions::default() };
    let fixture = StubFixture::start("panic", &options);
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    for place in ["decide", "decided"] {
        let (status, body) = get(&target, &format!("X-Fault-Injection: {place}\r\n")).unwrap();
        assert_eq!(status, 500, "{place}: {body}");
        assert!(body.contains("\"reason\":\"InternalError\""), "{place}: {body}");
        assert!(fixture.client_records().is_empty(), "{place}");
    }
    assert_eq!(get(&target, "").unwrap().0, 200, "Envoy goes on");
    assert_eq!(fixture.client_records().len(), 1);
    let refused = [("decision", "refused"), ("reason", "internal")];
    let counted = || {
        with_another_request(&target);
        (MetricsPage::of(&fixture.gateway).sum("requests_total", &refused) == 2).then_some(())
    };
    wait::until("panics are counted", SOON, counted).unwrap();
}

#[test]
fn header_that_envoy_keeps_ends_the_request() {
    let options =
        GatewayOptions { module_dir: Some(project_root().join("target/fault/debug")), ..GatewayOptions::default() };
    let fixture = StubFixture::start("kept-header", &options);
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let (status, body) = get(&target, "X-Fault-Injection: remove\r\nImpersonate_User: eve\r\n").unwrap();
    assert_eq!(status, 500, "{body}");
    assert!(fixture.client_records().is_empty());

    let client = H2Client::connect(&target).unwrap();
    let post = |name: &str, fault: Option<(&str, &[u8])>| {
        let body = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#);
        let reserved: (&str, &[u8]) = ("impersonate-user", b"eve");
        let trailers: Vec<_> = fault.into_iter().chain([reserved]).collect();
        let path = "/api/v1/namespaces/default/configmaps";
        client
            .open_with_trailers("POST", path, &[], body.as_bytes(), &trailers)
            .map(|stream| stream.response.status)
            .ok()
    };
    assert_eq!(post("clean", None), Some(201), "trailers without the fault are cleaned");
    assert_ne!(post("kept", Some(("x-fault-injection", b"remove"))), Some(201));
}

#[test]
fn unknown_name_meets_a_503() {
    let fixture = StubFixture::start("unknown-name", &GatewayOptions::default());
    let nobody = TlsTarget::new(fixture.gateway.address()).sni("nobody.example.com").identity(&fixture.pki.alice);
    let without_sni = TlsTarget::new(fixture.gateway.address()).identity(&fixture.pki.alice);
    for target in [nobody, without_sni] {
        let (status, body) = get(&target, "").unwrap();
        assert_eq!(status, 503, "{body}");
        assert!(body.contains("\"kind\":\"Status\""), "{body}");
        assert!(body.contains("the name of the TLS handshake (SNI) decides"), "{body}");
    }
    assert!(fixture.client_records().is_empty());
}

#[test]
fn envoy_without_a_first_configuration_does_not_listen() {
    let fixture = StubFixture::without_cluster("no-config", &GatewayOptions::default());
    let (status, _) = get(&TlsTarget::new(fixture.gateway.address()).sni(NAME), "").unwrap_or((0, String::new()));
    assert!(matches!(status, 0 | 503), "{status}");
    let run = portcullis_harness::rundir::RunDir::new("dead-plane").unwrap();
    let plane = fixture.gateway.plane();
    let bootstrap = plane.bootstrap("orphan").unwrap();
    plane.process().kill();
    let options = portcullis_harness::envoy::EnvoyOptions::new(bootstrap);
    let envoy = portcullis_harness::envoy::Envoy::start(run.path(), "orphan", &options).unwrap();
    let listeners = envoy.admin().get("/listeners").unwrap();
    assert_eq!(listeners.text().trim(), "", "no listener without a configuration");
    assert!(fixture.client_records().is_empty());
}

#[test]
fn removed_cluster_is_served_no_more() {
    let fixture = StubFixture::start("removed", &GatewayOptions::default());
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    assert_eq!(get(&target, "").unwrap().0, 200);
    fixture.gateway.remove(NAME).unwrap();
    let refused = || get(&TlsTarget::new(fixture.gateway.address()).sni(NAME), "").filter(|(status, _)| *status == 503);
    wait::until("the name is unknown", SOON, refused).unwrap();
    fixture.gateway.wait_for_every_worker().unwrap();
    fixture.stub.clear();
    for _ in 0..10 {
        assert_eq!(get(&TlsTarget::new(fixture.gateway.address()).sni(NAME), "").unwrap().0, 503);
    }
    assert!(fixture.client_records().is_empty());
}
