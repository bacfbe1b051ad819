//! The dashboard and the alerts, evaluated by Prometheus over the pages of a gateway and a control plane that run.

use std::time::Duration;

use portcullis_e2e::{GatewayOptions, allow_all};
use portcullis_harness::client::{H2Client, Outgoing};
use portcullis_harness::prometheus::{Prometheus, Sample, Scraped};
use portcullis_harness::{deps, project_root, wait};
use portcullis_stub_apiserver::{Action, Fault};
use serde_json::{Value, json};

use crate::alerts::until_alerts;
use crate::fixture::{NAME, PODS, StubFixture};

pub(crate) const SOON: Duration = Duration::from_secs(30);
pub(crate) const SECRET: &str = "/api/v1/namespaces/default/secrets/s";
pub(crate) const FAILING: &str = "/api/v1/namespaces/default/secrets/failing";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const WATCH: &str = "/api/v1/namespaces/default/pods?watch=true";
/// Seconds of the window of rates. The whole test fits into it.
const WINDOW: u16 = 120;
/// Repetitions of the mix of requests.
const ROUNDS: usize = 10;

/// The expectation of a number on the dashboard.
#[derive(Clone, Copy, Debug)]
enum Is {
    /// A rate: so many in the window.
    Count(f64),
    /// An exact number.
    Number(f64),
    /// A number from one to another.
    Between(f64, f64),
}

use Is::{Between, Count, Number};

impl Is {
    fn holds(self, value: f64) -> bool {
        match self {
            // Prometheus lets the growth go on beyond the first and the last sample, by a scrape's distance at most.
            Count(count) => (count * 0.99..=count * 1.35).contains(&(value * f64::from(WINDOW))),
            Number(number) => (value - number).abs() < 0.001,
            Between(from, to) => (from..=to).contains(&value),
        }
    }
}

pub(crate) fn start(test: &str) -> Option<(StubFixture, Prometheus)> {
    deps::or_skip(test, deps::prometheus()).unwrap()?;
    let fixture = StubFixture::start(test, &GatewayOptions::default());
    let schema = |name: &str, max: u32| json!({"name": name, "maxRequestsInflight": {"max": max}});
    let slow = json!({"name": "slow", "tokenBucket": {"qps": 1, "burst": 1_000}});
    let of = |resource: &str| json!({"verbs": ["*"], "apiGroups": [""], "resources": [resource]});
    let manifest = fixture
        .manifest()
        .set("/spec/flowControl", json!({"flowControlSchemas": [schema("many", 8), schema("none", 0), slow]}))
        .policies(json!([
            {"rules": [of("events")], "flowControlSchemaName": "none"},
            {"rules": [of("secrets")], "flowControlSchemaName": "slow"},
            {"rules": [allow_all()], "flowControlSchemaName": "many"},
        ]));
    fixture.gateway.apply(&manifest).unwrap();
    let gateway = Scraped {
        job: "portcullis-gateway-metrics",
        pod: "gateway-0",
        address: fixture.gateway.envoy().admin().address(),
        path: "/stats/prometheus",
    };
    let plane = Scraped {
        job: "portcullis-control-plane",
        pod: "control-plane-0",
        address: fixture.gateway.plane().http_address(),
        path: "/metrics",
    };
    let prometheus = Prometheus::start(&fixture.run, "portcullis", &[gateway, plane]).unwrap();
    Some((fixture, prometheus))
}

/// The requests of a mix, by the client that sends them: a user's, and those of a stranger with a token that is none.
fn mix(rounds: usize) -> [Vec<Outgoing>; 2] {
    let get = |path: &str, times: usize| vec![Outgoing::get(path, &[]); times * rounds];
    let stranger = Outgoing::get(PODS, &[("authorization", "Bearer not-a-token")]);
    [[get(PODS, 8), get(SECRET, 4), get(FAILING, 2), get(EVENTS, 1)].concat(), vec![stranger; rounds]]
}

/// The sum of a metric of the filter's, as Prometheus has it.
pub(crate) fn sum(prometheus: &Prometheus, metric: &str) -> f64 {
    let found = prometheus.query(&format!("sum(envoy_portcullis_{metric})")).unwrap();
    found.first().map_or(0.0, |(_, value)| *value)
}

