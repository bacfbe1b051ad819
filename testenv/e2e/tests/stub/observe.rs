//! The requests on Envoy's Prometheus page: exact, of closed sets, and right again when the load is over.

use std::collections::BTreeSet;
use std::time::Duration;

use portcullis_e2e::{GatewayOptions, MetricsPage, allow_all};
use portcullis_harness::client::{H2Client, TlsTarget};
use portcullis_harness::{deps, wait};
use serde_json::json;

use crate::fixture::{NAME, PODS, ROBOT, StubFixture};

const SOON: Duration = Duration::from_secs(20);
const NAMESPACE: &str = "/api/v1/namespaces/default";

pub(crate) fn until(fixture: &StubFixture, what: &str, name: &str, labels: &[(&str, &str)], expected: u64) {
    let reached = || {
        with_another_request(&fixture.gateway.target(NAME));
        (MetricsPage::of(&fixture.gateway).sum(name, labels) == expected).then_some(())
    };
    wait::until(what, SOON, reached)
        .unwrap_or_else(|error| panic!("{error}: {:#?}", MetricsPage::of(&fixture.gateway)));
}

/// Sends another request, for an unknown name: Envoy 1.38 publishes counts only on requests.
pub(crate) fn with_another_request(target: &TlsTarget) {
    if deps::envoy_versions().last().is_some_and(|version| version.starts_with("1.38.")) {
        let unknown = "GET / HTTP/1.1\r\nHost: unknown.example.com\r\nConnection: close\r\n\r\n";
        let _ = target.raw_request(unknown.as_bytes());
    }
}

fn start(test: &str, options: &GatewayOptions) -> StubFixture {
    let fixture = StubFixture::start(test, options);
    let limits = json!({"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 3}}]});
    let secrets = json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["secrets", "widgets"]});
    let rest =
        json!({"verbs": ["-deletecollection"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]});
    let manifest = fixture.manifest().set("/spec/flowControl", limits).policies(json!([
        {"rules": [secrets]},
        {"rules": [rest], "flowControlSchemaName": "few"},
    ]));
    fixture.gateway.apply(&manifest).unwrap();
    fixture
}

#[test]
fn requests_are_counted_with_words_of_closed_sets() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        counted(&start(&format!("counts-{version}"), &options));
    }
}

fn counted(fixture: &StubFixture) {
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let nobody = H2Client::connect(&fixture.gateway.target(NAME)).unwrap();
    for _ in 0..3 {
        alice.get(PODS, &[]).unwrap();
        nobody.get("/version", &[]).unwrap();
    }
    alice.get(&format!("{NAMESPACE}/secrets/s"), &[]).unwrap();
    alice.get("/apis/example.com/v1/widgets/w", &[]).unwrap();
    alice.get("/apis/example.com/v1/gizmos/g", &[]).unwrap();
    alice.request("DELETE", PODS, &[], b"").unwrap();
    alice.request("PURGE", "/version", &[], b"").unwrap();
    nobody.get(PODS, &[("authorization", "Bearer not-a-token")]).unwrap();
    nobody.get(PODS, &[("authorization", &format!("Bearer {ROBOT}"))]).unwrap();

    let table: [(&[(&str, &str)], u64); 9] = [
        (&[("verb", "LIST"), ("resource", "pods"), ("policy", "1"), ("schema", "few"), ("decision", "forwarded")], 4),
        (&[("verb", "GET"), ("resource", "secrets"), ("policy", "0"), ("schema", "-"), ("decision", "forwarded")], 1),
        (&[("verb", "GET"), ("resource", "widgets"), ("policy", "0"), ("decision", "forwarded")], 1),
        (&[("verb", "GET"), ("resource", "other"), ("policy", "1"), ("decision", "forwarded")], 1),
        (&[("resource", "gizmos")], 0),
        (&[("verb", "DELETE"), ("policy", "-"), ("decision", "refused"), ("reason", "no_policy")], 1),
        (&[("verb", "other"), ("resource", ""), ("decision", "forwarded")], 1),
        (&[("verb", "LIST"), ("decision", "refused"), ("reason", "unauthorized")], 1),
        (&[("cluster", NAME), ("reason", "-"), ("decision", "refused")], 0),
    ];
    // Envoy 1.38 takes counts from requests only, and each worker tells its own when it comes to it.
    let shown = || {
        nobody.get("/healthz", &[]).map_err(|error| error.to_string())?;
        let page = MetricsPage::of(&fixture.gateway);
        let wrong = table.iter().find(|(labels, expected)| page.sum("requests_total", labels) != *expected);
        wrong.map_or(Ok(()), |(labels, expected)| Err(format!("{labels:?} is not {expected} in {page:#?}")))
    };
    wait::until_ok("the counts are shown", SOON, shown).unwrap();
    // Envoy shows histograms every five seconds.
    until(fixture, "two requests have waited", "review_wait_milliseconds_count", &[], 2);
    assert!(MetricsPage::of(&fixture.gateway).sum("filter_duration_microseconds_count", &[]) >= 12);
    let page = MetricsPage::of(&fixture.gateway);
    for (kind, expected) in [("tokens", 1), ("rejected_tokens", 1), ("certificates", 1), ("allowed_access", 0)] {
        assert_eq!(page.sum("credential_cache_entries", &[("cluster", NAME), ("kind", kind)]), expected, "{kind}");
    }
}

