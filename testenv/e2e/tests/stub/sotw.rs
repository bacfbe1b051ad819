//! The gateway lives as well when Envoy is told the state of the world.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::TlsTarget;
use serde_json::json;

use crate::world::{NAME, PODS, World};

fn status_of(world: &World, name: &str) -> Option<u16> {
    let target: TlsTarget = world.gateway.target(name).identity(&world.pki.alice);
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    Some(target.raw_request(request.as_bytes()).ok()?.status)
}

#[test]
fn an_envoy_that_is_told_the_state_of_the_world_follows_every_change() {
    let bootstrap_flags = ["--xds-protocol", "sotw"].map(str::to_owned).to_vec();
    let mut world = World::start("sotw", &GatewayOptions { bootstrap_flags, ..GatewayOptions::default() });
    assert_eq!(status_of(&world, NAME), Some(200));

    // Another one comes, one changes its policy, its servers and its certificate.
    let second = world.pki.stub("stub-1");
    let other = world
        .manifest()
        .set("/metadata/name", json!("other.example.com"))
        .set("/spec/servers", json!([{"endpoint": second.url()}]))
        .serving(&world.gateway.serving_identity("other.example.com").unwrap(), &world.pki.client_ca);
    world.gateway.apply(&other).unwrap();
    assert_eq!(status_of(&world, "other.example.com"), Some(200));
    assert!(!second.records_for(PODS).is_empty());
    let no_pods = json!([{"rules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["-pods"]}]}]);
    world.gateway.apply(&world.manifest().policies(no_pods)).unwrap();
    assert_eq!(status_of(&world, NAME), Some(403));
    second.clear();
    world.gateway.apply(&world.manifest().set("/spec/servers", json!([{"endpoint": second.url()}]))).unwrap();
    let soon = std::time::Duration::from_secs(20);
    // The new server is checked first.
    let served = || (status_of(&world, NAME) == Some(200)).then_some(());
    portcullis_harness::wait::until("the new server serves", soon, served).unwrap();
    assert_eq!(second.records_for(PODS).len(), 1);

    // A control plane that starts anew resends nothing.
    let updates = |name: &str| world.gateway.envoy().admin().stat(name).unwrap();
    let accepted = ["cluster_manager.cds.update_success", "listener_manager.lds.update_success"];
    let before = accepted.map(updates);
    world.gateway.restart_control_plane().unwrap();
    assert_eq!(accepted.map(|name| world.gateway.envoy().admin().stat(name).unwrap()), before);
    assert_eq!(status_of(&world, NAME), Some(200));

    // It goes, and with it its clusters.
    world.gateway.remove("other.example.com").unwrap();
    let clusters = || world.gateway.envoy().admin().get("/clusters").unwrap().text();
    let gone =
        || (!clusters().contains("other_example_com") && !clusters().contains("other.example.com")).then_some(());
    portcullis_harness::wait::until("its clusters are gone", soon, gone).unwrap();
    assert_eq!(status_of(&world, NAME), Some(200));
    assert_eq!(status_of(&world, "other.example.com"), None, "the default certificate is for another name");
}
