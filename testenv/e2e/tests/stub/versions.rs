//! The filter works in the oldest supported Envoy as in the newest.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::{client::H2Client, deps};

use crate::world::{NAME, PODS, World};

#[test]
fn older_envoys_load_the_module_and_tell_the_user() {
    let versions = deps::envoy_compat_versions();
    let oldest = if deps::runs_wasm() { "1.39." } else { "1.38." };
    assert!(versions.iter().any(|version| version.starts_with(oldest)), "{versions:?}");
    for version in versions {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let world = World::start(&format!("envoy-{version}"), &options);
        let alice = world.gateway.target(NAME).identity(&world.pki.alice);
        assert_eq!(H2Client::connect(&alice).unwrap().get(PODS, &[]).unwrap().status, 200, "{version}");
        assert_eq!(world.client_records().pop().unwrap().effective.unwrap().username, "alice", "{version}");
        let forged = H2Client::connect(&alice).unwrap().get(PODS, &[("impersonate-user", "eve")]).unwrap();
        assert_eq!(forged.status, 403, "{version}");
        let anonymous = H2Client::connect(&world.gateway.target(NAME)).unwrap().get("/healthz", &[]).unwrap();
        assert_eq!(anonymous.status, 200, "{version}");
    }
}
