use std::fs;

use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::control_plane::ControlPlane;
use serde_json::{Value, json};

use crate::sources::{SOON, World};

const NAME: &str = "prod.example.com";

fn replica(world: &World, name: &str) -> ControlPlane {
    let flags = world.kubernetes_flags(&world.settings.display().to_string());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    ControlPlane::start_from(&world.run.make_dir(name).unwrap(), &flags).unwrap()
}

fn leads(status: &Value) -> bool {
    status["source"]["leader"] == true
}

fn follows(status: &Value) -> bool {
    status["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| node["connected"] == true))
}

/// `kubectl wait`, and how the newest generation of the object then stands.
fn wait_programmed(world: &World) -> Value {
    world.admin(&["wait", "--for=condition=Programmed", "upstreamcluster", NAME, "--timeout=120s"]);
    let object = world.stored(NAME);
    assert_eq!(object["status"]["observedGeneration"], object["metadata"]["generation"]);
    object
}

/// The leader writes the conditions, and hears of the gateway by its agent only.
#[test]
fn kubectl_wait_ends_where_the_gateway_follows_no_leader() {
    let Some(world) = World::start("status-replicas") else { return };
    let leader = replica(&world, "leader");
    leader.wait_status("it leads", SOON, leads).unwrap();
    let other = replica(&world, "other");
    other.wait_status("it reads the objects", SOON, |status| status["source"]["staleSince"].is_null()).unwrap();

    // Until Envoy follows the other one it does not find the leader; what it follows, it stays with.
    let (socket, hidden) = (leader.xds_socket().to_owned(), world.run.join("leader.sock"));
    fs::rename(&socket, &hidden).unwrap();
    let options = AgentOptions::new([socket.as_path(), other.xds_socket()]);
    let agent = Agent::start(world.run.path(), "envoy-0", &options).unwrap();
    other.wait_status("Envoy follows it", SOON, follows).unwrap();
    fs::rename(&hidden, &socket).unwrap();

    world.apply(&world.manifest(NAME).to_text());
    let created = wait_programmed(&world);
    let gateways = created["status"]["gateways"].as_array().unwrap();
    let standings: Vec<_> = gateways.iter().map(|one| (&one["name"], &one["state"])).collect();
    assert_eq!(standings, [(&json!("envoy-0"), &json!("Acknowledged"))]);
    let timed = world.manifest(NAME).set("/spec/portcullis", json!({"requestTimeout": "31s"}));
    world.apply(&timed.to_text());
    let edited = wait_programmed(&world);
    assert_ne!(edited["status"]["contentHash"], created["status"]["contentHash"]);

    let status = leader.status().unwrap();
    assert!(leads(&status) && !follows(&status), "the gateway never came to the leader: {status:#}");
    drop(agent);
}
