//! Counts of requests to servers without names.

use portcullis_e2e::MetricsPage;
use portcullis_harness::client::H2Client;
use portcullis_harness::wait;

use super::{Plain, SOON};
use crate::fixture::PODS;

#[test]
fn server_without_a_name_counts_as_unknown() {
    let plain = Plain::start("impersonate", None, |_| {});
    let alice = H2Client::connect(&plain.gateway.target().identity(&plain.pki.alice)).unwrap();
    assert_eq!(alice.get(PODS, &[]).unwrap().status, 200);
    let watch = alice.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    let page = || {
        let text = plain.gateway.envoy().admin().get("/stats/prometheus").unwrap().text();
        MetricsPage::read(&text, "envoy_portcullis_")
    };
    let has = |name: &str, labels: &[(&str, &str)], expected: u64| {
        let is = || {
            let page = page();
            if page.sum(name, labels) == expected { Ok(()) } else { Err(format!("{labels:?} in {page:#?}")) }
        };
        wait::until_ok("it is counted", SOON, is).unwrap();
    };
    has("apiserver_longrunning_requests", &[("verb", "WATCH"), ("resource", "pods")], 1);
    // It lasts longer than its headers took.
    let began = std::time::Instant::now();
    let lasts = || (began.elapsed() > std::time::Duration::from_secs(2)).then_some(());
    wait::until("the watch has lasted", SOON, lasts).unwrap();
    drop(watch);
    for verb in ["LIST", "WATCH"] {
        has("apiserver_request_total", &[("server", "unknown"), ("verb", verb)], 1);
        has("server_duration_seconds_count", &[("server", "unknown"), ("verb", verb)], 1);
    }
    has("apiserver_request_duration_seconds_count", &[("verb", "WATCH")], 1);
    has("apiserver_request_duration_seconds_bucket", &[("verb", "WATCH"), ("le", "2")], 1);
    has("apiserver_request_total", &[("server", "-")], 0);
}
