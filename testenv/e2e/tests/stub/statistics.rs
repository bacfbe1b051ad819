//! The statistics that Envoy makes of a cluster: a tenth of what it has, unless all are asked for.

use portcullis_e2e::GatewayOptions;

use crate::fixture::{NAME, PODS, StubFixture, connect};

/// Read by the dashboard, the alerts, the agent and the manual, of the pool `e2e/-/prod_example_com/all_h2`.
const READ: [&str; 9] = [
    "membership_healthy",
    "membership_total",
    "outlier_detection.ejections_active",
    "upstream_cx_active",
    "upstream_cx_total",
    "upstream_rq_active",
    "upstream_rq_pending_overflow",
    "upstream_rq_retry",
    "upstream_rq_total",
];

/// The names of Envoy's own statistics of the fixture's cluster, after a request to it.
fn names(test: &str, flags: &[&str]) -> Vec<String> {
    let bootstrap_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let fixture = StubFixture::start(test, &GatewayOptions { bootstrap_flags, ..GatewayOptions::default() });
    let alice = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    assert_eq!(connect(&alice).get(PODS, &[]).unwrap().status, 200);
    let text = fixture.gateway.envoy().admin().get("/stats").unwrap().text();
    let all = text.lines().filter_map(|line| Some(line.split_once(": ")?.0.to_owned()));
    let of_cluster = |name: &String| name.contains(NAME) || name.contains(&NAME.replace('.', "_"));
    all.filter(|name| of_cluster(name) && !name.starts_with("portcullis.") && !name.starts_with("wasm")).collect()
}

#[test]
fn statistics_of_a_cluster_are_those_that_are_read() {
    let some = names("statistics", &[]);
    for name in READ {
        let name = format!("cluster.e2e/-/{}/all_h2.{name}", NAME.replace('.', "_"));
        assert!(some.contains(&name), "{name} of {some:?}");
    }
    assert!(some.len() < 70, "{}: {some:?}", some.len());
    let all = names("all-statistics", &["--all-envoy-statistics"]);
    assert!(all.len() > 500, "{}", all.len());
}
