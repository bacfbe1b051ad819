//! `defaultClientCA` of the settings: the users of clusters that have no client CA of their own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, KeyStore};
use serde_json::{Value, json};

use crate::world::{NAME, PODS, World, connect};

/// A cluster that has a client CA of its own.
const OTHER: &str = "own.example.com";

fn data(ca: &Ca) -> Value {
    json!({"data": STANDARD.encode(ca.pem())})
}

/// A gateway with the world's cluster, which has no client CA of its own.
fn world(test: &str) -> (World, Manifest) {
    let world = World::without_cluster(test, &GatewayOptions::default());
    let manifest = world.manifest().merge(&json!({"spec": {"secureServing": {"clientCAData": null}}}));
    world.gateway.apply(&manifest).unwrap();
    (world, manifest)
}

fn set_default(world: &World, value: Value) {
    world.gateway.change_settings(|spec| spec["defaultClientCA"] = value).unwrap();
}

/// The status for a client with this certificate, on a connection of its own; nothing where the handshake fails.
fn status(world: &World, name: &str, identity: &Identity) -> Option<u16> {
    let target = world.gateway.target(name).identity(identity);
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    target.raw_request(request.as_bytes()).ok().map(|response| response.status)
}

/// As whom the server handled the last request of a client.
fn last_user(world: &World) -> String {
    world.client_records().pop().unwrap().effective.unwrap().username
}

#[test]
fn default_client_ca_names_users_of_clusters_without_one() {
    let (world, manifest) = world("default-client-ca");
    let (clients, owns) = (&world.pki.client_ca, Ca::new("owns").unwrap());
    set_default(&world, data(clients));
    let own = Manifest::new(OTHER, [world.stub.address()])
        .upstream(&world.pki.gateway, &world.pki.server_ca, "kubernetes")
        .serving(&world.gateway.serving_identity(OTHER).unwrap(), &owns);
    world.gateway.apply(&own).unwrap();
    let carol = owns.issue(&CertSpec::client("carol", ["dev"])).unwrap();
    for mode in ["Handshake", "Request"] {
        let manifest = manifest.clone().set("/spec/portcullis", json!({"clientCertificateVerification": mode}));
        world.gateway.apply(&manifest).unwrap();
        assert_eq!(status(&world, NAME, &world.pki.alice), Some(200), "{mode}");
        assert_eq!(last_user(&world), "alice", "{mode}");
        let refused = (mode == "Request").then_some(401);
        assert_eq!(status(&world, NAME, &carol), refused, "{mode}: another cluster's CA");

        let keystore = KeyStore::new([&carol, &world.pki.alice]).unwrap();
        let target = world.gateway.target(NAME).keystore(&keystore);
        let answer = H2Client::connect(&target).unwrap().get(PODS, &[]).unwrap().status;
        assert_eq!(answer, 200, "{mode}: the handshake names the default CA, so the fitting certificate is chosen");
        assert_eq!(keystore.named().unwrap().len(), 1, "{mode}");
    }
    assert_eq!(status(&world, OTHER, &carol), Some(200));
    assert_eq!(last_user(&world), "carol");
    world.stub.clear();
    assert_eq!(status(&world, OTHER, &world.pki.alice), Some(401), "a cluster with its own CA believes no other");
    assert!(world.client_records().is_empty());
}

#[test]
fn default_client_ca_edit_acts_on_open_connections() {
    let (world, manifest) = world("default-client-ca-edit");
    let (old, new) = (&world.pki.client_ca, Ca::new("new").unwrap());
    let dora = new.issue(&CertSpec::client("dora", ["dev"])).unwrap();
    let open = |identity: &Identity| connect(&world.gateway.target(NAME).identity(identity));
    let (alice, dora) = (open(&world.pki.alice), open(&dora));
    let ask = |client: &H2Client| client.get(PODS, &[]).unwrap().status;
    assert_eq!((ask(&alice), last_user(&world)), (403, "system:anonymous".to_owned()), "there is no CA at all");

    set_default(&world, data(old));
    assert_eq!((ask(&alice), last_user(&world)), (200, "alice".to_owned()));
    assert_eq!(ask(&dora), 401);

    set_default(&world, data(&new));
    assert_eq!(ask(&alice), 401, "believed a moment ago, and not any more");
    assert_eq!((ask(&dora), last_user(&world)), (200, "dora".to_owned()));

    // A CA of its own ends the default for this cluster.
    let own = manifest.clone().set("/spec/secureServing/clientCAData", json!(STANDARD.encode(old.pem())));
    world.gateway.apply(&own).unwrap();
    assert_eq!((ask(&alice), last_user(&world)), (200, "alice".to_owned()));
    assert_eq!(ask(&dora), 401);
    world.gateway.apply(&manifest).unwrap();

    // Settings that are wrong change nothing.
    let plane = world.gateway.plane();
    let settings = world.gateway.manifests().join("settings.yaml");
    let text = std::fs::read_to_string(&settings).unwrap();
    let wrong = text.replace(&STANDARD.encode(new.pem()), &STANDARD.encode("no certificate"));
    assert_ne!(wrong, text);
    world.gateway.write_file("settings.yaml", &wrong).unwrap();
    let is_refused = |status: &Value| {
        let objects = status["objects"].as_array().cloned().unwrap_or_default();
        objects.iter().any(|one| one["kind"] == "GatewaySettings" && one["accepted"] == false)
    };
    plane.wait_status("the settings are refused", std::time::Duration::from_secs(20), is_refused).unwrap();
    assert_eq!((ask(&alice), ask(&dora)), (401, 200));
    world.gateway.write_file("settings.yaml", &text).unwrap();

    let strict = manifest.set("/spec/portcullis", json!({"allowAnonymous": false}));
    world.gateway.apply(&strict).unwrap();
    set_default(&world, Value::Null);
    assert_eq!((ask(&alice), ask(&dora)), (401, 401), "without any CA no certificate is looked at");
    assert!(!alice.is_closed() && !dora.is_closed(), "no edit ended a connection");
}