/// The expression with the dashboard's variables replaced.
pub(crate) fn filled_in(expression: &str) -> String {
    let window = format!("{WINDOW}s");
    expression.replace("$__rate_interval", &window).replace("$namespace", "portcullis").replace("$cluster", ".*")
}

/// The dashboard's queries: the panel's title, the legend, the expression.
pub(crate) fn queries() -> Vec<(String, String, String)> {
    let path = project_root().join("deploy/kubernetes/components/monitoring/dashboard.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            all.push((text(&panel["title"]), text(&target["legendFormat"]), text(&target["expr"])));
        }
    }
    all
}

/// A panel's title with a query's legend, and the series that it shows, by their labels.
type Row = (&'static str, &'static str, &'static [(&'static str, Is)]);

/// After the mix ten times, with 4 of the 80 lists of pods held up for 2 s and a read of a secret broken off once, and 2 watches that
/// run. `@` is the server.
const SHOWN: &[Row] = &[
    ("Requests", "requests", &[("", Count(162.0))]),
    ("Refused", "refused", &[("", Between(0.11, 0.14))]),
    ("Failed", "failed", &[("", Between(0.115, 0.14))]),
    ("99th percentile", "p99", &[("", Between(1.0, 5.0))]),
    ("Gateways refusing", "gateways", &[("", Number(0.0))]),
    ("First certificate ends in", "days", &[("", Between(1.0, 4_000.0))]),
    ("99th percentile of each part", "whole", &[("", Between(1.0, 5.0))]),
    ("99th percentile of each part", "servers", &[("", Between(1.0, 5.0))]),
    ("99th percentile of each part", "reviews", &[("", Between(0.0, 1.0))]),
    ("99th percentile of each part", "filter", &[("", Between(0.0, 0.1))]),
    ("Failures by origin", "{{cluster}} {{server}}{{reason}}", &[("server=@", Count(20.0))]),
    ("Slowest servers", "{{cluster}} {{server}}", &[("server=@", Between(1.0, 5.0))]),
    ("By cluster", "{{cluster}}", &[("cluster=prod.example.com", Count(162.0))]),
    ("99th percentile by cluster", "{{cluster}}", &[("cluster=prod.example.com", Between(1.0, 5.0))]),
    ("Failed by cluster", "{{cluster}}", &[("cluster=prod.example.com", Between(0.115, 0.14))]),
    ("Requests by server", "{{cluster}} {{server}}", &[("server=@", Count(140.0)), ("server=-", Count(20.0))]),
    ("Running by cluster", "{{cluster}} {{request_kind}}", &[("request_kind=readOnly", Number(0.0))]),
    (
        "Healthy servers",
        "{{envoy_cluster_name}}",
        &[
            ("envoy_cluster_name=e2e/-/prod_example_com/all_h2", Number(1.0)),
            ("envoy_cluster_name=e2e/-/prod_example_com/all_upgrade", Number(1.0)),
            ("envoy_cluster_name=e2e/-/prod_example_com/all_anonymous", Number(1.0)),
        ],
    ),
    ("By verb", "{{verb}}", &[("verb=LIST", Count(80.0)), ("verb=GET", Count(60.0)), ("verb=WATCH", Count(2.0))]),
    ("99th percentile by verb", "{{verb}}", &[("verb=LIST", Between(1.0, 5.0)), ("verb=GET", Between(0.0, 1.0))]),
    (
        "Slowest resources",
        "{{verb}} {{resource}} {{scope}}",
        &[
            ("verb=LIST resource=pods scope=namespace", Between(1.0, 5.0)),
            ("verb=GET resource=secrets scope=resource", Between(0.0, 1.0)),
        ],
    ),
    ("Ten busiest resources", "{{resource}}", &[("resource=pods", Count(82.0)), ("resource=secrets", Count(60.0))]),
    ("Bytes of lists", "{{resource}} {{scope}}", &[("resource=pods scope=namespace", Between(1.0, 10_000.0))]),
    ("Long-running requests", "{{verb}} {{resource}}", &[("verb=WATCH resource=pods", Number(2.0))]),
    ("By dispatch policy", "{{cluster}} {{policy}}", &[("policy=1", Count(60.0)), ("policy=2", Count(82.0))]),
    (
        "Refused, by reason",
        "{{cluster}} {{reason}}",
        &[("reason=unauthorized", Count(10.0)), ("reason=flow_control", Count(10.0))],
    ),
    ("Limited", "{{cluster}} {{schema}}", &[("schema=none", Count(10.0))]),
    ("Requests in flight that hold a place", "{{pod}} {{cluster}} {{schema}}", &[("schema=many", Number(2.0))]),
    ("Use of limits", "{{cluster}} {{schema}}", &[("schema=many", Number(0.25))]),
    // Of one a second.
    ("Use of limits", "{{cluster}} {{schema}} rate", &[("schema=slow", Count(60.0))]),
    ("Ended by the gateway", "{{cluster}} {{reason}}", &[]),
    // The agent has these: `agent::metrics::talkers_are_gauges_that_prometheus_reads`.
    ("Ten busiest users", "{{cluster}} {{name}}", &[]),
    ("Ten busiest user agents", "{{cluster}} {{name}}", &[]),
    ("Ten users with the most bytes", "{{cluster}} {{name}}", &[]),
    ("Objects not accepted", "objects", &[("", Number(0.0))]),
    ("Source stale", "stale", &[("", Number(0.0))]),
    ("Edits refused", "{{kind}}", &[("kind=UpstreamCluster", Number(0.0))]),
    // Everything was in place before Prometheus began.
    ("From a change to its acknowledgement", "p50", &[]),
    ("From a change to its acknowledgement", "p99", &[]),
    ("Pushes and refusals", "pushed {{type}}", &[("type=listeners", Number(0.0))]),
    ("Pushes and refusals", "refused {{type}}", &[("type=listeners", Number(0.0))]),
    ("Gateways", "{{state}}", &[("state=connected", Number(1.0)), ("state=in_sync", Number(1.0))]),
    ("Gateways", "reporting", &[("", Number(0.0))]),
    (
        "Resources served",
        "{{type}}",
        &[
            ("type=clusters", Number(3.0)),
            ("type=endpoints", Number(1.0)),
            ("type=listeners", Number(1.0)),
            ("type=routes", Number(1.0)),
            ("type=secrets", Number(5.0)),
        ],
    ),
    ("Translation", "p99", &[]),
    // Of a control plane with --gateway-api.
    ("Conditions that are False", "{{kind}} {{condition}}", &[]),
    ("Gateway's own faults", "{{cluster}} {{reason}}", &[]),
    ("Reviews under way", "{{pod}} {{cluster}}", &[("pod=gateway-0", Number(0.0))]),
    ("Wait for reviews", "p50", &[("", Between(0.0, 1_000.0))]),
    ("Wait for reviews", "p99", &[("", Between(0.0, 1_000.0))]),
    (
        "Credentials remembered",
        "{{kind}}",
        &[("kind=certificates", Number(1.0)), ("kind=rejected_tokens", Number(1.0))],
    ),
    ("Work of the filter on a request", "p50", &[("", Between(1.0, 100_000.0))]),
    ("Work of the filter on a request", "p99", &[("", Between(1.0, 100_000.0))]),
    (
        "Answers of servers",
        "{{code}}",
        &[("code=200", Count(80.0)), ("code=404", Count(40.0)), ("code=500", Count(20.0))],
    ),
    ("Clients' connections", "{{pod}}", &[("pod=gateway-0", Number(2.0))]),
    ("Connections to servers", "{{pod}}", &[("pod=gateway-0", Between(1.0, 10.0))]),
    ("Requests under way", "{{pod}}", &[("pod=gateway-0", Number(2.0))]),
    ("Memory of Envoy", "{{pod}}", &[("pod=gateway-0", Between(1e6, 1e9))]),
    ("Retries", "{{envoy_cluster_name}}", &[("envoy_cluster_name=e2e/-/prod_example_com/all_h2", Count(1.0))]),
    ("Ejected servers", "{{envoy_cluster_name}}", &[("envoy_cluster_name=e2e/-/prod_example_com/all_h2", Number(0.0))]),
    ("Connections drained to spread clients", "{{trigger}}", &[]),
];

