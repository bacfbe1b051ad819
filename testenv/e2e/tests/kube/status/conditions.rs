use std::time::{Duration, Instant};

use portcullis_e2e::allow_all;
use portcullis_harness::rundir::RunDir;
use portcullis_harness::wait;
use serde_json::json;

use super::fake_envoy::FakeEnvoy;
use super::{condition, wait_condition};
use crate::sources::{ControlPlaneUnderTest, SOON, SourceFixture};

const NAME: &str = "prod.example.com";

#[test]
fn object_has_true_conditions_for_its_whole_life() {
    let Some(fixture) = SourceFixture::start("status-conditions") else { return };
    let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let side = ControlPlaneUnderTest::start(&fixture.run, "plane", &flags);
    let made = fixture.apply(&fixture.manifest(NAME).to_text());
    assert!(made.get("status").is_none());
    let object = wait_condition(&fixture, NAME, "Programmed", "True", "Programmed");
    let ready = condition(&object, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("Unknown"), &json!("NoReport")));
    assert_eq!(condition(&object, "Accepted")["status"], "True");
    assert_eq!(object["status"]["gateways"][0]["state"], "Acknowledged", "{:#}", object["status"]);
    let status = side.plane.status().unwrap();
    let told = status["objects"].as_array().unwrap().iter().find(|one| one["name"] == NAME).unwrap().clone();
    assert_eq!(told["contentHash"], object["status"]["contentHash"]);
    assert_eq!(told["conditions"], object["status"]["conditions"], "/status and Kubernetes say the same");

    invalid_and_mended(&fixture);
    conflicted(&fixture);
    unresolved(&fixture);
    refused_and_unhealthy(&fixture, &side);
    deleted(&fixture);
}

fn invalid_and_mended(fixture: &SourceFixture) {
    let before = condition(&fixture.stored(NAME), "Accepted");
    // Times of conditions have seconds.
    let since = Instant::now();
    wait::until("a second goes by", SOON, || (since.elapsed() > Duration::from_secs(1)).then_some(())).unwrap();
    let broken = fixture.manifest(NAME).policies(json!([{"rules": [allow_all()], "flowControlSchemaName": "none"}]));
    fixture.apply(&broken.to_text());
    let object = wait_condition(fixture, NAME, "Accepted", "False", "Invalid");
    assert_ne!(condition(&object, "Accepted")["lastTransitionTime"], before["lastTransitionTime"]);
    let message = condition(&object, "Accepted")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("flowControlSchemaName"), "{message}");
    let object = wait_condition(fixture, NAME, "Programmed", "False", "OlderVersion");
    let message = condition(&object, "Programmed")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("accepted last (generation 1)") && message.contains("envoy"), "{message}");
    fixture.apply(&fixture.manifest(NAME).to_text());
    wait_condition(fixture, NAME, "Programmed", "True", "Programmed");
}

fn conflicted(fixture: &SourceFixture) {
    let thief = "thief.example.com";
    fixture.apply(&fixture.manifest(thief).set("/spec/secureServing/serverNames", json!([NAME])).to_text());
    // It is served under its other names, its own for one.
    let object = wait_condition(fixture, thief, "Accepted", "True", "Conflicted");
    let message = condition(&object, "Accepted")["message"].as_str().unwrap().to_owned();
    assert!(message.contains(NAME) && message.contains("spec.secureServing.serverNames"), "{message}");
    wait_condition(fixture, thief, "Programmed", "True", "Programmed");
    fixture.admin(&["delete", "upstreamcluster", thief]);
}

fn unresolved(fixture: &SourceFixture) {
    let name = "lost.example.com";
    let references = json!({"references": {"client": {"secret": {"name": "nowhere"}}}});
    let manifest = fixture.manifest(name).set("/spec/clientConfig", json!({"insecure": true}));
    fixture.apply(&manifest.set("/spec/portcullis", references).to_text());
    let object = wait_condition(fixture, name, "Accepted", "False", "ReferenceNotResolved");
    let message = condition(&object, "Accepted")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("spec.portcullis.references.client"), "{message}");
    fixture.admin(&["delete", "upstreamcluster", name]);
}

