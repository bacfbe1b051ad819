//! Edits of the gateway itself, and connections that must not outlive what they show.

use std::time::Duration;

use portcullis_e2e::GatewayOptions;
use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::{ports, wait};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture, connect};
use crate::pods::{create_pod, read_until};

const SOON: Duration = Duration::from_secs(20);

/// kube-apiserver looks at a client certificate for each request, and a connection goes on showing the one it began with.
#[test]
fn server_connections_are_renewed_before_the_certificate_ends() {
    let fixture = StubFixture::without_cluster("lives", &GatewayOptions::default());
    let short = CertSpec::client("portcullis", [""; 0]).valid_for(Duration::from_secs(50));
    let short = CertSpec { not_before: -10, ..short };
    let identity = fixture.pki.client_ca.issue(&short).unwrap();
    let manifest = fixture.manifest().upstream(&identity, &fixture.pki.server_ca, "kubernetes");
    fixture.gateway.apply(&manifest).unwrap();
    let client = connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice));
    let mut watch = client.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    assert_eq!(watch.response.status, 200);
    let stat = "cluster.e2e/-/prod_example_com/all_h2.upstream_cx_max_duration_reached";
    let renewed = || {
        assert_eq!(client.get(PODS, &[]).unwrap().status, 200);
        (fixture.gateway.envoy().admin().stat(stat).ok()? > 0).then_some(())
    };
    wait::until("a connection is old", SOON, renewed).unwrap();
    create_pod(&client, "later").unwrap();
    read_until(&mut watch, "later").unwrap();
}

#[test]
fn instance_and_port_change_while_the_gateway_runs() {
    let fixture = StubFixture::start("instance", &GatewayOptions::default());
    let serves = |address| {
        let target = TlsTarget::new(address).sni(NAME).identity(&fixture.pki.alice);
        let ask = || H2Client::connect(&target).and_then(|client| client.get(PODS, &[])).map(|answer| answer.status);
        wait::until("it serves", SOON, || (ask().ok()? == 200).then_some(())).unwrap();
        let status = fixture.gateway.plane().status().unwrap();
        assert!(status["nodes"][0]["refused"].as_array().is_none_or(Vec::is_empty), "{status}");
    };
    serves(fixture.gateway.address());
    fixture.gateway.change_settings(|spec| spec["instance"] = json!("renamed")).unwrap();
    serves(fixture.gateway.address());
    let dump = fixture.gateway.envoy().admin().config_dump().unwrap().to_string();
    assert!(dump.contains("renamed/-/prod.example.com/routes"));

    let path = fixture.gateway.manifests().join("settings.yaml");
    let mut settings: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let elsewhere = ports::free_address().unwrap();
    settings["spec"]["listener"]["port"] = json!(elsewhere.port());
    fixture.gateway.write_file("settings.yaml", &settings.to_string()).unwrap();
    serves(elsewhere);
}
