//! Envoys and modules of different releases on one control plane.

use std::time::Duration;

use portcullis_e2e::{Gateway, GatewayOptions, Manifest};
use portcullis_harness::certs::Identity;
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::{deps, project_root, wait};
use serde_json::Value;

use crate::world::{NAME, PODS, World};

const SOON: Duration = Duration::from_secs(20);

fn previous_module(bootstrap_flags: &[&str]) -> GatewayOptions {
    let dir = project_root().join("target/previous/debug");
    assert!(dir.join("libportcullis.so").is_file(), "run `make previous`");
    let bootstrap_flags = bootstrap_flags.iter().map(|flag| (*flag).to_owned()).collect();
    GatewayOptions { module_dir: Some(dir), bootstrap_flags, ..GatewayOptions::default() }
}

fn status_of(target: &TlsTarget, identity: &Identity) -> Option<u16> {
    Some(H2Client::connect(&target.clone().identity(identity)).ok()?.get(PODS, &[]).ok()?.status)
}

fn configs_of(envoy: &Envoy) -> String {
    envoy.admin().config_dump().unwrap().to_string()
}

/// Writes the manifest and waits for a condition of the status.
fn tell(gateway: &Gateway, manifest: &Manifest, what: &str, holds: impl FnMut(&Value) -> bool) -> Value {
    gateway.write(manifest).unwrap();
    gateway.plane().wait_status(what, SOON, holds).unwrap()
}

#[test]
fn each_envoy_is_told_what_its_version_understands() {
    let world = World::start("two-versions", &GatewayOptions::default());
    let plane = world.gateway.plane();
    let old_version = deps::envoy_compat_versions().into_iter().find(|version| version.starts_with("1.38.")).unwrap();
    let options = EnvoyOptions { version: Some(old_version), ..EnvoyOptions::new(plane.bootstrap("old").unwrap()) };
    let dir = world.run.make_dir("old").unwrap();
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
    let target = world.gateway.target(NAME);
    for _ in 0..20 {
        assert_eq!(status_of(&target, &world.pki.alice), Some(200));
    }
    let served = |envoy: &Envoy| envoy.admin().stat("listener_manager.total_listeners_active").unwrap();
    assert_eq!((served(&old), served(world.gateway.envoy())), (1, 1));
    assert!(world.client_records().iter().all(|one| one.effective.as_ref().unwrap().username == "alice"));
}

#[test]
fn the_previous_module_is_told_the_previous_configuration() {
    let world = World::start("previous-module", &previous_module(&["--config-version", "1"]));
    assert_eq!(status_of(&world.gateway.target(NAME), &world.pki.alice), Some(200));
    let status = world.gateway.plane().status().unwrap();
    assert_eq!(status["nodes"][0]["view"], "config-1/validator");
    assert!(!configs_of(world.gateway.envoy()).contains("drainSeconds"));
}

#[test]
fn a_current_module_reads_the_previous_configuration() {
    let bootstrap_flags = ["--config-version", "1"].map(str::to_owned).to_vec();
    let world = World::start("previous-config", &GatewayOptions { bootstrap_flags, ..GatewayOptions::default() });
    assert_eq!(status_of(&world.gateway.target(NAME), &world.pki.alice), Some(200));
}

#[test]
fn a_module_that_is_told_what_it_does_not_know_serves_nothing_and_says_so() {
    let world = World::without_cluster("wrong-version", &previous_module(&[]));
    let refused = |status: &Value| status["nodes"][0]["refused"].as_array().is_some_and(|all| !all.is_empty());
    let status = tell(&world.gateway, &world.manifest(), "the module refuses", refused);
    assert_eq!(status["nodes"][0]["refused"][0]["owner"], NAME, "{status:#}");
    let log =
        || world.gateway.envoy().process().log().contains("configuration version 2 is not supported").then_some(());
    wait::until("the module says why", SOON, log).unwrap();
    assert_eq!(status_of(&world.gateway.target(NAME), &world.pki.alice), None);
    assert!(world.client_records().is_empty());
}

#[test]
fn a_module_of_an_unknown_release_is_turned_away() {
    let bootstrap_flags = ["--config-version", "99"].map(str::to_owned).to_vec();
    let options = GatewayOptions { bootstrap_flags, ..GatewayOptions::default() };
    let world = World::without_cluster("unknown-version", &options);
    let told = |status: &Value| status["turnedAway"][0]["reason"].as_str().is_some_and(|text| text.contains("99"));
    let status = tell(&world.gateway, &world.manifest(), "it is turned away", told);
    assert_eq!(status["turnedAway"][0]["node"], "envoy-0");
    assert_eq!(status["nodes"], Value::Array(Vec::new()));
    assert!(!configs_of(world.gateway.envoy()).contains(NAME));
}