/// A second gateway refuses everything, and finds no server.
fn refused_and_unhealthy(fixture: &SourceFixture, side: &ControlPlaneUnderTest) {
    let fake_envoy = FakeEnvoy::new(side.plane.xds_socket(), "fake_envoy");
    fake_envoy.refuse("I like no \u{1b}[31mcluster");
    let object = wait_condition(fixture, NAME, "Programmed", "False", "Refused");
    let message = condition(&object, "Programmed")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("fake_envoy") && message.contains("I like no [31mcluster"), "{message:?}");
    assert_eq!(object["status"]["gateways"][0]["name"], "fake_envoy", "the worst first: {:#}", object["status"]);
    let transition = condition(&object, "Programmed")["lastTransitionTime"].clone();
    fake_envoy.report(&format!("e2e/-/{NAME}/all.h2"), 0, 2);
    let object = wait_condition(fixture, NAME, "Ready", "False", "NoHealthyEndpoints");
    assert_eq!(object["status"]["gateways"][0]["endpoints"], 2);
    let named = json!({"server": "10.0.0.0:6443", "reason": "Ejected", "since": "2023-11-14T22:13:20Z"});
    assert_eq!(object["status"]["gateways"][0]["unhealthy"][0], named);
    let described = fixture.admin(&["describe", "upstreamcluster", NAME]);
    assert!(described.contains("10.0.0.0:6443 (Ejected since 2023-11-14T22:13:20Z)"), "{described}");
    assert_eq!(condition(&object, "Programmed")["lastTransitionTime"], transition);
    drop(fake_envoy);
    wait_condition(fixture, NAME, "Programmed", "True", "Programmed");
    let good = FakeEnvoy::new(side.plane.xds_socket(), "elsewhere");
    good.report(&format!("e2e/-/{NAME}/all.h2"), 1, 2);
    let object = wait_condition(fixture, NAME, "Programmed", "True", "Programmed");
    let message = condition(&object, "Programmed")["message"].as_str().unwrap().to_owned();
    assert!(!message.contains("fake_envoy is"), "{message}");
}

/// The status of a new object holds nothing of a deleted one of its name.
fn deleted(fixture: &SourceFixture) {
    let before = condition(&fixture.stored(NAME), "Accepted");
    fixture.admin(&["delete", "upstreamcluster", NAME]);
    let broken = fixture.manifest(NAME).policies(json!([{"rules": [allow_all()], "flowControlSchemaName": "none"}]));
    fixture.apply(&broken.to_text());
    let object = wait_condition(fixture, NAME, "Accepted", "False", "Invalid");
    assert_eq!(condition(&object, "Programmed")["reason"], "NotAccepted", "the version before was another object's");
    assert!(object["status"].get("contentHash").is_none());
    assert_ne!(condition(&object, "Accepted")["lastTransitionTime"], before["lastTransitionTime"]);
}

#[test]
fn no_gateway_is_told_and_its_coming_too() {
    let Some(fixture) = SourceFixture::start("status-no-gateway") else { return };
    let flags = fixture.kubernetes_flags(&fixture.settings.display().to_string());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let plane = plane(&fixture.run, "alone", &flags);
    fixture.apply(&fixture.manifest(NAME).to_text());
    let object = wait_condition(&fixture, NAME, "Programmed", "False", "NoGateways");
    assert_eq!(condition(&object, "Accepted")["status"], "True");
    let elsewhere = FakeEnvoy::new(plane.xds_socket(), "elsewhere");
    elsewhere.report(&format!("e2e/-/{NAME}/all.h2"), 1, 2);
    wait_condition(&fixture, NAME, "Programmed", "Unknown", "OtherReplicas");
    let object = wait_condition(&fixture, NAME, "Ready", "True", "SomeUnhealthy");
    assert_eq!(object["status"]["gateways"][0]["state"], "OtherReplica");
    plane.wait_status("it is told", SOON, |status| status["source"]["leader"] == true).unwrap();
}

fn plane(run: &RunDir, name: &str, flags: &[&str]) -> portcullis_harness::control_plane::ControlPlane {
    portcullis_harness::control_plane::ControlPlane::start_from(&run.make_dir(name).unwrap(), flags).unwrap()
}