/// Whether a series carries labels that are written as `name=value name=value`.
fn carries((labels, _): &Sample, wanted: &str, server: &str) -> bool {
    let pairs = wanted.split_whitespace().filter_map(|pair| pair.split_once('='));
    let is =
        |name: &str, value: &str| labels.get(name).is_some_and(|own| own == if value == "@" { server } else { value });
    pairs.into_iter().all(|(name, value)| is(name, value))
}

/// Whether each expected series is there once, and every other one is without a value.
fn is_right(found: &[Sample], expected: &[(&str, Is)], server: &str) -> bool {
    let fits = |sample: &Sample, (labels, is): &(&str, Is)| carries(sample, labels, server) && is.holds(sample.1);
    let is_there = |one: &(&str, Is)| found.iter().filter(|sample| fits(sample, one)).count() == 1;
    let is_known =
        |sample: &Sample| sample.1.is_nan() || sample.1 == 0.0 || expected.iter().any(|one| fits(sample, one));
    expected.iter().all(is_there) && found.iter().all(is_known)
}

/// The panels that do not show what they should, and those without a row or a query.
fn wrong_panels(prometheus: &Prometheus, server: &str) -> Vec<String> {
    let queries = queries();
    let mut wrong = Vec::new();
    for (title, legend, expression) in &queries {
        let found = prometheus.query(&filled_in(expression)).unwrap();
        match SHOWN.iter().find(|(one, other, _)| one == title && other == legend) {
            Some((_, _, expected)) if is_right(&found, expected, server) => {}
            Some((_, _, expected)) => wrong.push(format!("{title}, {legend}: {found:?} is not {expected:?}")),
            None => wrong.push(format!("{title}, {legend} has no row: {found:?}")),
        }
    }
    let is_asked = |row: &&Row| queries.iter().any(|(title, legend, _)| *title == row.0 && *legend == row.1);
    wrong.extend(SHOWN.iter().filter(|row| !is_asked(row)).map(|row| format!("{}, {} is no query", row.0, row.1)));
    wrong
}

