//! Series of edited, replaced and busy clusters, as a proxy gets them.

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

use super::catalog::{Metric, MetricsSink};
use super::counters::CounterKey;
use super::verb::{ReportedVerb, Scope};
use super::{ClusterMetrics, Outcome, Publisher, RequestRecord, Response, Server};
use crate::cluster::Cluster;
use crate::refusal::Cause;
use crate::request_info::RequestInfo;
use crate::state_store::ProcessState;

/// The most series that one cluster has of an untouched budget.
const SHARE: usize = 13_107;
/// Series that need no room: those of what has none, and a few gauges.
const ALWAYS: usize = 80;
const PATIENCE: Duration = Duration::from_secs(60);

/// A proxy's series, by name and labels, and the sum of all counts.
#[derive(Debug, Default)]
struct Series {
    names: BTreeSet<String>,
    requests: u64,
    calls: usize,
}

impl MetricsSink for Series {
    fn add(&mut self, metric: Metric, labels: &[&str], count: u64) {
        self.names.insert(format!("{} {}", metric.name, labels.join(",")));
        self.requests += if metric.name == "requests_total" { count } else { 0 };
        self.calls += 1;
    }

    fn set(&mut self, metric: Metric, labels: &[&str], _before: u64, _value: u64) {
        self.names.insert(format!("{} {}", metric.name, labels.join(",")));
        self.calls += 1;
    }
}

/// A configuration of the cluster that names resources, schemas and a server with this number.
fn compile(state: &ProcessState, cluster: &str, edit: usize, resources: usize) -> Arc<ClusterMetrics> {
    let names: Vec<Value> = (0..resources).map(|number| json!(name(edit, number))).collect();
    let schemas: Vec<Value> = (0..50)
        .map(|number| json!({"name": format!("s{edit}-{number}"), "limit": {"maxRequestsInflight": 3}}))
        .collect();
    let config = json!({
        "version": 2, "name": format!("i/-/{cluster}"), "authorities": ["a"], "upstreamIdentity": "Impersonate",
        "servers": {"names": [format!("10.0.{edit}.1:6443")], "drainSeconds": 1},
        "flowControlSchemas": schemas,
        "policies": [{"group": "all", "flowControlSchema": format!("s{edit}-0"), "rules": [{"resources": names}]}],
    });
    let cluster = Cluster::compile(&serde_json::from_value(config).unwrap(), &state.with_secret([0; 32])).unwrap();
    Arc::clone(cluster.series())
}

fn name(edit: usize, number: usize) -> String {
    format!("r{edit}-{number}")
}

/// The record of an authenticated client's list of this resource.
fn list(metrics: &ClusterMetrics, resource: &str) -> RequestRecord {
    let info = RequestInfo { is_resource: true, resource: resource.as_bytes(), ..RequestInfo::default() };
    let (verb, scope) = (ReportedVerb::List.code(), Scope::Cluster.code());
    let resource = metrics.counts.resources.code(&info);
    let mut record = RequestRecord::default();
    record.key = CounterKey { policy: 1, verb, scope, resource, is_known: true, outcome: 0 };
    record
}

/// Counts a list of this resource that a server answers, and a watch of it while it lasts.
fn request(publisher: &Publisher, metrics: &Arc<ClusterMetrics>, resource: &str, edit: usize) {
    let server = format!("10.0.{edit}.1:6443");
    let second = Some(Duration::from_secs(1));
    let response = Response {
        code: 200,
        server: Some(Server::Named(server.as_bytes())),
        duration: second,
        server_duration: second,
        bytes: Some(9),
    };
    let record = list(metrics, resource);
    publisher.count(Some(metrics), &record, Outcome::Forwarded);
    publisher.count_response(Some(metrics), &record, &response);
}

fn publish(publisher: &Publisher, series: &mut Series) {
    while !publisher.publish(series) {}
}

#[test]
fn edits_of_one_cluster_stay_within_its_share() {
    let (state, publisher, mut series) = (ProcessState::default(), Publisher::default(), Series::default());
    for edit in 0..50 {
        let metrics = compile(&state, "prod", edit, 400);
        let watches: Vec<_> =
            (0..400).map(|number| metrics.start(list(&metrics, &name(edit, number)).key, true)).collect();
        (0..400).for_each(|number| request(&publisher, &metrics, &name(edit, number), edit));
        publish(&publisher, &mut series);
        drop(watches);
    }
    assert!(series.names.len() <= SHARE + ALWAYS, "{}", series.names.len());
    assert!(series.names.len() > SHARE / 2, "{}", series.names.len());
    assert_eq!(series.requests, 50 * 400, "and every request counts");

    let next = compile(&state, "next", 0, 400);
    (0..100).for_each(|number| request(&publisher, &next, &name(0, number), 0));
    publish(&publisher, &mut series);
    let has_own = |number| {
        series
            .names
            .contains(&format!("apiserver_request_total next,10.0.0.1:6443,LIST,{},,cluster,200", name(0, number)))
    };
    assert!((0..100).all(has_own), "another cluster has its details");
}

