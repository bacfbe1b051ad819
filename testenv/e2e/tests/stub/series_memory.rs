//! Memory of all series that a process may have, in a real Envoy.

use portcullis_e2e::GatewayOptions;
use portcullis_harness::client::{H2Client, Outgoing};
use portcullis_harness::wait;

use crate::activity::SOON;
use crate::fixture::StubFixture;
use crate::series::closed_set;

/// Series of the process's budget, and Envoy's memory for all of them at most: 64 MiB for the metrics of 10,000 clusters, without
/// their totals and the counts of the filter (docs/performance.md).
const SERIES: usize = 65_536;
const MOST_BYTES: u64 = 36 << 20;

/// A request of each verb and scope.
fn requests(resource: &str) -> Vec<Outgoing> {
    let (all, some) = (format!("/api/v1/{resource}"), format!("/api/v1/namespaces/n/{resource}"));
    let one = format!("{some}/x");
    let request = |method: &'static str, path: &str, kind: &str| {
        let mut request = Outgoing::get(path, &[("content-type", kind)]);
        request.method = method.to_owned();
        request
    };
    let json = "application/json";
    vec![
        request("GET", &all, json),
        request("GET", &some, json),
        request("GET", &one, json),
        request("POST", &some, json),
        request("PUT", &one, json),
        request("PATCH", &one, "application/merge-patch+json"),
        request("PATCH", &one, "application/apply-patch+yaml"),
        request("DELETE", &one, json),
        request("DELETE", &some, json),
    ]
}

fn series(fixture: &StubFixture) -> usize {
    let text = fixture.gateway.envoy().admin().get("/stats/prometheus").unwrap().text();
    text.lines().filter(|line| line.starts_with("envoy_portcullis_")).count()
}

fn allocated(fixture: &StubFixture) -> u64 {
    let page = fixture.gateway.envoy().admin().json("/memory").unwrap();
    page["allocated"].as_str().unwrap().parse().unwrap()
}

#[test]
#[ignore = "takes longer than 30 seconds"]
fn series_of_a_whole_process_take_their_share_of_memory() {
    let fixture = StubFixture::without_cluster("series-memory", &GatewayOptions::default());
    // Each takes a fifth of what those before it have left.
    let clients: Vec<_> = (0..16)
        .map(|number| {
            let name = format!("c{number}.example.com");
            let manifest = fixture.cluster(&name, [fixture.stub.address()]);
            fixture.gateway.apply(&manifest).unwrap();
            let client = H2Client::connect(&fixture.gateway.target(&name).identity(&fixture.pki.alice)).unwrap();
            client.burst(vec![Outgoing::get("/healthz", &[]); 100], 20);
            client
        })
        .collect();
    wait::until("the first are counted", SOON, || (series(&fixture) > 100).then_some(())).unwrap();
    let before = (series(&fixture), allocated(&fixture));
    for client in &clients {
        for resource in closed_set().iter().filter(|name| !name.contains('/')) {
            let answers = client.burst(requests(resource), 9);
            assert!(answers.iter().all(Result::is_ok));
        }
        fixture.stub.clear();
    }
    let mut seen = 0;
    let stands_still = || {
        let now = series(&fixture);
        (std::mem::replace(&mut seen, now) == now).then_some(now)
    };
    let after = wait::until("all are counted", SOON, stands_still).unwrap();
    let bytes = allocated(&fixture) - before.1;
    let each = bytes / (after - before.0) as u64;
    println!("{} series more take {bytes} bytes, {each} each", after - before.0);
    assert!((SERIES * 3 / 4..SERIES + 2_000).contains(&after), "{after}");
    assert!(bytes < MOST_BYTES, "{bytes}");
}
