//! Limits over edits: what keeps its state, what starts anew, and who takes a token.

use portcullis_filter_config::CountedRequests;
use portcullis_filter_config::FlowControlLimit::{MaxRequestsInflight, TokenBucket as Bucket};

use super::*;
use crate::bucket::{Rate, TokenBucket};
use crate::limit::InFlight;
use crate::review::CredentialCaches;
use crate::state_store::{CacheOwner, StateStore};
use crate::weak_map::WeakMap;

/// As a process remembers.
#[derive(Default)]
struct Process {
    running: WeakMap<(String, String), InFlight>,
    buckets: WeakMap<(String, String, Rate), TokenBucket>,
}

impl StateStore for Process {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        EphemeralState([7; 32]).caches(owner)
    }

    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight> {
        self.running.get_or_insert_with((cluster.into(), schema.into()), InFlight::default)
    }

    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket> {
        self.buckets.get_or_insert_with((cluster.into(), schema.into(), rate), || TokenBucket::new(rate))
    }
}

type Schemas<'a> = &'a [(&'a str, FlowControlLimit)];

/// A policy for each resource, counted under a schema.
type Policies<'a> = &'a [(&'a str, &'a str)];

const ONE: FlowControlLimit = Bucket { qps: 1, burst: 2 };
const PODS: Policies<'static> = &[("pods", "a")];

fn config(schemas: Schemas<'_>, policies: Policies<'_>) -> ClusterConfig {
    let mut config = plain_config(None);
    config.flow_control_schemas = schemas.iter().map(|(name, limit)| FlowControlSchema::local(name, *limit)).collect();
    let policy = |(resource, schema): &(&str, &str)| Policy {
        group: "all".into(),
        flow_control_schema: Some((*schema).into()),
        log: false,
        deny: None,
        rules: vec![Rule { resources: vec![(*resource).into()], non_resource_urls: vec![], ..all_rules() }],
    };
    config.policies = policies.iter().map(policy).collect();
    config
}

struct LimitedCluster {
    gateway: Gateway,
    process: Process,
    cluster: Cluster,
}

impl LimitedCluster {
    fn new(schemas: Schemas<'_>, policies: Policies<'_>) -> Self {
        let process = Process::default();
        let cluster = Cluster::compile(&config(schemas, policies), &process).unwrap();
        LimitedCluster { gateway: gateway(), process, cluster }
    }

    /// Compiles the new configuration while the old one is alive, as Envoy does.
    fn edit(&mut self, schemas: Schemas<'_>, policies: Policies<'_>) {
        self.cluster = Cluster::compile(&config(schemas, policies), &self.process).unwrap();
    }

    fn ask(&self, resource: &str, millis: u64) -> Decision<'_> {
        self.send(&[("x-none", "")], resource, millis)
    }

    fn send(&self, headers: Headers<'_>, resource: &str, millis: u64) -> Decision<'_> {
        let path = format!("/api/v1/namespaces/n/{resource}");
        let mut all = vec![(":method", "GET"), (":path", path.as_str()), (":authority", "prod.example.com")];
        all.extend_from_slice(headers);
        let scan =
            self.gateway.scan(Some(&self.cluster), all.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let (answers, uptime) = (ReviewAnswers::default(), Duration::from_millis(millis));
        let request = RequestContext { scan: &scan, peer: Peer::None, answers: &answers, now: now(), uptime };
        self.gateway.decide(&self.cluster, &request)
    }

    /// How many of five at once are let through.
    fn admitted(&self, resource: &str, millis: u64) -> usize {
        (0..5).filter(|_| matches!(self.ask(resource, millis), Decision::Forward(_))).count()
    }
}

#[test]
fn bucket_keeps_its_fill_over_every_edit_but_its_own() {
    let other = Bucket { qps: 7, burst: 7 };
    let edits: [(&str, Schemas<'_>, Policies<'_>); 7] = [
        ("nothing", &[("a", ONE)], PODS),
        ("another schema comes", &[("b", other), ("a", ONE)], PODS),
        ("another schema changes", &[("b", MaxRequestsInflight(3)), ("a", ONE)], PODS),
        ("a policy comes", &[("a", ONE)], &[("secrets", "b"), ("pods", "a")]),
        ("a second policy names it", &[("a", ONE)], &[("secrets", "a"), ("pods", "a")]),
        ("no policy names it", &[("a", ONE)], &[("secrets", "b")]),
        ("one names it again", &[("a", ONE)], PODS),
    ];
    let mut limited = LimitedCluster::new(&[("a", ONE)], PODS);
    assert_eq!(limited.admitted("pods", 0), 2);
    for (second, (what, schemas, policies)) in (1..).zip(edits) {
        limited.edit(schemas, policies);
        if policies.iter().any(|(resource, _)| *resource == "pods") {
            assert!(limited.admitted("pods", second * 1_000) <= 2, "{what}");
            assert_eq!(limited.admitted("pods", second * 1_000), 0, "{what}");
        }
        assert_eq!(limited.admitted("pods", second * 1_000 + 999), 0, "{what}");
    }
}

#[test]
fn edit_of_another_schema_every_second_admits_no_more() {
    let mut limited = LimitedCluster::new(&[("a", ONE), ("b", MaxRequestsInflight(1))], PODS);
    let mut admitted = 0;
    for second in 0..60 {
        let limit = if second % 2 == 0 { Bucket { qps: 1, burst: second + 1 } } else { MaxRequestsInflight(second) };
        limited.edit(&[("b", limit), ("a", ONE)], PODS);
        admitted +=
            (0..10).map(|tenth| limited.admitted("pods", u64::from(second) * 1_000 + tenth * 100)).sum::<usize>();
    }
    // The burst of 2 at first, and one for each further second.
    assert_eq!(admitted, 2 + 59);
}

#[test]
fn changed_bucket_starts_full() {
    let faster = Bucket { qps: 1, burst: 4 };
    for (what, between, then, expected) in [
        ("another rate", faster, faster, 4),
        ("requests in flight between", MaxRequestsInflight(1), ONE, 2),
        ("another rate between", faster, ONE, 2),
    ] {
        let mut limited = LimitedCluster::new(&[("a", ONE)], PODS);
        assert_eq!(limited.admitted("pods", 0), 2);
        limited.edit(&[("a", between)], PODS);
        limited.edit(&[("a", then)], PODS);
        assert_eq!(limited.admitted("pods", 0), expected, "{what}");
    }
    let mut limited = LimitedCluster::new(&[("a", ONE)], PODS);
    assert_eq!(limited.admitted("pods", 0), 2);
    limited.edit(&[], PODS);
    assert_eq!(limited.admitted("pods", 0), 5, "a schema that is gone, or exempt, limits nothing");
}

#[test]
fn running_requests_count_over_a_change_of_kind_and_back() {
    let mut limited = LimitedCluster::new(&[("a", MaxRequestsInflight(1))], PODS);
    let take = |limited: &LimitedCluster| match limited.ask("pods", 0) {
        Decision::Forward(mut forward) => forward.permit.take(),
        _ => None,
    };
    let place = take(&limited);
    assert!(place.is_some());
    assert!(take(&limited).is_none());
    limited.edit(&[("a", ONE)], PODS);
    assert_eq!(limited.admitted("pods", 0), 2, "the bucket counts for itself");
    limited.edit(&[], &[]);
    limited.edit(&[("a", MaxRequestsInflight(1))], PODS);
    assert_eq!(limited.admitted("pods", 0), 0, "who ran before still runs");
    drop(place);
    assert_eq!(limited.admitted("pods", 0), 5);
}

#[test]
fn schema_is_shared_by_policies_and_not_by_clusters() {
    let two: Policies<'_> = &[("pods", "a"), ("secrets", "a"), ("nodes", "b")];
    let limited = LimitedCluster::new(&[("a", ONE), ("b", ONE)], two);
    assert_eq!(limited.admitted("pods", 0), 2);
    assert_eq!(limited.admitted("secrets", 0), 0);
    assert_eq!(limited.admitted("nodes", 0), 2, "equal numbers under another name");
    let mut other = config(&[("a", ONE)], PODS);
    other.name = "lab/-/other.example.com".into();
    let other = Cluster::compile(&other, &limited.process).unwrap();
    let limited = LimitedCluster { cluster: other, ..limited };
    assert_eq!(limited.admitted("pods", 0), 2);
}

#[test]
fn bucket_outlives_its_cluster_while_it_is_used() {
    let limited = LimitedCluster::new(&[("a", ONE)], PODS);
    assert_eq!(limited.admitted("pods", 0), 2);
    let again = Cluster::compile(&config(&[("a", ONE)], PODS), &limited.process).unwrap();
    // Streams of the removed cluster still hold its configuration.
    let LimitedCluster { gateway, process, cluster: draining } = limited;
    let limited = LimitedCluster { gateway, process, cluster: again };
    assert_eq!(limited.admitted("pods", 0), 0);
    drop(draining);
    let LimitedCluster { gateway, process, cluster } = limited;
    drop(cluster);
    let cluster = Cluster::compile(&config(&[("a", ONE)], PODS), &process).unwrap();
    assert_eq!(LimitedCluster { gateway, process, cluster }.admitted("pods", 0), 2);
}

#[test]
fn request_refused_for_another_reason_takes_no_token() {
    let limited = LimitedCluster::new(&[("a", ONE)], PODS);
    let refused: [Headers<'_>; 4] = [
        &[("via", "1.1 lab")],
        &[("impersonate-user", "bob")],
        &[("authorization", "Bearer abc")],
        &[("connection", "xupgrade"), ("upgrade", "websocket")],
    ];
    for headers in refused.into_iter().cycle().take(40) {
        assert!(matches!(limited.send(headers, "pods", 0), Decision::Refuse(_)), "{headers:?}");
    }
    assert!(matches!(limited.ask("secrets", 0), Decision::Refuse(_)), "no policy");
    assert_eq!(limited.admitted("pods", 0), 2);

    let mut closed = config(&[("a", ONE)], PODS);
    closed.deny_all_requests = true;
    let opened = LimitedCluster {
        cluster: Cluster::compile(&closed, &limited.process).unwrap(),
        ..LimitedCluster::new(&[], &[])
    };
    assert_eq!(opened.admitted("pods", 10_000), 0);
    assert_eq!(limited.admitted("pods", 10_000), 2, "a closed cluster spends nothing");
}

#[test]
fn status_429_says_when_to_come_back_except_to_events() {
    let none = Bucket { qps: 1, burst: 0 };
    let everything: Policies<'_> = &[("*", "a")];
    for limit in [none, MaxRequestsInflight(0)] {
        let limited = LimitedCluster::new(&[("a", limit)], everything);
        for (resource, path, retry_after) in
            [("pods", "", Some(1)), ("events", "", None), ("events", "/one", None), ("eventsources", "", Some(1))]
        {
            let Decision::Refuse(refusal) = limited.ask(&format!("{resource}{path}"), 0) else { panic!("{resource}") };
            assert_eq!((refusal.code, refusal.cause), (429, Cause::FlowControl), "{resource}");
            assert_eq!(refusal.retry_after, retry_after, "{resource}{path}");
            assert_eq!(refusal.body().contains("retryAfterSeconds"), retry_after.is_some(), "{resource}");
        }
    }
}

#[test]
fn schema_counts_the_requests_that_it_is_for() {
    let many = |path: &str, counts: CountedRequests| {
        let mut config = config(&[("a", Bucket { qps: 0, burst: 2 })], PODS);
        config.flow_control_schemas[0].counts = counts;
        let limited = LimitedCluster {
            gateway: gateway(),
            process: Process::default(),
            cluster: Cluster::compile(&config, &Process::default()).unwrap(),
        };
        limited.admitted(path, 0)
    };
    for (counts, requests, watches) in
        [(CountedRequests::All, 2, 2), (CountedRequests::Requests, 2, 5), (CountedRequests::Watches, 5, 2)]
    {
        assert_eq!((many("pods", counts), many("pods?watch=1", counts)), (requests, watches), "{counts:?}");
    }
}
