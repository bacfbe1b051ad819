//! Answers on Envoy's Prometheus page: by server and code, with durations and sizes.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, MetricsPage};
use portcullis_harness::client::H2Client;
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::json;

use crate::fixture::{NAME, PODS, StubFixture};

const SOON: Duration = Duration::from_secs(20);
const SECRET: &str = "/api/v1/namespaces/default/secrets/s";
/// Labels and the sum of the series that carry them.
type Row<'a> = (&'static str, &'a [(&'a str, &'a str)], u64);

/// A gateway with one cluster of two servers, and the second of them.
fn start(test: &str, options: &GatewayOptions) -> (StubFixture, StubServer) {
    let fixture = StubFixture::without_cluster(test, options);
    let second = fixture.pki.stub("stub-1");
    let servers = [fixture.stub.address(), second.address()];
    let servers: Vec<_> = servers.iter().map(|one| json!({"endpoint": format!("https://{one}")})).collect();
    fixture.gateway.apply(&fixture.manifest().set("/spec/servers", json!(servers))).unwrap();
    (fixture, second)
}

/// Waits until every row is on the page.
fn until(fixture: &StubFixture, rows: &[Row<'_>]) {
    let nobody = H2Client::connect(&fixture.gateway.target(NAME)).unwrap();
    let shown = || {
        // Envoy 1.38 takes counts from requests only.
        nobody.get("/healthz", &[]).map_err(|error| error.to_string())?;
        let page = MetricsPage::of(&fixture.gateway);
        let wrong = rows.iter().find(|(name, labels, expected)| page.sum(name, labels) != *expected);
        let number = |(name, labels, _): &Row<'_>| page.sum(name, labels);
        wrong.map_or(Ok(()), |row| Err(format!("{row:?} is {} in {page:#?}", number(row))))
    };
    wait::until_ok("the answers are shown", SOON, shown).unwrap();
}

#[test]
fn slow_list_shows_with_its_server_and_nowhere_else() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let (fixture, slow) = start(&format!("slow-{version}"), &options);
        let server = slow.address().to_string();
        let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
        slow.fault(Fault::new(PODS, Action::Delay { millis: 2_000 }).times(1));
        let mut lists = 0;
        while slow.records_for(PODS).is_empty() {
            assert_eq!(alice.get(PODS, &[]).unwrap().status, 200);
            lists += 1;
        }
        for _ in 0..4 {
            alice.get(SECRET, &[]).unwrap();
        }
        let list = [("cluster", NAME), ("verb", "LIST"), ("resource", "pods"), ("scope", "namespace")];
        let below = |le| [list.as_slice(), &[("le", le)]].concat();
        let of_server = |verb, le| [("server", server.as_str()), ("verb", verb), ("le", le)];
        let duration = "apiserver_request_duration_seconds_bucket";
        let buckets = "server_duration_seconds_bucket";
        until(
            &fixture,
            &[
                ("apiserver_request_duration_seconds_count", &list, lists),
                (duration, &below("1"), lists - 1),
                (duration, &below("5"), lists),
                ("apiserver_request_duration_seconds_sum", &list, 2),
                (duration, &[("verb", "GET"), ("resource", "secrets"), ("scope", "resource"), ("le", "1")], 4),
                (buckets, &of_server("LIST", "1"), 0),
                (buckets, &of_server("LIST", "5"), 1),
                (buckets, &[("verb", "LIST"), ("le", "1")], lists - 1),
                ("apiserver_request_total", &[("server", server.as_str()), ("verb", "LIST"), ("code", "200")], 1),
            ],
        );
    }
}

#[test]
fn answers_count_by_code_server_and_size() {
    counted("codes", &GatewayOptions::default());
}

#[test]
fn answers_count_in_wasm_by_code_server_and_size() {
    counted("codes-wasm", &GatewayOptions { wasm: Some(deps::wasm().unwrap()), ..GatewayOptions::default() });
}

fn counted(test: &str, options: &GatewayOptions) {
    let (fixture, second) = start(test, options);
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let nobody = H2Client::connect(&fixture.gateway.target(NAME)).unwrap();
    for server in [&fixture.stub, &second] {
        let respond = |status| Action::Respond { status, headers: Vec::new(), body: "x".repeat(5_000) };
        server.fault(Fault::new(SECRET, respond(409)).method("PUT"));
        server.fault(Fault::new(SECRET, respond(200)).method("GET"));
    }
    for _ in 0..3 {
        assert_eq!(alice.get(SECRET, &[]).unwrap().status, 200);
    }
    let put = |kind: &[u8]| alice.request("PUT", SECRET, &[("content-type", kind)], b"{}").unwrap().status;
    assert_eq!(put(b"application/json"), 409);
    let patch = |kind: &[u8]| alice.request("PATCH", PODS, &[("content-type", kind)], b"{}").unwrap().status;
    let patched = [patch(b"application/apply-patch+yaml"), patch(b"application/merge-patch+json")];
    assert_eq!(nobody.get(PODS, &[("authorization", "Bearer not-a-token")]).unwrap().status, 401);
    let watches: Vec<_> = (0..2).map(|_| alice.open("GET", "/api/v1/pods?watch=true", &[], b"").unwrap()).collect();

    let secrets = |verb, code| [("verb", verb), ("resource", "secrets"), ("scope", "resource"), ("code", code)];
    let [applied, merged] = patched.map(|status| status.to_string());
    let watching = [("verb", "WATCH"), ("resource", "pods"), ("subresource", ""), ("scope", "cluster")];
    let get = [("cluster", NAME), ("verb", "GET"), ("resource", "secrets")];
    let up_to = |le| [get.as_slice(), &[("le", le)]].concat();
    until(
        &fixture,
        &[
            ("apiserver_request_total", &secrets("GET", "200"), 3),
            ("apiserver_request_total", &secrets("PUT", "409"), 1),
            ("apiserver_request_total", &[("verb", "APPLY"), ("code", &applied)], 1),
            ("apiserver_request_total", &[("verb", "PATCH"), ("code", &merged)], 1),
            ("apiserver_request_total", &[("server", "-"), ("verb", "LIST"), ("code", "401")], 1),
            ("apiserver_request_total", &[("server", "-"), ("code", "200")], 0),
            ("apiserver_longrunning_requests", &watching, 2),
            ("apiserver_current_inflight_requests", &[("request_kind", "readOnly")], 0),
            ("apiserver_response_sizes_bucket", &up_to("1000"), 0),
            ("apiserver_response_sizes_bucket", &up_to("10000"), 3),
            ("apiserver_response_sizes_sum", &get, 15_000),
            ("apiserver_response_sizes_count", &[("verb", "PUT")], 0),
        ],
    );
    drop(watches);
    until(&fixture, &[("apiserver_longrunning_requests", &watching, 0)]);
    let watched = [("verb", "WATCH"), ("code", "200")];
    until(&fixture, &[("apiserver_request_total", &watched, 2)]);
}
