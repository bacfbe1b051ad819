use std::fs;

use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::control_plane::ControlPlane;
use serde_json::{Value, json};

use crate::sources::{SOON, SourceFixture};

const NAME: &str = "prod.example.com";

fn replica(fixture: &SourceFixture, name: &str) -> ControlPlane {
    let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    ControlPlane::start_from(&fixture.run.make_dir(name).unwrap(), &flags).unwrap()
}

fn leads(status: &Value) -> bool {
    status["source"]["leader"] == true
}

fn follows(status: &Value) -> bool {
    status["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| node["connected"] == true))
}

/// `kubectl wait`, and how the newest generation of the object then stands.
fn wait_programmed(fixture: &SourceFixture) -> Value {
    fixture.admin(&["wait", "--for=condition=Programmed", "upstreamcluster", NAME, "--timeout=120s"]);
    let object = fixture.stored(NAME);
    assert_eq!(object["status"]["observedGeneration"], object["metadata"]["generation"]);
    object
}

/// The leader writes the conditions, and hears of the gateway by its agent only.
#[test]
fn kubectl_wait_ends_where_the_gateway_follows_no_leader() {
    let Some(fixture) = SourceFixture::start("status-replicas") else { return };
    let leader = replica(&fixture, "leader");
    leader.wait_status("it leads", SOON, leads).unwrap();
    let other = replica(&fixture, "other");
    other.wait_status("it reads the objects", SOON, |status| status["source"]["staleSince"].is_null()).unwrap();

    // Until Envoy follows the other one it does not find the leader; what it follows, it stays with.
    let (socket, hidden) = (leader.xds_socket().to_owned(), fixture.run.join("leader.sock"));
    fs::rename(&socket, &hidden).unwrap();
    let options = AgentOptions::new([socket.as_path(), other.xds_socket()]);
    let agent = Agent::start(fixture.run.path(), "envoy-0", &options).unwrap();
    other.wait_status("Envoy follows it", SOON, follows).unwrap();
    fs::rename(&hidden, &socket).unwrap();

    fixture.apply(&fixture.manifest(NAME).to_text());
    let created = wait_programmed(&fixture);
    let gateways = created["status"]["gateways"].as_array().unwrap();
    let standings: Vec<_> = gateways.iter().map(|one| (&one["name"], &one["state"])).collect();
    assert_eq!(standings, [(&json!("envoy-0"), &json!("Acknowledged"))]);
    let timed = fixture.manifest(NAME).set("/spec/portcullis", json!({"requestTimeout": "31s"}));
    fixture.apply(&timed.to_text());
    let edited = wait_programmed(&fixture);
    assert_ne!(edited["status"]["contentHash"], created["status"]["contentHash"]);

    let status = leader.status().unwrap();
    assert!(leads(&status) && !follows(&status), "the gateway never came to the leader: {status:#}");
    drop(agent);
}
