//! A server that stops answering is named on every surface.

use std::process::Command;
use std::time::Instant;

use portcullis_e2e::{AgentSite, allow_all};
use portcullis_harness::client::plain;
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use crate::fixture::NAME;

fn object(told: &Value) -> Option<&Value> {
    told["objects"].as_array()?.iter().find(|one| one["name"] == NAME)
}

fn ready(told: &Value) -> Option<&Value> {
    object(told)?["conditions"].as_array()?.iter().find(|one| one["type"] == "Ready")
}

/// Whether the condition `Ready` has this status and reason, and all the words in its message.
fn is<'a, const N: usize>(status: &'a str, reason: &'a str, words: [&'a str; N]) -> impl Fn(&Value) -> bool + 'a {
    move |told| {
        ready(told).is_some_and(|one| {
            let message = one["message"].as_str().unwrap_or_default();
            one["status"] == status && one["reason"] == reason && words.iter().all(|word| message.contains(word))
        })
    }
}

fn status(site: &AgentSite, more: &[&str]) -> String {
    let address = site.plane().http_address().to_string();
    let mut command = Command::new(deps::portcullis().unwrap());
    let output = command.args(["status", "--address", &address]).args(more).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn unhealthy_server_of_a_subset_is_named_on_every_surface() {
    let fixture = AgentFixture::new("agent-unhealthy");
    let other = fixture.pki.stub("stub-1");
    let (good, bad) = (fixture.stub.address().to_string(), other.address().to_string());
    let subset = json!({
        "rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}],
        "upstreamSubset": [format!("https://{bad}")],
    });
    let site = fixture.site("envoy-0").start().unwrap();
    let manifest = fixture
        .manifest()
        .set("/spec/servers", json!([{"endpoint": format!("https://{good}")}, {"endpoint": format!("https://{bad}")}]))
        .set("/spec/portcullis", json!({"healthCheck": {"interval": "1s", "timeout": "1s"}}))
        .policies(json!([subset, {"rules": [allow_all()]}]));
    let path = fixture.run.join("envoy-0-manifests").join("cluster.yaml");
    portcullis_harness::write_private(&path, manifest.to_text().as_bytes()).unwrap();
    let both = |told: &Value| {
        let gateway = object(told).map(|one| one["gateways"][0].clone()).unwrap_or_default();
        is("True", "EndpointsHealthy", [])(told) && gateway["endpoints"] == 2
    };
    site.plane().wait_status("both servers are healthy", SOON, both).unwrap();

    let hanging = Fault::new("/readyz", Action::Hold);
    other.fault(hanging);
    let since = Instant::now();
    let lost = is("False", "SubsetUnhealthy", [&bad, "HealthCheckTimedOut since 20", "envoy-0"]);
    let told = site.plane().wait_status("the subset is not ready", SOON, lost).unwrap();
    eprintln!("named after {:.1} s", since.elapsed().as_secs_f64());
    let gateway = &object(&told).unwrap()["gateways"][0];
    assert_eq!(gateway["unhealthy"][0]["server"], bad.as_str());
    assert_eq!(gateway["unhealthy"][0]["reason"], "HealthCheckTimedOut");
    let first = gateway["unhealthy"][0]["since"].as_str().unwrap().to_owned();
    let line = format!("{bad}: HealthCheckTimedOut since {first}");
    let page = plain::get(site.plane().http_address(), &format!("/ui/clusters/{NAME}")).unwrap().text();
    for part in [&bad, &format!("HealthCheckTimedOut at envoy-0 since <time datetime=\"{first}\">")] {
        assert!(page.contains(part.as_str()), "{part}: {page}");
    }
    let text = status(&site, &[NAME]);
    assert!(text.contains(&line), "{text}");
    let table = status(&site, &[]);
    assert!(table.contains("no server of a policy's upstreamSubset is healthy") && table.contains(&bad), "{table}");
    let json = status(&site, &["-o", "json"]);
    assert!(json.contains(&bad) && json.contains(&first), "{json}");
    let metrics = plain::get(site.plane().http_address(), "/metrics").unwrap().text();
    assert!(metrics.contains("\nportcullis_unhealthy_servers 1\n"), "{metrics}");
    let logged = || {
        let log = site.agent.process().log();
        (log.contains("a server is not healthy") && log.contains(&bad)).then_some(())
    };
    wait::until("the gateway's log names it", SOON, logged).unwrap();

    // Another reason is no other beginning.
    other.clear_faults();
    let failing = Fault::new("/readyz", Action::Respond { status: 500, headers: Vec::new(), body: String::new() });
    other.fault(failing);
    let reason = format!("HealthCheckFailed since {first}");
    let failed = is("False", "SubsetUnhealthy", [&bad, &reason]);
    site.plane().wait_status("it answers 500", SOON, failed).unwrap();

    // Without a policy that wants that server alone, the object is ready.
    let all = manifest.policies(json!([{"rules": [allow_all()]}]));
    portcullis_harness::write_private(&path, all.to_text().as_bytes()).unwrap();
    let named = format!("envoy-0 has 1 of 2; unhealthy: {bad} (HealthCheckFailed since {first})");
    site.plane().wait_status("one of two is healthy", SOON, is("True", "SomeUnhealthy", [&named])).unwrap();

    other.clear_faults();
    let told = site.plane().wait_status("it has recovered", SOON, is("True", "EndpointsHealthy", [])).unwrap();
    assert_eq!(object(&told).unwrap()["gateways"][0].get("unhealthy"), None);
}

#[test]
fn unhealthy_subsets_follow_names_and_disabled_servers() {
    let fixture = AgentFixture::new("agent-unhealthy-names");
    let good = format!("https://{}", fixture.stub.address());
    // No process listens there.
    let gone = format!("localhost:{}", portcullis_harness::ports::free_address().unwrap().port());
    let site = fixture.site("envoy-0").start().unwrap();
    let path = fixture.run.join("envoy-0-manifests").join("cluster.yaml");
    let write = |server: Value| {
        let subset = json!({"rules": [allow_all()], "upstreamSubset": [server["endpoint"]]});
        let manifest = fixture
            .manifest()
            .set("/spec/servers", json!([{"endpoint": good}, server]))
            .set("/spec/portcullis", json!({"healthCheck": {"interval": "1s"}}))
            .policies(json!([subset]));
        portcullis_harness::write_private(&path, manifest.to_text().as_bytes()).unwrap();
    };
    write(json!({"endpoint": format!("https://{gone}")}));
    let named = is("False", "SubsetUnhealthy", [&gone, "HealthCheckFailed since 20"]);
    site.plane().wait_status("the server is named as it is written", SOON * 2, named).unwrap();
    let stub = fixture.pki.stub("stub-1");
    let other = format!("https://{}", stub.address());
    write(json!({"endpoint": other}));
    site.plane().wait_status("both are healthy", SOON * 2, is("True", "EndpointsHealthy", [])).unwrap();
    write(json!({"endpoint": other, "disabled": true}));
    let disabled = is("False", "SubsetUnhealthy", ["no server of a policy's upstreamSubset is enabled"]);
    site.plane().wait_status("the only server of the subset is disabled", SOON * 2, disabled).unwrap();
}
