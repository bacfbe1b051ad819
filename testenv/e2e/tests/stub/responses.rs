//! Answers on Envoy's Prometheus page: by server and code, with durations and sizes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use portcullis_e2e::{GatewayOptions, Labels, MetricsPage, allow_all};
use portcullis_harness::client::H2Client;
use portcullis_harness::otel::{Sink, Span, Spans};
use portcullis_harness::{deps, wait};
use portcullis_stub_apiserver::{Action, Fault, StubServer};
use serde_json::json;

use crate::access_log;
use crate::fixture::{NAME, PODS, StubFixture};
use crate::traces::ARRIVES;

const SOON: Duration = Duration::from_secs(20);
const SECRET: &str = "/api/v1/namespaces/default/secrets/s";
/// A request that takes longer is slow because of the machine, unless a fault made it so.
const QUICK: Duration = Duration::from_millis(800);
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

/// Waits until every row is on the page, by requests for it; returns the longest time that one of them took.
fn until(fixture: &StubFixture, rows: &[Row<'_>]) -> Duration {
    let nobody = H2Client::connect(&fixture.gateway.target(NAME)).unwrap();
    let mut longest = Duration::ZERO;
    let shown = || {
        let since = Instant::now();
        // Envoy 1.38 takes counts from requests only.
        nobody.get("/healthz", &[]).map_err(|error| error.to_string())?;
        longest = longest.max(since.elapsed());
        let page = MetricsPage::of(&fixture.gateway);
        let wrong = rows.iter().find(|(name, labels, expected)| page.sum(name, labels) != *expected);
        let number = |(name, labels, _): &Row<'_>| page.sum(name, labels);
        wrong.map_or(Ok(()), |row| Err(format!("{row:?} is {} in {page:#?}", number(row))))
    };
    wait::until_ok("the answers are shown", SOON, shown).unwrap();
    longest
}

/// The series of durations with values above a second, without `le`: how many, and how many of them from 2 to 5 seconds.
fn slow_cells(page: &MetricsPage) -> BTreeMap<(&'static str, Labels), [u64; 2]> {
    let mut cells = BTreeMap::new();
    for metric in ["apiserver_request_duration_seconds_bucket", "server_duration_seconds_bucket"] {
        let mut by_series = BTreeMap::<Labels, BTreeMap<String, u64>>::new();
        for (labels, count) in page.series_of(metric) {
            let mut labels = labels.clone();
            let bound = labels.remove("le").unwrap();
            by_series.entry(labels).or_default().insert(bound, count);
        }
        for (labels, buckets) in by_series {
            let up_to = |bound: &str| buckets.get(bound).copied().unwrap_or_default();
            let slow = up_to("+Inf") - up_to("1");
            if slow > 0 {
                cells.insert((metric, labels), [slow, up_to("5") - up_to("2")]);
            }
        }
    }
    cells
}

#[test]
fn slow_list_shows_with_its_server_and_nowhere_else() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        wait::retry_if_slow("only the list is slow", || slow_list(&format!("slow-{version}"), &options)).unwrap();
    }
}

