//! The pinned Envoy starts, answers and ends.

#![cfg(test)]

use std::time::Duration;

use portcullis_harness::envoy::{Envoy, EnvoyOptions};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, ports};
use serde_json::json;

fn admin() -> serde_json::Value {
    json!({"address": {"socket_address": {"address": "127.0.0.1", "port_value": ports::free().unwrap()}}})
}

#[test]
fn static_envoy_becomes_ready_and_quits() {
    if deps::or_skip("a_static_envoy", deps::envoy()).unwrap().is_none() {
        return;
    }
    let run = RunDir::new("envoy").unwrap();
    // Older versions are installed only where compatibility is tested.
    let older = deps::envoy_compat_versions().into_iter().filter(|version| deps::envoy_version(version).is_ok());
    for version in older.map(Some).chain([None]) {
        let options = EnvoyOptions { version: version.clone(), ..EnvoyOptions::new(json!({"admin": admin()})) };
        let envoy = Envoy::start(run.path(), version.as_deref().unwrap_or("pinned"), &options).unwrap();
        envoy.wait_ready(Duration::from_secs(20)).unwrap();
        assert_eq!(envoy.admin().stat("server.concurrency").unwrap(), 2);
        assert!(envoy.admin().config_dump().unwrap()["configs"].is_array());
        envoy.quit().unwrap();
    }
    let broken = EnvoyOptions::new(json!({"admin": admin(), "no_such_field": 1}));
    let error = Envoy::start(run.path(), "broken", &broken).unwrap_err().to_string();
    assert!(error.contains("no_such_field"), "{error}");
}
