//! Requests through a Gateway's Envoy that an agent runs: the control plane shows them under the Gateway, and in no number of the cluster.

use std::process::Command;

use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::client::plain;
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::gateway_api::{CLUSTER, Site};
use super::gateway_https::{HttpsSite, JUDGED};
use super::steady_requests::SteadyRequests;

fn page(site: &Site, path: &str) -> Value {
    let answer = plain::get(site.plane.http_address(), path).ok();
    answer.and_then(|answer| answer.json().ok()).unwrap_or_default()
}

fn detail(site: &Site) -> Value {
    page(site, &format!("/ui/api/clusters/{CLUSTER}"))
}

/// The only line by Gateway of a view, if it has requests.
fn line_of_edge(view: &Value) -> Option<Value> {
    let lines = view["atGateways"].as_array().filter(|lines| lines.len() == 1)?;
    let has_requests = lines[0]["numbers"]["requestsPerSecond"].as_f64()? > 0.0;
    (has_requests && lines[0]["gateway"] == "infra/edge" && lines[0]["envoys"] == 1).then(|| lines[0].clone())
}

fn top(site: &Site, more: &[&str]) -> String {
    let address = site.plane.http_address().to_string();
    let output = Command::new(deps::portcullis().unwrap()).args(["top", "--address", &address]).args(more).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn requests_at_a_gateway_are_shown_under_its_name_alone() {
    let Some(gateway) = HttpsSite::start("gateway-activity") else { return };
    let site = &gateway.site;
    let options = AgentOptions::new([site.plane.xds_socket()]);
    let flags = [&options.flags[..], &["--gateway", "infra/edge"].map(str::to_owned)].concat();
    let edge = Agent::start(site.fixture.run.path(), "edge", &AgentOptions { flags, ..options }).unwrap();
    edge.wait_ready(SOON).unwrap();
    gateway.wait_status(JUDGED, Some(200));
    let requests = SteadyRequests::start(&gateway.target(JUDGED));
    let what = "the requests are shown at the Gateway";
    wait::until_ok(what, SOON * 2, || {
        let found = detail(site);
        line_of_edge(&found).map(|_| found.clone()).ok_or_else(|| format!("{:#}", found["atGateways"]))
    })
    .unwrap();
    let (of_cluster, fleet) = (detail(site), page(site, "/ui/api/fleet"));
    assert!(line_of_edge(&fleet).is_some(), "{:#}", fleet["atGateways"]);
    let of_fleet = fleet["clusters"].as_array().unwrap().iter().find(|one| one["name"] == CLUSTER).unwrap();
    for numbers in [&of_cluster["summary"]["numbers"], &of_fleet["numbers"]] {
        assert_eq!(numbers["requestsPerSecond"], json!(0.0), "{numbers:#}");
    }
    for one in of_cluster["policies"].as_array().unwrap() {
        assert_eq!(one["forwardedPerSecond"], json!(0.0), "{one:#}");
    }
    for one in fleet["gateways"].as_array().unwrap() {
        assert_eq!(one["numbers"]["requestsPerSecond"], json!(0.0), "{one:#}");
    }
    for arguments in [&["--once"][..], &["--once", "-c", CLUSTER]] {
        let text = top(site, arguments);
        assert!(text.contains("AT GATEWAY") && text.contains("infra/edge"), "{text}");
    }
    let json: Value = serde_json::from_str(&top(site, &["-o", "json"])).unwrap();
    assert!(line_of_edge(&json).is_some(), "{json:#}");
    requests.none_failed();

    site.fixture.admin(&["delete", "httproutes", "route", "-n", "team"]);
    wait::until_ok("the line ends with the route", SOON, || {
        let found = detail(site)["atGateways"].clone();
        if found == json!([]) { Ok(()) } else { Err(format!("{found:#}")) }
    })
    .unwrap();
}