#[test]
fn gauges_of_many_configurations_in_use_are_those_of_the_newest() {
    let (state, publisher) = (ProcessState::default(), Publisher::default());
    let held: Vec<_> = (0..100)
        .map(|edit| {
            let metrics = compile(&state, "prod", edit, 1);
            request(&publisher, &metrics, &name(edit, 0), edit);
            metrics
        })
        .collect();
    publish(&publisher, &mut Series::default());
    let mut gauges = Gauges::default();
    request(&publisher, &held[99], &name(99, 0), 99);
    publish_gauges(&publisher, &mut gauges);
    assert_eq!(gauges.0, Vec::<String>::new(), "nothing has changed");
    let watch = held[0].start(list(&held[0], &name(0, 0)).key, true);
    publish_gauges(&publisher, &mut gauges);
    assert_eq!(
        gauges.0,
        ["apiserver_longrunning_requests prod,LIST,r0-0,,cluster 1"],
        "a former configuration's watch shows"
    );
    drop((watch, held));
    let _last = compile(&state, "prod", 100, 1);
    publish_gauges(&publisher, &mut gauges);
    assert!(gauges.0.iter().any(|gauge| gauge.contains("s99-0") && gauge.ends_with(" 0")), "{:?}", gauges.0);
}

/// Changes of gauges.
#[derive(Debug, Default)]
struct Gauges(Vec<String>);

impl MetricsSink for Gauges {
    fn add(&mut self, _metric: Metric, _labels: &[&str], _count: u64) {}

    fn set(&mut self, metric: Metric, labels: &[&str], _before: u64, value: u64) {
        self.0.push(format!("{} {} {value}", metric.name, labels.join(",")));
    }
}

fn publish_gauges(publisher: &Publisher, gauges: &mut Gauges) {
    gauges.0.clear();
    while !publisher.publish(gauges) {}
}

#[test]
fn labels_cost_nothing_after_an_edit() {
    let (state, publisher, mut series) = (ProcessState::default(), Publisher::default(), Series::default());
    let mut used = Vec::new();
    for _ in 0..3 {
        let metrics = compile(&state, "prod", 0, 50);
        (0..50).for_each(|number| request(&publisher, &metrics, &name(0, number), 0));
        publish(&publisher, &mut series);
        used.push((metrics.counts.ledger.used(), series.names.len()));
    }
    assert!(used[0].0 > 50 * 20 && used.iter().all(|one| *one == used[0]), "{used:?}");

    // Also where there is no room for others any more.
    let other = compile(&state, "prod", 1, 1_000);
    (0..1_000).for_each(|number| request(&publisher, &other, &name(1, number), 1));
    let again = compile(&state, "prod", 0, 50);
    publish(&publisher, &mut series);
    assert!(again.counts.ledger.used() > 13_000);
    (0..50).for_each(|number| request(&publisher, &again, &name(0, number), 0));
    let mut last = Series::default();
    publish(&publisher, &mut last);
    assert!(!last.names.iter().any(|name| name.starts_with("apiserver_request_total") && name.contains("other")));
    assert!(last.names.is_subset(&series.names));
}

#[test]
fn series_come_back_with_the_listener_that_made_them() {
    let (state, publisher, mut series) = (ProcessState::default(), Publisher::default(), Series::default());
    let fill = |publisher: &Publisher, series: &mut Series| {
        let metrics = compile(&state, "prod", 0, 1_000);
        (0..1_000).for_each(|number| request(publisher, &metrics, &name(0, number), 0));
        publish(publisher, series);
        metrics.counts.ledger.used()
    };
    let used = fill(&publisher, &mut series);
    publish(&publisher, &mut series);
    assert_eq!(
        compile(&state, "prod", 0, 1).counts.ledger.used(),
        used,
        "the configuration is gone, the series are not"
    );
    drop(publisher);
    assert_eq!(compile(&state, "prod", 0, 1).counts.ledger.used(), 0);
    assert_eq!(fill(&Publisher::default(), &mut series), used);
}

