//! The health of servers that connections are passed on to, and the messages about such a cluster.

use std::process::Command;

use portcullis_harness::client::plain;
use portcullis_harness::deps;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use crate::fixture::NAME;

const TOLD: &str = "connections are passed on, not judged";

fn condition<'a>(told: &'a Value, kind: &str) -> Option<&'a Value> {
    let object = told["objects"].as_array()?.iter().find(|one| one["name"] == NAME)?;
    object["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

#[test]
fn passed_on_cluster_is_ready_by_checks_of_its_own() {
    let fixture = AgentFixture::new("agent-passed-on");
    let health = json!({"interval": "1s", "timeout": "1s"});
    let fields = json!({"transport": "TLSPassthrough", "healthCheck": health});
    // The gateway's own trust is wrong, and nothing depends on it.
    let manifest = fixture.manifest().upstream(&fixture.pki.gateway, &fixture.pki.client_ca, "kubernetes");
    let manifest = manifest.set("/spec/portcullis", fields);
    let site = fixture.site_of("envoy-0", &manifest).start().unwrap();
    let is = |status: &'static str| {
        move |told: &Value| condition(told, "Ready").is_some_and(|ready| ready["status"] == status)
    };
    let told = site.plane().wait_status("it is ready", SOON, is("True")).unwrap();
    let accepted = condition(&told, "Accepted").unwrap();
    assert!(accepted["status"] == "True" && accepted["message"].as_str().unwrap().contains(TOLD), "{accepted}");
    let page = plain::get(site.plane().http_address(), &format!("/ui/clusters/{NAME}")).unwrap().text();
    assert!(page.contains(TOLD), "{page}");
    let address = site.plane().http_address().to_string();
    let output =
        Command::new(deps::portcullis().unwrap()).args(["status", "--address", &address, NAME]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(TOLD) && text.contains("1 of 1 endpoints healthy"), "{text}");

    let failing = Action::Respond { status: 500, headers: Vec::new(), body: String::new() };
    fixture.stub.fault(Fault::new("/readyz", failing));
    let told = site.plane().wait_status("it is not ready", SOON, is("False")).unwrap();
    assert_eq!(condition(&told, "Ready").unwrap()["reason"], "NoHealthyEndpoints");
}
