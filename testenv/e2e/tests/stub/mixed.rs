//! Envoys and modules of different releases on one control plane.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_filter_config::CONFIG_VERSION;
use portcullis_harness::certs::Identity;
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, wait};
use serde_json::Value;

use crate::bad_control_plane::BadControlPlane;
use crate::fixture::{NAME, PODS, Pki, StubFixture};

const SOON: Duration = Duration::from_secs(20);

fn status_of(target: &TlsTarget, identity: &Identity) -> Option<u16> {
    Some(H2Client::connect(&target.clone().identity(identity)).ok()?.get(PODS, &[]).ok()?.status)
}

fn configs_of(envoy: &Envoy) -> String {
    envoy.admin().config_dump().unwrap().to_string()
}

#[test]
fn each_envoy_is_told_what_its_version_understands() {
    let fixture = StubFixture::start("two-versions", &GatewayOptions::default());
    let plane = fixture.gateway.plane();
    let old_version = deps::envoy_compat_versions().into_iter().find(|version| version.starts_with("1.38.")).unwrap();
    let options = EnvoyOptions { version: Some(old_version), ..EnvoyOptions::new(plane.bootstrap("old").unwrap()) };
    let dir = fixture.run.make_dir("old").unwrap();
    let old = Envoy::start(&dir, "old", &options).unwrap();
    let status = plane.wait_in_sync(2, SOON).unwrap();
    let view = |id: &str| {
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["id"] == id).map(|node| node["view"].clone()).unwrap()
    };
    assert_eq!(view("envoy-0"), Value::Null);
    assert_eq!(view("old"), Value::Null);
    // Both listen at one address, and the system gives each its share.
    old.wait_ready(SOON).unwrap();
    let target = fixture.gateway.target(NAME);
    for _ in 0..20 {
        assert_eq!(status_of(&target, &fixture.pki.alice), Some(200));
    }
    let served = |envoy: &Envoy| envoy.admin().stat("listener_manager.total_listeners_active").unwrap();
    assert_eq!((served(&old), served(fixture.gateway.envoy())), (1, 1));
    assert!(fixture.client_records().iter().all(|one| one.effective.as_ref().unwrap().username == "alice"));
}

#[test]
fn module_refuses_a_configuration_of_another_version() {
    let run = RunDir::new("wrong-version").unwrap();
    let (pki, control_plane) = (Pki::new(), BadControlPlane::start(&run));
    let stub = pki.stub("stub-0");
    let manifest = Manifest::new(NAME, [stub.address()])
        .upstream(&pki.gateway, &pki.server_ca, "kubernetes")
        .serving(&control_plane.serving_identity(NAME), &pki.client_ca);
    control_plane.publish_version(std::slice::from_ref(&manifest), CONFIG_VERSION + 1);
    let node = control_plane.wait("the module refuses", |node| node.refused.iter().any(|one| one.owner.is_some()));
    assert_eq!(node.refused[0].owner.as_deref(), Some(NAME));
    let why = format!("configuration version {} is not supported", CONFIG_VERSION + 1);
    let log = || control_plane.envoy.process().log().contains(&why).then_some(());
    wait::until("the module says why", SOON, log).unwrap();
    let target = TlsTarget::new(control_plane.address).sni(NAME).trust(&control_plane.serving_ca);
    assert_eq!(status_of(&target, &pki.alice), None);
    assert!(stub.records_for(PODS).is_empty());
}

#[test]
fn gateway_of_another_release_starts_without_configuration() {
    let bootstrap_flags = ["--config-version", "99"].map(str::to_owned).to_vec();
    let options = GatewayOptions { bootstrap_flags, ..GatewayOptions::default() };
    let fixture = StubFixture::without_cluster("unknown-version", &options);
    fixture.gateway.write(&fixture.manifest()).unwrap();
    let plane = fixture.gateway.plane();
    let is_listed = |status: &Value| {
        status["rejectedNodes"][0]["reason"]
            .as_str()
            .is_some_and(|text| text.contains("reads configuration version 99,"))
            && status["objects"].to_string().contains("(envoy-0), which keeps what it had")
    };
    let status = plane.wait_status("the status names the gateway and the reason", SOON, is_listed).unwrap();
    assert_eq!(status["rejectedNodes"][0]["node"], "envoy-0");
    assert_eq!(status["nodes"], Value::Array(Vec::new()));
    assert!(!configs_of(fixture.gateway.envoy()).contains(NAME));
}
