use std::sync::Arc;
use std::time::Duration;

use portcullis_filter_config::activity::{
    ClusterActivity, LATENCY_BOUNDS, Latency, LimitUse, MAX_POLICIES, PolicyActivity, ServerActivity, TopTalkers,
};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::observe::catalog::{DURATION_BOUNDS, Metric, MetricsSink};
use crate::observe::counters::CounterKey;
use crate::observe::talkers::Amounts;
use crate::observe::verb::ReportedVerb;
use crate::observe::{ClusterMetrics, Outcome, Publisher, RequestRecord, Response, Server};
use crate::refusal::Cause;
use crate::state_store::ProcessState;

struct Nowhere;

impl MetricsSink for Nowhere {
    fn add(&mut self, _metric: Metric, _labels: &[&str], _count: u64) {}

    fn set(&mut self, _metric: Metric, _labels: &[&str], _before: u64, _value: u64) {}
}

const NOW: Duration = Duration::from_secs(100);

/// A configuration of the cluster `prod` with these servers, a limit of requests in flight, and a token bucket.
fn compile(state: &ProcessState, servers: &[&str], policies: usize) -> Arc<ClusterMetrics> {
    let policy: Value = json!({"group": "all", "flowControlSchema": "slow", "rules": []});
    let config = json!({
        "version": 2, "name": "i/-/prod", "authorities": ["a"], "upstreamIdentity": "Impersonate",
        "servers": {"names": servers, "drainSeconds": 1},
        "flowControlSchemas": [
            {"name": "few", "limit": {"maxRequestsInflight": 3}},
            {"name": "slow", "limit": {"tokenBucket": {"qps": 1, "burst": 5}}},
        ],
        "policies": vec![policy; policies],
    });
    let cluster = Cluster::compile(&serde_json::from_value(config).unwrap(), &state.with_secret([0; 32])).unwrap();
    Arc::clone(cluster.series())
}

fn of_policy(policy: u32) -> CounterKey {
    CounterKey { policy, verb: ReportedVerb::List.code(), is_known: true, ..CounterKey::default() }
}

fn answer(metrics: &ClusterMetrics, server: Option<&str>, code: u16, milliseconds: u64) {
    let server = server.map(|name| Server::Named(name.as_bytes()));
    let duration = Some(Duration::from_millis(milliseconds));
    metrics.count_response(of_policy(1), &Response { code, server, duration, server_duration: None, bytes: None });
}