#[test]
fn gauges_follow_the_load_and_end_at_zero() {
    let fixture = start("gauges", &GatewayOptions::default());
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let slots = [("cluster", NAME), ("schema", "few")];
    let watches: Vec<_> = (0..3).map(|_| alice.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap()).collect();
    until(&fixture, "three places are taken", "requests_in_flight", &slots, 3);
    assert_eq!(alice.get(PODS, &[]).unwrap().status, 429);
    until(&fixture, "a refusal is counted", "requests_total", &[("schema", "few"), ("reason", "flow_control")], 1);
    drop(watches);
    until(&fixture, "no place is taken", "requests_in_flight", &slots, 0);

    // A schema that is gone leaves no count behind.
    let watch = alice.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    until(&fixture, "a place is taken", "requests_in_flight", &slots, 1);
    fixture.gateway.apply(&fixture.manifest().policies(json!([{"rules": [allow_all()]}]))).unwrap();
    drop(watch);
    alice.get(PODS, &[]).unwrap();
    until(&fixture, "the schema's gauge is zero", "requests_in_flight", &slots, 0);
    until(
        &fixture,
        "counts go on",
        "requests_total",
        &[("policy", "0"), ("schema", "-"), ("decision", "forwarded")],
        1,
    );
}

#[test]
fn counts_outlive_an_edit_of_the_filter() {
    for version in deps::envoy_versions() {
        let options = GatewayOptions { envoy_version: Some(version.clone()), ..GatewayOptions::default() };
        let fixture = start("counts-edit", &options);
        let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
        for _ in 0..3 {
            assert_eq!(alice.get(PODS, &[]).unwrap().status, 200);
        }
        let edit = |settings: &mut serde_json::Value| settings["instance"] = json!("another");
        fixture.gateway.change_settings(edit).unwrap();
        let counted = || {
            // A new connection, by the new filter; the old one gets no request any more.
            H2Client::connect(&fixture.gateway.target(NAME)).ok()?.get("/healthz", &[]).ok()?;
            (MetricsPage::of(&fixture.gateway).sum("requests_total", &[("verb", "LIST"), ("resource", "pods")]) == 3)
                .then_some(())
        };
        wait::until(&format!("Envoy {version} shows the counts"), SOON, counted).unwrap();
    }
}

#[test]
fn removed_cluster_leaves_no_gauge_behind() {
    let drains = vec!["--drain-time-s".into(), "1".into()];
    let fixture = start("gone", &GatewayOptions { envoy_flags: drains, ..GatewayOptions::default() });
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let _watch = alice.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    until(&fixture, "a place is taken", "requests_in_flight", &[("cluster", NAME)], 1);
    fixture.gateway.remove(NAME).unwrap();
    until(&fixture, "no place is taken", "requests_in_flight", &[], 0);
    until(&fixture, "nothing is remembered", "credential_cache_entries", &[], 0);
}