#[test]
fn dashboard_and_alerts_say_what_has_happened() {
    let Some((fixture, prometheus)) = start("dashboard") else { return };
    let alice = H2Client::connect(&fixture.gateway.target(NAME).identity(&fixture.pki.alice)).unwrap();
    let nobody = H2Client::connect(&fixture.gateway.target(NAME)).unwrap();
    let failing = Action::Respond { status: 500, headers: Vec::new(), body: String::new() };
    fixture.stub.fault(Fault::new(FAILING, failing));
    let is_counted = |answers: f64, requests: f64| {
        let counted = || [sum(&prometheus, "apiserver_request_total"), sum(&prometheus, "requests_total")];
        let expected = [answers, requests];
        let equal = || if counted() == expected { Ok(()) } else { Err(format!("{:?}, not {expected:?}", counted())) };
        wait::until_ok("Prometheus has the counts", SOON, equal).unwrap();
    };
    // Growth counts from a series' first sample on.
    for request in [PODS, SECRET, FAILING, EVENTS] {
        alice.get(request, &[]).unwrap();
    }
    nobody.get(PODS, &[("authorization", "Bearer not-a-token")]).unwrap();
    drop(alice.open("GET", WATCH, &[], b"").unwrap());
    is_counted(6.0, 6.0);

    fixture.stub.fault(Fault::new(PODS, Action::Delay { millis: 2_000 }).times(4));
    fixture.stub.fault(Fault::new(SECRET, Action::ResetStream { code: 7 }).times(1));
    let [own, strange] = mix(ROUNDS);
    for answer in alice.burst(own, 4).into_iter().chain(nobody.burst(strange, 1)) {
        answer.unwrap();
    }
    let _watches: Vec<_> = (0..2).map(|_| alice.open("GET", WATCH, &[], b"").unwrap()).collect();
    is_counted(166.0, 168.0);
    // A scrape may come between the counters of one publication: requests are counted then, and their durations are not.
    let shown = || {
        let wrong = wrong_panels(&prometheus, &fixture.stub.address().to_string());
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    };
    wait::until_ok("every panel shows what it should", SOON, shown).unwrap();
    // Without an agent there is no report.
    until_alerts(&prometheus, &["PortcullisNoReport", "PortcullisServersFail"], || {});

    let unreachable = fixture.manifest().set("/spec/servers", json!([{"endpoint": "https://127.0.0.1:9"}]));
    fixture.gateway.apply(&unreachable).unwrap();
    fixture.gateway.plane().process().kill();
    let expected = [
        "PortcullisControlPlaneAbsent",
        "PortcullisGatewayAlone",
        "PortcullisGatewayFails",
        "PortcullisNoHealthyServer",
        "PortcullisServersFail",
    ];
    until_alerts(&prometheus, &expected, || assert_eq!(alice.get(PODS, &[]).unwrap().status, 503));
}