fn of_prod(state: &ProcessState) -> ClusterActivity {
    let mut all = state.activity(NOW);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn server(name: &str, answers: [u64; 6], buckets: &[(usize, u64)], sum: u64) -> ServerActivity {
    let mut latency = Latency { sum, ..Latency::default() };
    for (bucket, count) in buckets {
        latency.buckets[*bucket] = *count;
    }
    ServerActivity { server: name.to_owned(), answers, latency, in_flight: 0 }
}

#[test]
fn activity_has_the_bounds_of_the_metrics() {
    assert_eq!(LATENCY_BOUNDS, DURATION_BOUNDS.map(|(bound, _)| bound));
}

#[test]
fn activity_adds_up_what_is_published() {
    let state = ProcessState::default();
    let metrics = compile(&state, &["a:1", "b:1"], 2);
    for _ in 0..2 {
        metrics.count(of_policy(1), Outcome::Forwarded);
        metrics.count(of_policy(2), Outcome::Refused(Cause::FlowControl));
        metrics.count(of_policy(2), Outcome::Replaced(Cause::FlowControl));
        metrics.count(of_policy(0), Outcome::Refused(Cause::Unauthorized));
        // Half a second stays with the metrics, which grow in whole ones.
        answer(&metrics, Some("a:1"), 200, 1_500);
        answer(&metrics, Some("a:1"), 0, 3);
        answer(&metrics, Some("unknown:1"), 503, 70_000);
        answer(&metrics, None, 401, 3);
        metrics.publish(&mut Nowhere);
    }
    let running = state.with_secret([0; 32]);
    let places = crate::StateStore::in_flight(&running, "i/-/prod", "few");
    let place = places.acquire(3);
    assert!(place.is_some());
    let bucket =
        crate::StateStore::token_bucket(&running, "i/-/prod", "slow", crate::bucket::Rate { qps: 1, burst: 5 });
    assert!((0..5).all(|_| bucket.take(NOW - Duration::from_secs(2))));
    let policy = |policy: &str, forwarded, refused: &[(&str, u64)]| PolicyActivity {
        policy: policy.to_owned(),
        forwarded,
        refused: refused.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect(),
    };
    let expected = ClusterActivity {
        cluster: "prod".to_owned(),
        policies: vec![
            policy("-", 0, &[("unauthorized", 2)]),
            policy("0", 2, &[]),
            policy("1", 0, &[("flow_control", 4)]),
        ],
        servers: vec![
            server("-", [0, 0, 0, 0, 2, 0], &[], 0),
            server("a:1", [2, 0, 2, 0, 0, 0], &[(0, 2), (7, 2)], 3_006_000),
            server("other", [0, 0, 0, 0, 0, 2], &[(12, 2)], 140_000_000),
        ],
        limits: vec![
            LimitUse { schema: "few".to_owned(), used: 1, limit: 3, ..LimitUse::default() },
            LimitUse { schema: "slow".to_owned(), used: 3, limit: 5, rate: 1, refused: 2, ..LimitUse::default() },
        ],
        ..ClusterActivity::default()
    };
    assert_eq!(of_prod(&state), expected);
    let json = serde_json::to_vec(&expected).unwrap();
    assert_eq!(
        serde_json::from_slice::<ClusterActivity>(&json).unwrap(),
        expected,
        "fields that are left out come back"
    );
}

#[test]
fn activity_survives_edits_and_ends_with_the_cluster() {
    let state = ProcessState::default();
    let before = compile(&state, &["a:1", "b:1"], 1);
    before.count(of_policy(1), Outcome::Refused(Cause::FlowControl));
    answer(&before, Some("a:1"), 200, 1);
    answer(&before, Some("b:1"), 200, 1);
    before.publish(&mut Nowhere);
    let after = compile(&state, &["b:1", "c:1"], 1);
    // A request that began under the configuration before.
    answer(&before, Some("a:1"), 200, 1);
    before.publish(&mut Nowhere);
    drop(before);
    answer(&after, Some("b:1"), 200, 1);
    after.publish(&mut Nowhere);
    let activity = of_prod(&state);
    let of = |count| [0, 0, count, 0, 0, 0];
    let expected = [server("b:1", of(2), &[(0, 2)], 2_000), server("other", of(1), &[(0, 1)], 1_000)];
    assert_eq!(activity.servers, expected);
    assert_eq!(activity.limits[1].refused, 1);
    drop(after);
    assert_eq!(state.activity(NOW), []);
}

#[test]
fn policies_beyond_the_bound_count_together() {
    let state = ProcessState::default();
    let metrics = compile(&state, &[], 2_000);
    for policy in 0..=2_000 {
        metrics.count(of_policy(policy), Outcome::Forwarded);
        metrics.publish(&mut Nowhere);
        metrics.count(of_policy(policy), Outcome::Forwarded);
    }
    metrics.publish(&mut Nowhere);
    let policies = of_prod(&state).policies;
    assert_eq!(policies.len(), MAX_POLICIES + 2);
    let last = policies.last().unwrap();
    assert_eq!((&*last.policy, last.forwarded), ("other", 2 * (2_000 - MAX_POLICIES as u64)));
    assert!(policies.iter().rev().skip(1).all(|policy| policy.forwarded == 2), "what has its room keeps it");
}

#[test]
fn requests_of_no_cluster_have_their_activity() {
    let state = ProcessState::default();
    let publisher = Publisher::new(Some(state.unrouted()));
    publisher.count(None, &RequestRecord::default(), Outcome::Malformed);
    publisher.publish(&mut Nowhere);
    let activity = of_prod(&state);
    assert_eq!((&*activity.cluster, activity.policies.len()), ("-", 1));
}

/// The cluster `prod` as an object of that name has it.
fn of_object(state: &ProcessState, object: &str, servers: &[&str]) -> Cluster {
    let config = json!({
        "version": 2, "name": "i/-/prod", "object": object, "authorities": ["a"], "upstreamIdentity": "Impersonate",
        "servers": {"names": servers, "drainSeconds": 1}, "topTalkers": 10,
        "flowControlSchemas": [
            {"name": "few", "limit": {"maxRequestsInflight": 1}},
            {"name": "slow", "limit": {"tokenBucket": {"qps": 1, "burst": 1}}},
        ],
        "policies": [
            {"group": "all", "flowControlSchema": "few", "rules": []},
            {"group": "all", "flowControlSchema": "slow", "rules": []},
        ],
    });
    Cluster::compile(&serde_json::from_value(config).unwrap(), &state.with_secret([0; 32])).unwrap()
}

/// Requests of the first object still run when another tenant's takes the name.
#[test]
fn another_object_of_the_name_begins_without_counts_and_limits() {
    let state = ProcessState::default();
    let first = of_object(&state, "1", &["a:1"]);
    first.series().talkers().unwrap().count(
        Some(None),
        Some(b"alice-tool/1"),
        Amounts { requests: 1, ..Amounts::default() },
    );
    first.series().count(of_policy(1), Outcome::Refused(Cause::FlowControl));
    let running = first.series().start(of_policy(1), false);
    let (place, token) = (first.acquire(0, false, NOW), first.acquire(1, false, NOW));
    assert!(
        place.is_ok()
            && token.is_ok()
            && first.acquire(0, false, NOW).is_err()
            && first.acquire(1, false, NOW).is_err()
    );
    first.series().publish(&mut Nowhere);
    let of_first = of_prod(&state);
    assert!(of_first.running == 1 && !of_first.policies.is_empty(), "{of_first:?}");
    assert_eq!(of_first.top.unwrap().user_agents.len(), 1);
    let edited = of_object(&state, "1", &["b:1"]);
    assert_eq!(of_prod(&state).top.unwrap().user_agents.len(), 1, "an edit keeps them");

    let second = of_object(&state, "2", &["a:1"]);
    assert!(second.acquire(0, false, NOW).is_ok() && second.acquire(1, false, NOW).is_ok(), "the limits are its own");
    first.series().publish(&mut Nowhere);
    edited.series().publish(&mut Nowhere);
    let of_second = of_prod(&state);
    assert_eq!((of_second.running, of_second.policies.len(), &of_second.top), (0, 0, &Some(TopTalkers::default())));
    drop((first, edited, running));
    assert_eq!(of_prod(&state), of_second);
}
