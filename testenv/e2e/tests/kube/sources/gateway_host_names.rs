//! Host names that two objects claim: the API server has the conflict in the loser's status, and requests reach the owner alone.

use portcullis_e2e::allow_all;
use portcullis_harness::certs::CertSpec;
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::wait;
use serde_json::{Value, json};

use super::control_plane::SOON;
use super::gateway_api::CLUSTER;
use super::gateway_https::{HttpsSite, rules};

/// A name for which the certificate of the Gateway is good.
const CONTESTED: &str = "contested.wide.example.com";
/// Another cluster than that of the site, with the same servers.
const OTHER: &str = "other.example.com";
const HELD: [&str; 2] = ["Accepted True Accepted", "portcullis.dev/HostnamesHeld True Held"];

/// Applies the other cluster, which answers 403 to `/version` if it is closed.
fn other_cluster(gateway: &HttpsSite, names: &[&str], is_closed: bool) {
    let fixture = &gateway.site.fixture;
    let serving = fixture.serving_ca.issue(&CertSpec::server(OTHER, [OTHER, CONTESTED])).unwrap();
    let denial =
        json!({"rules": [{"verbs": ["*"], "nonResourceURLs": ["/version"]}], "portcullis": {"action": "Deny"}});
    let all = json!({"rules": [allow_all()]});
    let policies = if is_closed { json!([denial, all]) } else { json!([all]) };
    let manifest = fixture.manifest(OTHER).serving(&serving, fixture.kube.client_ca()).policies(policies);
    fixture.apply(&manifest.set("/spec/secureServing/serverNames", json!(names)).to_text());
}

/// Applies a route that claims the name, and leads to a cluster.
fn claim(gateway: &HttpsSite, namespace: &str, cluster: &str) {
    gateway.bind("HTTPRoute", [namespace, "claim"], CONTESTED, &rules(cluster, &json!({})));
}

fn wait_held(gateway: &HttpsSite, namespace: &str) {
    gateway.site.wait(["httproutes", namespace, "claim"], "/parents/0", &HELD);
}

/// Waits until the status of a route says that the name is this owner's.
fn wait_conflict(gateway: &HttpsSite, namespace: &str, owner: &str) {
    let object = ["httproutes", namespace, "claim"];
    let says_owner = |found: &Value| {
        let listed = found.pointer("/status/parents/0/conditions").and_then(Value::as_array);
        let accepted = listed.into_iter().flatten().find(|one| one["type"] == "Accepted").cloned();
        let message = accepted.and_then(|one| one["message"].as_str().map(str::to_owned)).unwrap_or_default();
        let expected = format!("{CONTESTED} belongs to {owner}");
        if message.starts_with(&expected) { Ok(()) } else { Err(format!("{expected}: {message}")) }
    };
    wait::until_ok("the owner is in the message", SOON, || {
        says_owner(&gateway.site.wait(object, "/parents/0", &["Accepted False HostnameConflict"]))
    })
    .unwrap();
}

/// Waits until the Envoy of no Gateway serves the name, or does not.
fn wait_at_cluster(gateway: &HttpsSite, is_served: bool) {
    let fixture = &gateway.site.fixture;
    let target = TlsTarget::new(fixture.address).sni(CONTESTED).trust(&fixture.serving_ca).identity(&gateway.alice);
    let answers = || H2Client::connect(&target).and_then(|client| client.authority(CONTESTED).get("/version", &[]));
    let is_good = || answers().is_ok_and(|answer| answer.status == 200);
    wait::until(&format!("the cluster serves the name: {is_served}"), SOON, || (is_good() == is_served).then_some(()))
        .unwrap();
}

#[test]
fn route_gets_no_host_name_of_a_cluster() {
    let Some(gateway) = HttpsSite::start("gateway-cluster-names") else { return };
    let ordinary = gateway.envoy("ordinary", &[]);
    let _edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    ordinary.wait_listening(gateway.site.fixture.address, SOON).unwrap();
    // The cluster is first.
    other_cluster(&gateway, &[CONTESTED], false);
    wait_at_cluster(&gateway, true);
    claim(&gateway, "team", CLUSTER);
    wait_conflict(&gateway, "team", &format!("UpstreamCluster {OTHER}"));
    gateway.wait_status(CONTESTED, None);
    wait_at_cluster(&gateway, true);

    gateway.site.fixture.admin(&["delete", "upstreamcluster", OTHER]);
    wait_held(&gateway, "team");
    gateway.wait_status(CONTESTED, Some(200));
    wait_at_cluster(&gateway, false);

    // The route is first, and a cluster's name is the cluster's all the same.
    other_cluster(&gateway, &[CONTESTED], false);
    wait_conflict(&gateway, "team", &format!("UpstreamCluster {OTHER}"));
    gateway.wait_status(CONTESTED, None);
    wait_at_cluster(&gateway, true);
    // A cluster that stays, and lets the name go.
    other_cluster(&gateway, &[], false);
    wait_held(&gateway, "team");
    gateway.wait_status(CONTESTED, Some(200));
    wait_at_cluster(&gateway, false);

    // A route to the owner may have the owner's name.
    other_cluster(&gateway, &[CONTESTED], false);
    wait_conflict(&gateway, "team", &format!("UpstreamCluster {OTHER}"));
    claim(&gateway, "team", OTHER);
    wait_held(&gateway, "team");
    gateway.wait_status(CONTESTED, Some(200));
    wait_at_cluster(&gateway, true);
}

#[test]
fn host_name_of_two_tenants_leads_to_its_owner_alone() {
    let Some(gateway) = HttpsSite::start("gateway-route-names") else { return };
    let fixture = &gateway.site.fixture;
    fixture.admin(&["create", "namespace", "guest"]);
    gateway.grant("guest", &[("HTTPRoute", "guest")]);
    other_cluster(&gateway, &[], true);
    let _edge = gateway.envoy("edge", &["--gateway", "infra/edge"]);
    // Each leads to a cluster of its own, so that the answer says whose name it is.
    let tenants = [("team", CLUSTER, 200), ("guest", OTHER, 403)];
    claim(&gateway, "team", CLUSTER);
    wait_held(&gateway, "team");
    gateway.wait_status(CONTESTED, Some(200));
    // Each is the owner once, and the other one gets the name when the owner's route goes.
    for [owner, loser] in [[tenants[0], tenants[1]], [tenants[1], tenants[0]]] {
        claim(&gateway, loser.0, loser.1);
        wait_conflict(&gateway, loser.0, &format!("HTTPRoute {}/claim", owner.0));
        wait_held(&gateway, owner.0);
        gateway.wait_status(CONTESTED, Some(owner.2));
        fixture.admin(&["delete", "httproute", "claim", "-n", owner.0]);
        wait_held(&gateway, loser.0);
        gateway.wait_status(CONTESTED, Some(loser.2));
    }
}