/// Lets one list take two seconds among other requests. Nothing if another one was slow, too.
fn slow_list(test: &str, options: &GatewayOptions) -> Option<()> {
    let (fixture, slow) = start(test, options);
    let servers = [fixture.stub.address(), slow.address()];
    let servers = servers.map(|one| json!({"endpoint": format!("https://{one}")}));
    let manifest = fixture.manifest().set("/spec/servers", json!(servers));
    let manifest = manifest.policies(json!([{"rules": [allow_all()], "logMode": "off"}]));
    fixture.gateway.apply(&manifest.set("/spec/portcullis", json!({"logging": {"slow": "1500ms"}}))).unwrap();
    let sink = Sink::start().unwrap();
    let tracing = crate::traces::all_to(sink.address());
    fixture.gateway.change_settings(|spec| spec["tracing"] = tracing).unwrap();
    let server = slow.address().to_string();
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let mut times = Vec::new();
    let mut get = |path: &str| {
        let since = Instant::now();
        assert!(alice.get(path, &[]).unwrap().status < 500, "{path}");
        times.push(since.elapsed());
    };
    let others = [SECRET, "/api/v1/namespaces/default/services", "/api/v1/pods", "/version", PODS];
    others.iter().for_each(|path| (0..4).for_each(|_| get(path)));
    slow.fault(Fault::new(PODS, Action::Delay { millis: 2_000 }).times(1));
    let (before, mut lists) = (slow.records_for(PODS).len(), 4);
    while slow.records_for(PODS).len() == before {
        get(PODS);
        lists += 1;
    }
    others.iter().for_each(|path| (0..4).for_each(|_| get(path)));
    lists += 4;

    let list = [("cluster", NAME), ("verb", "LIST"), ("resource", "pods"), ("scope", "namespace")];
    let count = "apiserver_request_duration_seconds_count";
    let rows = [(count, list.as_slice(), lists), (count, &[("resource", "secrets"), ("scope", "resource")], 8)];
    times.push(until(&fixture, &rows));
    if times.iter().filter(|time| **time > QUICK).count() != 1 {
        return None;
    }
    let page = MetricsPage::of(&fixture.gateway);
    let cells = slow_cells(&page);
    let has = |metric: &str, wanted: &[(&str, &str)]| {
        let found = cells.iter().filter(|((name, labels), _)| {
            *name == metric && wanted.iter().all(|(label, value)| labels.get(*label).is_some_and(|own| own == value))
        });
        found.map(|(_, counts)| *counts).collect::<Vec<_>>()
    };
    assert_eq!(has("apiserver_request_duration_seconds_bucket", &list), [[1, 1]], "{cells:#?}");
    let of_server = [("cluster", NAME), ("server", server.as_str()), ("verb", "LIST")];
    assert_eq!(has("server_duration_seconds_bucket", &of_server), [[1, 1]], "{cells:#?}");
    assert_eq!(cells.len(), 2, "and nowhere else: {cells:#?}");

    let lines = access_log::lines(&fixture);
    let slow_lines: Vec<_> = lines.iter().filter(|line| line.get("conspicuous").is_some()).collect();
    let [line] = slow_lines.as_slice() else { panic!("{lines:#?}") };
    for (name, value) in [("conspicuous", "slow"), ("verb", "list"), ("resource", "pods"), ("endpoint", &server)] {
        assert_eq!(line[name], value, "{line}");
    }
    assert_eq!(
        (&line["cluster"], &line["path"], &line["longestPhase"]),
        (&json!(NAME), &json!(PODS), &json!("server"))
    );
    assert!((2_000..5_000).contains(&line["serverMs"].as_u64().unwrap()), "{line}");
    slow_span(&sink, &server);
    Some(())
}

/// The slow list's span and the one of its server below it are the only ones of two seconds.
fn slow_span(sink: &Sink, server: &str) {
    let two = Duration::from_secs(2);
    let slow = |kind: u64| move |span: &Span| span.kind == kind && span.duration() >= two;
    let request = sink.wait_span("the span of the slow list", ARRIVES, slow(2)).unwrap();
    for (name, value) in [("portcullis.verb", "list"), ("portcullis.resource", "pods"), ("url.path", PODS)] {
        assert_eq!(request.attribute(name), value, "{request:?}");
    }
    let attempt = sink.wait_span("the span of its server", ARRIVES, slow(3)).unwrap();
    assert_eq!((&attempt.trace, &attempt.parent), (&request.trace, &request.id), "{attempt:?}");
    assert_eq!(attempt.attribute("upstream_address"), server, "{attempt:?}");
    assert!(request.duration().saturating_sub(attempt.duration()) < two, "it is the server's time");
    let all = sink.spans().unwrap();
    assert_eq!(all.iter().filter(|span| span.duration() >= two).count(), 2, "and no other: {all:#?}");
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
