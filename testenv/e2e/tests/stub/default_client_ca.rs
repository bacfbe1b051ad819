//! `defaultClientCA` of the settings: the users of clusters that have no client CA of their own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_e2e::{GatewayOptions, Manifest};
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::client::{H2Client, KeyStore};
use serde_json::{Value, json};

use crate::fixture::{NAME, PODS, StubFixture, connect};

/// A cluster that has a client CA of its own.
const OTHER: &str = "own.example.com";

fn data(ca: &Ca) -> Value {
    json!({"data": STANDARD.encode(ca.pem())})
}

/// A gateway with the fixture's cluster, which has no client CA of its own.
fn fixture(test: &str) -> (StubFixture, Manifest) {
    let fixture = StubFixture::without_cluster(test, &GatewayOptions::default());
    let manifest = fixture.manifest().merge(&json!({"spec": {"secureServing": {"clientCAData": null}}}));
    fixture.gateway.apply(&manifest).unwrap();
    (fixture, manifest)
}

fn set_default(fixture: &StubFixture, value: Value) {
    fixture.gateway.change_settings(|spec| spec["defaultClientCA"] = value).unwrap();
}

/// The status for a client with this certificate, on a connection of its own; nothing where the handshake fails.
fn status(fixture: &StubFixture, name: &str, identity: &Identity) -> Option<u16> {
    let target = fixture.gateway.target(name).identity(identity);
    let request = format!("GET {PODS} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    target.raw_request(request.as_bytes()).ok().map(|response| response.status)
}

/// As whom the server handled the last request of a client.
fn last_user(fixture: &StubFixture) -> String {
    fixture.client_records().pop().unwrap().effective.unwrap().username
}

#[test]
fn default_client_ca_names_users_of_clusters_without_one() {
    let (fixture, manifest) = fixture("default-client-ca");
    let (clients, owns) = (&fixture.pki.client_ca, Ca::new("owns").unwrap());
    set_default(&fixture, data(clients));
    let own = Manifest::new(OTHER, [fixture.stub.address()])
        .upstream(&fixture.pki.gateway, &fixture.pki.server_ca, "kubernetes")
        .serving(&fixture.gateway.serving_identity(OTHER).unwrap(), &owns);
    fixture.gateway.apply(&own).unwrap();
    let carol = owns.issue(&CertSpec::client("carol", ["dev"])).unwrap();
    for mode in ["Handshake", "Request"] {
        let manifest = manifest.clone().set("/spec/portcullis", json!({"clientCertificateVerification": mode}));
        fixture.gateway.apply(&manifest).unwrap();
        assert_eq!(status(&fixture, NAME, &fixture.pki.alice), Some(200), "{mode}");
        assert_eq!(last_user(&fixture), "alice", "{mode}");
        let refused = (mode == "Request").then_some(401);
        assert_eq!(status(&fixture, NAME, &carol), refused, "{mode}: another cluster's CA");

        let keystore = KeyStore::new([&carol, &fixture.pki.alice]).unwrap();
        let target = fixture.gateway.target(NAME).keystore(&keystore);
        let answer = H2Client::connect(&target).unwrap().get(PODS, &[]).unwrap().status;
        assert_eq!(answer, 200, "{mode}: the handshake names the default CA, so the fitting certificate is chosen");
        assert_eq!(keystore.named().unwrap().len(), 1, "{mode}");
    }
    assert_eq!(status(&fixture, OTHER, &carol), Some(200));
    assert_eq!(last_user(&fixture), "carol");
    fixture.stub.clear();
    assert_eq!(status(&fixture, OTHER, &fixture.pki.alice), Some(401), "a cluster with its own CA believes no other");
    assert!(fixture.client_records().is_empty());
}

#[test]
fn default_client_ca_edit_acts_on_open_connections() {
    let (fixture, manifest) = fixture("default-client-ca-edit");
    let (old, new) = (&fixture.pki.client_ca, Ca::new("new").unwrap());
    let dora = new.issue(&CertSpec::client("dora", ["dev"])).unwrap();
    let open = |identity: &Identity| connect(&fixture.gateway.target(NAME).identity(identity));
    let (alice, dora) = (open(&fixture.pki.alice), open(&dora));
    let ask = |client: &H2Client| client.get(PODS, &[]).unwrap().status;
    assert_eq!((ask(&alice), last_user(&fixture)), (403, "system:anonymous".to_owned()), "there is no CA at all");

    set_default(&fixture, data(old));
    assert_eq!((ask(&alice), last_user(&fixture)), (200, "alice".to_owned()));
    assert_eq!(ask(&dora), 401);

    set_default(&fixture, data(&new));
    assert_eq!(ask(&alice), 401, "believed a moment ago, and not any more");
    assert_eq!((ask(&dora), last_user(&fixture)), (200, "dora".to_owned()));

    // A CA of its own ends the default for this cluster.
    let own = manifest.clone().set("/spec/secureServing/clientCAData", json!(STANDARD.encode(old.pem())));
    fixture.gateway.apply(&own).unwrap();
    assert_eq!((ask(&alice), last_user(&fixture)), (200, "alice".to_owned()));
    assert_eq!(ask(&dora), 401);
    fixture.gateway.apply(&manifest).unwrap();

    // Settings that are wrong change nothing.
    let plane = fixture.gateway.plane();
    let settings = fixture.gateway.manifests().join("settings.yaml");
    let text = std::fs::read_to_string(&settings).unwrap();
    let wrong = text.replace(&STANDARD.encode(new.pem()), &STANDARD.encode("no certificate"));
    assert_ne!(wrong, text);
    fixture.gateway.write_file("settings.yaml", &wrong).unwrap();
    let is_refused = |status: &Value| {
        let objects = status["objects"].as_array().cloned().unwrap_or_default();
        objects.iter().any(|one| one["kind"] == "GatewaySettings" && one["accepted"] == false)
    };
    plane.wait_status("the settings are refused", std::time::Duration::from_secs(20), is_refused).unwrap();
    assert_eq!((ask(&alice), ask(&dora)), (401, 200));
    fixture.gateway.write_file("settings.yaml", &text).unwrap();

    let strict = manifest.set("/spec/portcullis", json!({"allowAnonymous": false}));
    fixture.gateway.apply(&strict).unwrap();
    set_default(&fixture, Value::Null);
    assert_eq!((ask(&alice), ask(&dora)), (401, 401), "without any CA no certificate is looked at");
    assert!(!alice.is_closed() && !dora.is_closed(), "no edit ended a connection");
}
