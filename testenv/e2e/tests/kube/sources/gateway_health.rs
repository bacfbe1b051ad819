//! Agents of a Gateway's Envoys: a server that these find unhealthy is named at the objects to which routes lead.

use std::process::Command;

use portcullis_e2e::{xds_client_flags, xds_server_flags};
use portcullis_harness::agent::{Agent, AgentOptions};
use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::rundir::RunDir;
use portcullis_harness::{deps, ports, wait};
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::fixture::NAMESPACE;
use super::gateway_api::{CLUSTER, Site};
use super::gateway_envoys::{GatewaySite, OWN, credential_files};
use super::gateway_upstreams::{UPSTREAM, UpstreamSite};

/// Waits until an object's condition `Ready` has a status, a reason and these words.
fn wait_ready(what: &str, get: impl Fn() -> Value, [status, reason]: [&str; 2], words: &[&str]) {
    wait::until_ok(&format!("{what} is {status} {reason} {words:?}"), SOON, || {
        let found = get();
        let listed = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = listed.into_iter().find(|one| one["type"] == "Ready").unwrap_or_default();
        let message = ready["message"].as_str().unwrap_or_default();
        let is_so = ready["status"] == status && ready["reason"] == reason;
        if is_so && words.iter().all(|word| message.contains(word)) { Ok(()) } else { Err(format!("{ready:#}")) }
    })
    .unwrap();
}

fn agent(run: &RunDir, name: &str, options: AgentOptions, more: &[&str]) -> Agent {
    let flags = options.flags.iter().cloned().chain(more.iter().map(|flag| (*flag).to_owned())).collect();
    Agent::start(run.path(), name, &AgentOptions { flags, ..options }).unwrap()
}

fn cluster(site: &Site) -> Value {
    site.fixture.stored(CLUSTER)
}

#[test]
fn unhealthy_server_at_a_gateway_is_named_at_the_cluster() {
    let run = RunDir::new("gateway-health-xds").unwrap();
    let ca = Ca::new("xds").unwrap();
    let files = |name: &str, spec: &CertSpec| credential_files(&run, &ca, name, spec);
    let xds = ports::free_address().unwrap();
    let server = files("server", &CertSpec::server("xds", ["xds.internal"]));
    let server = xds_server_flags(xds, server.each_ref().map(|file| file.as_path()));
    let flags: Vec<&str> = server.iter().map(String::as_str).collect();
    let Some(gateway) = GatewaySite::with_flags("gateway-health", &flags) else { return };
    let site = &gateway.site;
    let dead = ports::free_address().unwrap().to_string();
    let servers = [site.fixture.kube.apiservers()[0].address().to_string(), dead.clone()];
    let servers = servers.map(|one| json!({"endpoint": format!("https://{one}")}));
    let check = json!({"healthCheck": {"interval": "1s", "timeout": "1s", "unhealthyThreshold": 1}});
    let manifest = site.fixture.manifest(CLUSTER).set("/spec/servers", json!(servers));
    site.fixture.apply(&manifest.set("/spec/portcullis", check).to_text());
    gateway.route(NAMESPACE, OWN, CLUSTER);
    wait_ready("no report", || cluster(site), ["Unknown", "NoReport"], &[]);

    let dns = vec!["edge.infra.gateway.portcullis.dev".to_owned()];
    let client = files("client", &CertSpec { dns, ..CertSpec::client("edge", [""; 0]) });
    let flags = xds_client_flags(xds, client.each_ref().map(|file| file.as_path()), "xds.internal");
    let edge = agent(&run, "edge", AgentOptions { flags, ..AgentOptions::new([]) }, &["--gateway", "infra/edge"]);
    edge.wait_ready(SOON).unwrap();
    let named = [dead.as_str(), "infra/edge", "HealthCheckFailed since 20"];
    wait_ready("a report", || cluster(site), ["True", "SomeUnhealthy"], &named);
    let address = site.plane.http_address().to_string();
    let printed = Command::new(deps::portcullis().unwrap()).args(["status", "--address", &address, CLUSTER]).output();
    let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
    assert!(named.iter().all(|word| printed.contains(word)), "{printed}");

    // Another Envoy has the cluster, too, and says nothing of it: the Gateway's decides nothing then.
    let stranger = gateway.envoy("stranger", &[]);
    wait_ready("beside another Envoy", || cluster(site), ["Unknown", "NoReport"], &named);
    drop(stranger);
    wait_ready("alone again", || cluster(site), ["True", "SomeUnhealthy"], &named);

    site.fixture.admin(&["delete", "tlsroutes", "route", "-n", NAMESPACE]);
    wait_ready("the route is gone", || cluster(site), ["Unknown", "NoReport"], &[]);
}

/// Over the socket an Envoy may be of any Gateway.
#[test]
fn unhealthy_server_of_a_tenants_upstream_is_named_at_it() {
    let Some(UpstreamSite(gateway)) = UpstreamSite::start("gateway-upstream-health") else { return };
    let site = &gateway.site;
    let sockets = AgentOptions::new([site.plane.xds_socket()]);
    let edge = agent(&site.fixture.run, "edge", sockets, &["--gateway", "infra/edge"]);
    edge.wait_ready(SOON).unwrap();
    let upstream = || site.get(UPSTREAM[0], UPSTREAM[1], UPSTREAM[2]);
    wait_ready("every server is healthy", upstream, ["True", "Ready"], &["served at Gateways infra/edge"]);
    let dead = ports::free_address().unwrap().to_string();
    let add = json!([{"op": "add", "path": "/spec/servers/-", "value": {"endpoint": format!("https://{dead}")}}]);
    let patch = ["patch", UPSTREAM[0], "-n", UPSTREAM[1], UPSTREAM[2], "--type", "json", "-p", &add.to_string()];
    site.fixture.admin(&patch);
    wait_ready("one is not", upstream, ["True", "Ready"], &[&dead, "unhealthy at Gateway infra/edge"]);
    let only = json!([{"op": "remove", "path": "/spec/servers/0"}]);
    let patch = ["patch", UPSTREAM[0], "-n", UPSTREAM[1], UPSTREAM[2], "--type", "json", "-p", &only.to_string()];
    site.fixture.admin(&patch);
    wait_ready("none is", upstream, ["False", "NoHealthyEndpoints"], &[&dead, "infra/edge"]);
}
