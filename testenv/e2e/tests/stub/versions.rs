//! The filter works in the oldest supported Envoy as in the newest.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::{client::H2Client, deps};

use crate::fixture::{NAME, PODS, StubFixture};

#[test]
fn older_envoys_load_the_module_and_tell_the_user() {
    let versions = deps::envoy_compat_versions();
    let oldest = if deps::runs_wasm() { "1.39." } else { "1.38." };
    assert!(versions.iter().any(|version| version.starts_with(oldest)), "{versions:?}");
    for version in versions {
        loads_the_filter_and_tells_the_user(Some(version));
    }
}

/// The first questions of `make compatibility` to each Envoy and build of the filter.
#[test]
fn envoy_loads_the_filter_and_tells_the_user() {
    loads_the_filter_and_tells_the_user(None);
}

fn loads_the_filter_and_tells_the_user(envoy_version: Option<String>) {
    let version = format!("{envoy_version:?}");
    let options = GatewayOptions { envoy_version, ..GatewayOptions::default() };
    let fixture = StubFixture::without_cluster("envoy-loads", &options);
    if let Err(error) = fixture.gateway.apply(&fixture.manifest()) {
        // testenv/compatibility reads the line that begins so.
        panic!("{version}: {error}\nEnvoy refuses: {}", refusal(&fixture));
    }
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    assert_eq!(H2Client::connect(&alice).unwrap().get(PODS, &[]).unwrap().status, 200, "{version}");
    assert_eq!(fixture.client_records().pop().unwrap().effective.unwrap().username, "alice", "{version}");
    let forged = H2Client::connect(&alice).unwrap().get(PODS, &[("impersonate-user", "eve")]).unwrap();
    assert_eq!(forged.status, 403, "{version}");
    let anonymous = H2Client::connect(&fixture.gateway.target(NAME)).unwrap().get("/healthz", &[]).unwrap();
    assert_eq!(anonymous.status, 200, "{version}");
}

/// The first thing that Envoy complains about where it loads filters, and what it answers to the control plane.
fn refusal(fixture: &StubFixture) -> String {
    let log = fixture.gateway.envoy().process().log();
    let of_filters = |line: &&str| line.contains("][wasm] ") || line.contains("][dynamic_modules] ");
    let complaint = log.lines().filter(of_filters).find(|line| !line.contains("][info]")).unwrap_or_default();
    let complaint = complaint.splitn(3, "] ").last().unwrap_or_default();
    let status = fixture.gateway.plane().status().unwrap();
    let message = status.pointer("/nodes/0/refused/0/message").and_then(|message| message.as_str());
    format!("{complaint}; {}", message.unwrap_or("nothing that it was told"))
}
