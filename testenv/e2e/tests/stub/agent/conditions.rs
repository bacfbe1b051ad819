//! Conditions without Kubernetes: by the status page, and by `portcullis status`.

use std::process::Command;

use portcullis_e2e::{AgentSite, allow_all};
use portcullis_harness::client::plain;
use portcullis_harness::deps;
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use crate::fixture::NAME;

/// Whether a condition of the cluster has a status and a reason.
fn is(kind: &'static str, status: &'static str, reason: &'static str) -> impl Fn(&Value) -> bool {
    move |told| condition(told, kind).is_some_and(|one| one["status"] == status && one["reason"] == reason)
}

fn condition(told: &Value, kind: &str) -> Option<Value> {
    let object = told["objects"].as_array()?.iter().find(|one| one["name"] == NAME)?;
    object["conditions"].as_array()?.iter().find(|one| one["type"] == kind).cloned()
}

fn status(site: &AgentSite, more: &[&str]) -> (Option<i32>, String) {
    let address = site.plane().http_address().to_string();
    let mut command = Command::new(deps::portcullis().unwrap());
    let output = command.args(["status", "--address", &address]).args(more).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn gateway_that_comes_fails_recovers_and_goes_is_told() {
    let fixture = AgentFixture::new("agent-conditions");
    let mut site = fixture.site("envoy-0").start().unwrap();
    site.plane().wait_status("it is programmed", SOON, is("Programmed", "True", "Programmed")).unwrap();
    let told = site.plane().wait_status("it is ready", SOON, is("Ready", "True", "EndpointsHealthy")).unwrap();
    let programmed = condition(&told, "Programmed").unwrap();
    assert_eq!(status(&site, &[]).0, Some(0));
    assert_eq!(status(&site, &[NAME]).0, Some(0));

    // All endpoints down: the gateway still has its configuration, and says since when it has no server.
    let failing = Fault::new("/readyz", Action::Respond { status: 500, headers: Vec::new(), body: String::new() });
    fixture.stub.fault(failing);
    let down = site.plane().wait_status("all are down", SOON * 2, is("Ready", "False", "NoHealthyEndpoints")).unwrap();
    let message = condition(&down, "Ready").unwrap()["message"].to_string();
    assert!(message.contains("envoy-0"), "{message}");
    assert_eq!(condition(&down, "Programmed").unwrap(), programmed, "nothing else has changed");
    let (code, table) = status(&site, &[]);
    assert_eq!(code, Some(0), "readiness does not count: {table}");
    assert!(table.contains("no endpoint is healthy"), "{table}");
    let page = plain::get(site.plane().http_address(), &format!("/ui/clusters/{NAME}")).unwrap().text();
    assert!(page.contains("NoHealthyEndpoints") && page.contains("no endpoint is healthy"), "{page}");
    fixture.stub.clear_faults();
    site.plane().wait_status("it has recovered", SOON * 2, is("Ready", "True", "EndpointsHealthy")).unwrap();

    // An edit that is wrong: the version before it is served, and said to be.
    let wrong = fixture.manifest().policies(json!([{"rules": []}])).to_text();
    let path = fixture.run.join("envoy-0-manifests").join("cluster.yaml");
    portcullis_harness::write_private(&path, wrong.as_bytes()).unwrap();
    site.plane().wait_status("the edit is refused", SOON, is("Programmed", "False", "OlderVersion")).unwrap();
    let (code, told) = status(&site, &[NAME]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("accepted last is served") && told.contains("cluster.yaml:1"), "{told}");
    portcullis_harness::write_private(&path, fixture.manifest().to_text().as_bytes()).unwrap();
    site.plane().wait_status("it is mended", SOON, is("Programmed", "True", "Programmed")).unwrap();

    site.agent.process().stop();
    // Its last report counts for 30 seconds: until then it may live at another replica.
    let gone = |told: &Value| condition(told, "Programmed").is_some_and(|one| one["status"] != "True");
    site.plane().wait_status("it is gone", SOON, gone).unwrap();
    assert_eq!(status(&site, &[]).0, Some(1));
    site.agent.start_again().unwrap();
    site.plane().wait_status("it is back", SOON * 2, is("Programmed", "True", "Programmed")).unwrap();
}

/// The fields of an object do not make the agent ask Envoy for statistics that Envoy never has.
#[test]
fn every_kind_of_object_is_acknowledged() {
    let fixture = AgentFixture::new("agent-kinds");
    let site = fixture.site("envoy-0").start().unwrap();
    let server = format!("https://{}", fixture.stub.address());
    let by_name = format!("https://localhost:{}", fixture.stub.address().port());
    let client = json!({"insecure": true, "bearerToken": "YQ=="});
    let subset = |strategy: &str| json!({"rules": [allow_all()], "strategy": strategy, "upstreamSubset": [server]});
    let kinds = [
        ("/spec/clientConfig", client.clone()),
        ("/spec/portcullis", json!({"clientCertificateVerification": "Handshake"})),
        ("/spec/portcullis", json!({"allowAnonymous": false, "auditAttribution": true, "requestTimeout": "30s"})),
        ("/spec/portcullis", json!({"transport": "TLSPassthrough"})),
        ("/spec/dispatchPolicies", json!([subset("LeastRequest"), subset("Random"), subset("RoundRobin")])),
        ("/spec/servers", json!([{"endpoint": by_name}])),
        ("/spec/servers", json!([{"endpoint": server, "disabled": true}])),
        ("/spec/secureServing/serverNames", json!(["*.example.net"])),
        ("/metadata/annotations", json!({"proxy.kubegateway.io/feature-gates": "CloseConnectionWhenIdle=true"})),
    ];
    for (number, (field, value)) in kinds.iter().enumerate() {
        let name = format!("kind-{number}.example.com");
        let manifest = fixture.manifest().set("/metadata/name", json!(name)).set(field, value.clone());
        let path = fixture.run.join("envoy-0-manifests").join(format!("{number}.yaml"));
        portcullis_harness::write_private(&path, manifest.to_text().as_bytes()).unwrap();
    }
    let well = |told: &Value| {
        let objects = told["objects"].as_array().cloned().unwrap_or_default();
        let clusters = objects.iter().filter(|one| one["kind"] == "UpstreamCluster");
        let programmed = clusters.filter(|one| one["conditions"][1]["reason"] == "Programmed");
        programmed.count() == kinds.len() + 1
    };
    site.plane().wait_status("all are programmed", SOON, well).unwrap();
}