#[test]
fn replaced_metrics_are_released_by_every_publisher() {
    let (state, mut series) = (ProcessState::default(), Series::default());
    let publishers = [Publisher::default(), Publisher::default()];
    let metrics = compile(&state, "prod", 0, 1);
    let counts = Arc::downgrade(&metrics.counts);
    for publisher in &publishers {
        request(publisher, &metrics, "r0-0", 0);
        publish(publisher, &mut series);
    }
    request(&publishers[0], &metrics, "r0-0", 0);
    drop(metrics);
    publishers.iter().for_each(|publisher| publish(publisher, &mut series));
    assert_eq!((counts.strong_count(), series.requests), (0, 3));
}

/// Waits in the middle of a call, as a proxy that is busy does.
struct Blocking {
    begun: mpsc::Sender<()>,
    end: mpsc::Receiver<()>,
    is_blocked: bool,
}

impl MetricsSink for Blocking {
    fn add(&mut self, _metric: Metric, _labels: &[&str], _count: u64) {
        if !std::mem::replace(&mut self.is_blocked, true) {
            self.begun.send(()).unwrap();
            self.end.recv_timeout(PATIENCE).unwrap();
        }
    }

    fn set(&mut self, _metric: Metric, _labels: &[&str], _before: u64, _value: u64) {}
}

#[test]
fn counting_goes_on_while_the_proxy_takes_counts() {
    let state = ProcessState::default();
    let publisher = Publisher::new(Some(state.unrouted()));
    let (metrics, other) = (compile(&state, "prod", 0, 20), compile(&state, "other", 0, 20));
    request(&publisher, &metrics, "r0-0", 0);
    let ((begun, has_begun), (end, is_over)) = (mpsc::channel(), mpsc::channel());
    let (counted, is_counted) = mpsc::channel();
    std::thread::scope(|scope| {
        let publisher = &publisher;
        scope.spawn(move || publisher.publish(&mut Blocking { begun, end: is_over, is_blocked: false }));
        has_begun.recv_timeout(PATIENCE).unwrap();
        scope.spawn(move || {
            for number in 0..20 {
                // Known and new labels of a known cluster, and an unknown cluster.
                request(publisher, &metrics, &name(0, number), 0);
                request(publisher, &other, &name(0, number), 0);
                publisher.count(None, &RequestRecord::default(), Outcome::Malformed);
            }
            counted.send(()).unwrap();
        });
        let counted = is_counted.recv_timeout(PATIENCE);
        end.send(()).unwrap();
        counted.unwrap();
    });
    let mut series = Series::default();
    publish(&publisher, &mut series);
    assert_eq!(series.requests, 60);
}

#[test]
fn publisher_writes_in_steps() {
    let (state, publisher, mut series) = (ProcessState::default(), Publisher::default(), Series::default());
    let metrics = compile(&state, "prod", 0, 400);
    (0..400).for_each(|number| request(&publisher, &metrics, &name(0, number), 0));
    let (mut steps, mut most) = (1, 0);
    while !publisher.publish(&mut series) {
        // Counts between two steps wait for their turn.
        request(&publisher, &metrics, &name(0, 0), 0);
        (steps, most) = (steps + 1, most.max(series.calls));
        series.calls = 0;
    }
    assert!((10..100).contains(&steps) && most < 1_050, "{steps} steps of {most}");
    publish(&publisher, &mut series);
    assert_eq!(series.requests, 400 + steps - 1);
}

#[test]
fn failures_of_the_gateway_show_without_room() {
    let (state, publisher, mut series) = (ProcessState::default(), Publisher::default(), Series::default());
    let metrics = compile(&state, "prod", 0, 1_000);
    (0..1_000).for_each(|number| request(&publisher, &metrics, &name(0, number), 0));
    let answer = |code, server| {
        let record = list(&metrics, &name(0, 999));
        let response = Response { code, server, duration: None, server_duration: None, bytes: None };
        publisher.count(Some(&metrics), &record, Outcome::Refused(Cause::Internal));
        publisher.count_response(Some(&metrics), &record, &response);
    };
    answer(503, None);
    answer(503, Some(Server::Missing));
    answer(500, Some(Server::Named(b"10.0.0.1:6443")));
    publish(&publisher, &mut series);
    for expected in [
        "apiserver_request_total prod,-,other,other,,,5xx",
        "apiserver_request_total prod,none,other,other,,,5xx",
        "apiserver_request_total prod,other,other,other,,,5xx",
        "apiserver_request_duration_seconds_count (other),other,other,,",
        "server_duration_seconds_count (other),other,other",
        "requests_total prod,other,other,,-,-,refused,internal",
    ] {
        assert!(series.names.contains(expected), "{expected}");
    }
}