#[test]
fn envoy_ends_well_while_counts_wait_to_be_shown() {
    let fixture = start("ends", &GatewayOptions::default());
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let _watch = alice.open("GET", &format!("{PODS}?watch=true"), &[], b"").unwrap();
    fixture.gateway.envoy().quit().unwrap();
    let status = fixture.gateway.envoy().process().exit_status();
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

#[test]
fn invented_names_make_no_series() {
    invent("invented", 2_000);
}

#[test]
#[ignore = "takes longer than 30 seconds"]
fn hundred_thousand_invented_names_make_no_series() {
    invent("invented-many", 100_000);
}

/// Every request names a new resource, group, namespace, object and user agent: one that is refused, and one that goes on.
fn invent(test: &str, count: u64) {
    let fixture = StubFixture::start(test, &GatewayOptions::default());
    let rule = json!({"verbs": ["-deletecollection"], "apiGroups": ["*"], "resources": ["*"]});
    fixture.gateway.apply(&fixture.manifest().policies(json!([{"rules": [rule]}]))).unwrap();
    let target = fixture.gateway.target(NAME).identity(&fixture.pki.alice);
    let refused = [("decision", "refused"), ("reason", "no_policy")];
    const VERBS: [&str; 6] = ["GET", "LIST", "POST", "PUT", "PATCH", "DELETE"];
    let send = |client: &H2Client, path: &str, number: u64| {
        let agent = format!("agent/{number}");
        let ask = |method: &str, path: &str| {
            client.request(method, path, &[("user-agent", agent.as_bytes())], b"{}").unwrap().status
        };
        assert_eq!(ask("DELETE", path), 403, "{path}");
        let verb = VERBS[usize::try_from(number).unwrap() % VERBS.len()];
        match verb {
            "LIST" => ask("GET", path),
            "POST" => ask("POST", path),
            verb => ask(verb, &format!("{path}/o{number}")),
        }
    };
    let client = H2Client::connect(&target).unwrap();
    let first = VERBS.len() as u64;
    for number in 0..first {
        send(&client, "/apis/example.com/v1/namespaces/n/inventions", number);
    }
    until(&fixture, "the first are counted", "requests_total", &refused, first);
    until(&fixture, "the first have gone on", "apiserver_request_total", &[("resource", "other")], 2 * first);
    let before = lines(&fixture);

    const CLIENTS: u64 = 8;
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (target, send) = (&target, &send);
            scope.spawn(move || {
                let connection = H2Client::connect(target).unwrap();
                for n in (client..count).step_by(CLIENTS as usize) {
                    send(&connection, &format!("/apis/g{n}.example.com/v{n}/namespaces/n{n}/r{n}"), n);
                }
            });
        }
    });
    until(&fixture, "all are counted", "requests_total", &refused, count + first);
    let all = 2 * (count + first);
    until(&fixture, "all have ended", "apiserver_request_total", &[("resource", "other")], all);
    let added: Vec<_> = lines(&fixture).into_iter().filter(|line| !before.contains(line)).collect();
    assert!(added.is_empty(), "{added:#?}");
    let page = MetricsPage::of(&fixture.gateway);
    let forwarded = [("resource", "other"), ("decision", "forwarded")];
    assert_eq!(page.sum("requests_total", &forwarded), count + first);
    assert_eq!(page.sum("apiserver_request_duration_seconds_count", &[("resource", "other")]), count + first);
    let resources = |name| page.series_of(name).map(|(labels, _)| labels["resource"].clone()).collect::<BTreeSet<_>>();
    for name in ["requests_total", "apiserver_request_total", "apiserver_request_duration_seconds_count"] {
        assert_eq!(resources(name), BTreeSet::from(["other".to_owned()]), "{name}");
    }
}

/// The names and labels of all series on the page, Envoy's own included. A histogram is one, however long its answers took.
fn lines(fixture: &StubFixture) -> BTreeSet<String> {
    let text = fixture.gateway.envoy().admin().get("/stats/prometheus").unwrap().text();
    let series = text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0));
    series.map(one_of_its_histogram).collect()
}

fn one_of_its_histogram(series: &str) -> String {
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.starts_with("le="));
    format!("{name} {}", labels.collect::<Vec<_>>().join(","))
}
