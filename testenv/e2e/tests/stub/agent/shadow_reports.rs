//! The condition `ShadowDiffers`, from the reports of two gateways to the status of their object.

use std::process::Command;
use std::time::Duration;

use portcullis_e2e::{Manifest, MetricsPage, allow_all};
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::client::{H2Client, TlsTarget, plain};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::{deps, wait, write_private};
use serde_json::{Value, json};

use super::fixture::{AgentFixture, SOON};
use crate::fixture::{NAME, PODS};

const READY: Duration = Duration::from_secs(20);

/// A cluster whose shadow denies a verb.
fn manifest(fixture: &AgentFixture, verb: &str) -> Manifest {
    let mut denied = allow_all();
    denied["verbs"] = json!([verb]);
    let policies = json!([{"rules": [denied], "portcullis": {"action": "Deny"}}, {"rules": [allow_all()]}]);
    fixture
        .manifest()
        .policies(json!([{"rules": [allow_all()]}]))
        .set("/spec/portcullis", json!({"shadow": {"dispatchPolicies": policies}}))
}

/// The condition as the status page has it.
fn condition(status: &Value) -> Option<Value> {
    let object = status["objects"].as_array()?.iter().find(|one| one["name"] == NAME)?;
    object["conditions"].as_array()?.iter().find(|one| one["type"] == "ShadowDiffers").cloned()
}

fn wait_for(plane: &ControlPlane, status: &str, reason: &str, words: &str) -> Value {
    let is_so = |body: &Value| {
        condition(body).is_some_and(|one| {
            one["status"] == status && one["reason"] == reason && one["message"].as_str().unwrap().contains(words)
        })
    };
    condition(&plane.wait_status(&format!("ShadowDiffers is {status}, {reason}"), SOON * 2, is_so).unwrap()).unwrap()
}

/// Asks on so many connections, which the kernel divides among the gateways.
fn ask(target: &TlsTarget, path: &str, times: usize) {
    for _ in 0..times {
        let answer = H2Client::connect(target).unwrap().get(path, &[]).unwrap();
        assert!([200, 404].contains(&answer.status), "{}", answer.text());
    }
}

/// The requests of a gateway that its shadow would refuse.
fn would_refuse(agent: &Agent) -> u64 {
    let page = plain::get(agent.http_address(), "/metrics").unwrap().text();
    let page = MetricsPage::read(&page, "envoy_portcullis_");
    page.sum("shadow_total", &[("agreement", "would_refuse")])
}

#[test]
fn shadow_differs_by_the_reports_of_both_gateways() {
    let fixture = AgentFixture::new("agent-shadow");
    let site = fixture.site_of("plane", &manifest(&fixture, "list"));
    let (planes, manifests, address) = site.control_planes().unwrap();
    let plane = &planes[0];
    let start = |name| {
        let options = AgentOptions::new([plane.xds_socket()]);
        Agent::start(fixture.run.path(), name, &options).unwrap()
    };
    assert_eq!(wait_for(plane, "Unknown", "NoReport", "no gateway has reported")["observedGeneration"], Value::Null);
    let mut agents = ["envoy-0", "envoy-1"].map(start);
    agents.iter().for_each(|agent| agent.wait_ready(READY).unwrap());
    let target = fixture.target(address).timeout(SOON.saturating_mul(wait::deadline_factor()));
    wait_for(plane, "Unknown", "NoRequests", "no request so far, by reports of 2 gateways");
    let pod = format!("{PODS}/a");
    ask(&target, &pod, 20);
    wait_for(plane, "False", "NoDifference", "no difference among 20+ requests, by reports of 2 gateways");

    ask(&target, PODS, 50);
    let kind = "50+ would_refuse LIST pods (policy 0, shadow policy 0)";
    let differs = wait_for(plane, "True", "Differences", kind);
    let message = differs["message"].as_str().unwrap();
    assert_eq!(message, format!("among 50+ requests, by reports of 2 gateways: {kind}"), "no user is named");
    let counts = wait::until("both have counted", SOON, || {
        let counts = [would_refuse(&agents[0]), would_refuse(&agents[1])];
        (counts[0] + counts[1] == 50).then_some(counts)
    });
    let counts = counts.unwrap();
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let address = plane.http_address().to_string();
    let status = Command::new(deps::portcullis().unwrap()).args(["status", NAME, "--address", &address]).output();
    let text = String::from_utf8(status.unwrap().stdout).unwrap();
    assert!(text.contains("ShadowDiffers") && text.contains("would_refuse LIST pods"), "{text}");

    // A gateway that restarts takes nothing back.
    agents[0].process().stop();
    agents[0].start_again().unwrap();
    agents[0].wait_ready(READY).unwrap();
    ask(&target, PODS, 60);
    wait_for(plane, "True", "Differences", "100+ would_refuse LIST pods");

    // Another shadow: nothing of the one before is seen from then on.
    let edit = |object: &Manifest| write_private(&manifests.join("cluster.yaml"), object.to_text().as_bytes()).unwrap();
    edit(&manifest(&fixture, "delete"));
    let mut seen = Vec::new();
    let is_new = |body: &Value| {
        let Some(one) = condition(body) else { return false };
        if one != differs {
            seen.push(one.clone());
        }
        one["reason"] == "NoRequests" && one["message"].as_str().unwrap().ends_with(" 2 gateways")
    };
    plane.wait_status("both gateways have the new one", SOON * 2, is_new).unwrap();
    let after: Vec<_> = seen.iter().skip_while(|one| one["status"] == "True").collect();
    assert!(after.iter().all(|one| one["status"] == "Unknown"), "{seen:#?}");
    ask(&target, PODS, 20);
    wait_for(plane, "False", "NoDifference", "20+ requests");

    edit(&fixture.manifest().policies(json!([{"rules": [allow_all()]}])));
    plane.wait_status("there is no shadow", SOON, |body| condition(body).is_none()).unwrap();
}
