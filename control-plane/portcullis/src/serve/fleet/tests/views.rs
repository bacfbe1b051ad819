use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::status::{ConditionType, GatewayEntry, Health, State, Timestamp, UnhealthyServer};
use portcullis_filter_config::activity::{ClusterActivity, LimitUse, PolicyActivity, Talker, TopTalkers};
use serde_json::json;

use super::super::activity::GatewayActivity;
use super::super::cluster_view::cluster_view;
use super::super::fleet_view::{fleet_view, rates_by_cluster};
use super::super::history::Histories;
use super::super::inputs::Inputs;
use super::super::served_objects::{ServedObjectCache, ServedObjects};
use super::super::transitions::Transitions;
use super::super::view::{ClusterView, FleetView, Severity};
use super::{Agent, Clock, START, activity, cluster, object, status, take};
use crate::serve::status::{NodeReport, StatusBody};

/// A fleet of two gateways here and one at another replica, and the activity of the cluster `a`.
struct World {
    clock: Clock,
    status: StatusBody,
    served: ServedObjects,
    activity: GatewayActivity,
}

fn node(id: &str, connected: bool) -> NodeReport {
    NodeReport {
        id: id.to_owned(),
        connected,
        types: BTreeMap::new(),
        in_sync: connected,
        view: None,
        refused: Vec::new(),
    }
}

fn health(healthy: u32, unhealthy: &[&str]) -> Health {
    let server = |server: &&str| UnhealthyServer {
        server: (*server).to_owned(),
        reason: "Ejected".to_owned(),
        since: Timestamp::from_seconds(START - 5),
    };
    Health { healthy, total: 3, unhealthy: unhealthy.iter().map(server).collect() }
}

fn document() -> serde_json::Value {
    json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a"},
        "spec": {
            "servers": [
                {"endpoint": "https://10.0.0.1:6443"}, {"endpoint": "https://10.0.0.2"},
                {"endpoint": "https://10.0.0.9:6443", "disabled": true},
            ],
            "clientConfig": {"bearerToken": "c2VjcmV0", "insecure": true},
            "flowControl": {"flowControlSchemas": [{"name": "reads", "maxRequestsInflight": {"max": 10}}]},
            "dispatchPolicies": [
                {"rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "users": ["al\u{1b}ice"]}]},
                {"rules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]},
            ],
            "portcullis": {"servers": [{"endpoint": "https://10.0.0.2", "zone": "east", "weight": 3}]},
        },
    })
}

impl World {
    fn new() -> Self {
        let mut status = status(vec![
            object("b", &[]),
            object("a", &[(ConditionType::Ready, State::True, "SomeUnhealthy", "one is not")]),
            object("c", &[(ConditionType::Ready, State::False, "NoHealthyEndpoints", "dead")]),
        ]);
        status.nodes = Arc::new(vec![node("n1", true), node("n2", false), node("n2", true), node("old", false)]);
        let of_a =
            [("n1", health(3, &[])), ("n2", health(2, &["10.0.0.1:6443"])), ("n3", health(2, &["10.0.0.1:6443"]))];
        let of_a = Arc::new(of_a.map(|(node, health)| (node.to_owned(), health)).into());
        let of_c = Arc::new(BTreeMap::from([("n1".to_owned(), health(0, &[]))]));
        let endpoints = BTreeMap::from([("lab/-/a/all.h2".into(), of_a), ("lab/-/c/all.h2".into(), of_c)]);
        status.endpoints = Arc::new(endpoints);
        let documents = BTreeMap::from([("a".to_owned(), Arc::new(document()))]);
        let served = ServedObjectCache::default().read("lab", &documents);
        Self { clock: Clock::new(), status, served, activity: GatewayActivity::default() }
    }

    /// Ten seconds of activity of `a` at two gateways, in two reports.
    fn report(&mut self) {
        let mut agents = [("n1", Agent::default(), 1), ("n3", Agent::default(), 2)];
        for turn in 0..2 {
            for (node, agent, weight) in &mut agents {
                let counts = Self::counts(turn * *weight);
                take(&mut self.activity, node, agent.parts(&activity(1, vec![counts])), self.clock.at(turn * 10));
            }
        }
    }

    fn counts(turn: u64) -> ClusterActivity {
        let refused = vec![("flow_control".to_owned(), turn * 10), ("denied".to_owned(), turn * 20)];
        let policy =
            |policy: &str, forwarded, refused| PolicyActivity { policy: policy.to_owned(), forwarded, refused };
        let talker = |name: &str, requests| Talker { name: name.to_owned(), requests, error: 1, ..Talker::default() };
        ClusterActivity {
            policies: vec![policy("0", turn * 100, refused), policy("-", 0, vec![("no_policy".to_owned(), turn * 10)])],
            limits: vec![LimitUse {
                schema: "reads".to_owned(),
                used: 4,
                limit: 10,
                rate: 0,
                refused: turn * 10,
                local: true,
                shared: true,
            }],
            running: 5,
            watches: 7,
            sessions: 1,
            top: Some(TopTalkers { users: vec![talker("alice", 3), talker("bob", turn * 9)], ..TopTalkers::default() }),
            ..cluster(
                "a",
                &[("10.0.0.1:6443", turn * 90, turn * 10), ("10.0.0.2:443", turn * 300, 0), ("-", 0, turn * 20)],
            )
        }
    }

    fn inputs(&self, seconds: u64) -> Inputs<'_> {
        Inputs { status: &self.status, served: &self.served, activity: &self.activity, now: self.clock.moment(seconds) }
    }

    fn fleet(&self) -> FleetView {
        fleet_view(self.inputs(12))
    }

    fn cluster(&self, name: &str) -> Option<ClusterView> {
        cluster_view(self.inputs(12), name, &Histories::default(), &Transitions::default())
    }
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
}

#[test]
fn fleet_lists_clusters_worst_first_and_all_gateways() {
    let mut world = World::new();
    world.report();
    let view = world.fleet();
    assert_eq!((view.instance.as_str(), view.time), ("lab", START + 12));
    let clusters: Vec<_> = view.clusters.iter().map(|one| (one.name.as_str(), one.severity)).collect();
    assert_eq!(clusters, [("c", Severity::Critical), ("a", Severity::Warning), ("b", Severity::Good)]);
    let gateways: Vec<_> = view
        .gateways
        .iter()
        .map(|one| (one.node.as_str(), one.connected, one.in_sync, one.reported_seconds_ago))
        .collect();
    let expected = [
        ("n1", true, true, Some(2)),
        ("n2", true, false, None),
        ("n3", true, true, Some(2)),
        ("old", false, false, None),
    ];
    assert_eq!(gateways, expected);
    assert_eq!(view.gateways[0].uptime_seconds, 62);
    let a = &view.clusters[1];
    assert_eq!((a.message.as_str(), a.healthy_servers, a.servers), ("one is not", 2, 3));
    let (warning, good) = (Some(Severity::Warning), Some(Severity::Good));
    // 10 of 400 are errors at both that report; the gateway's own refusals have no part.
    assert_eq!(a.by_gateway, [warning, warning, warning, None]);
    assert_eq!(view.clusters[2].by_gateway, [None; 4]);
    near(a.numbers.requests_per_second, 3.0 * 42.0);
    near(a.numbers.errors_per_second, 3.0);
    near(a.numbers.refusals_per_second, 3.0 * 4.0);
    assert_eq!((a.numbers.running, a.numbers.watches, a.numbers.sessions), (10, 14, 2));
    near(view.gateways[0].numbers.requests_per_second, 42.0);
    near(view.gateways[2].numbers.requests_per_second, 84.0);
    let rates = rates_by_cluster(&world.inputs(12));
    near(rates["a"].answers, 126.0);
    assert_eq!(good, Some(Severity::default()));
}

#[test]
fn gateway_elsewhere_is_in_sync_unless_an_object_waits_for_it() {
    let mut world = World::new();
    let entry = GatewayEntry { name: "n3".to_owned(), state: "Pending".to_owned(), ..GatewayEntry::default() };
    let mut waiting = object("b", &[]);
    waiting.status.gateways = vec![entry];
    world.status.objects = status(vec![waiting]).objects;
    let view = world.fleet();
    let gateway = view.gateways.iter().find(|one| one.node == "n3").unwrap();
    assert_eq!((gateway.connected, gateway.in_sync), (true, false));
}

#[test]
fn server_is_unhealthy_as_soon_as_one_pool_finds_it_so() {
    let mut world = World::new();
    let server = |server: &str, reason: &str, since| UnhealthyServer {
        server: server.to_owned(),
        reason: reason.to_owned(),
        since: Timestamp::from_seconds(since),
    };
    let of_policy = [
        ("n1", vec![server("10.0.0.2:443", "HealthCheckTimedOut", START - 1)]),
        ("n2", vec![server("10.0.0.1:6443", "HealthCheckFailed", START - 7)]),
        ("n3", vec![server("10.0.0.1:6443", "HealthCheckFailed", START - 1)]),
    ];
    let of_policy = of_policy.map(|(node, unhealthy)| (node.to_owned(), Health { healthy: 0, total: 1, unhealthy }));
    Arc::make_mut(&mut world.status.endpoints).insert("lab/-/a/policy.h2".into(), Arc::new(of_policy.into()));
    let view = world.cluster("a").unwrap();
    let unhealthy: Vec<_> = view.servers.iter().flat_map(|one| one.unhealthy.iter().map(move |at| (one, at))).collect();
    let unhealthy =
        unhealthy.iter().map(|(one, at)| (one.server.as_str(), at.node.as_str(), at.reason.as_str(), at.since));
    let expected = [
        ("10.0.0.1:6443", "n2", "HealthCheckFailed", START - 7),
        ("10.0.0.1:6443", "n3", "Ejected", START - 5),
        ("10.0.0.2:443", "n1", "HealthCheckTimedOut", START - 1),
    ];
    assert_eq!(unhealthy.collect::<Vec<_>>(), expected);
}

#[test]
fn cluster_shows_servers_policies_limits_and_clients() {
    let mut world = World::new();
    world.report();
    let view = world.cluster("a").unwrap();
    let servers: Vec<_> =
        view.servers.iter().map(|one| (one.server.as_str(), one.zone.as_deref(), one.weight)).collect();
    let wanted = [("-", None, None), ("10.0.0.1:6443", None, Some(1)), ("10.0.0.2:443", Some("east"), Some(3))];
    assert_eq!(servers, wanted);
    near(view.servers[1].share, 0.25);
    near(view.servers[2].share, 0.75);
    near(view.servers[0].share, 0.0);
    near(
        view.servers.iter().map(|one| one.numbers.requests_per_second).sum(),
        view.summary.numbers.requests_per_second,
    );
    let unhealthy: Vec<_> = view.servers[1].unhealthy.iter().map(|at| (at.node.as_str(), at.since)).collect();
    assert_eq!(unhealthy, [("n2", START - 5), ("n3", START - 5)]);
    let policies: Vec<_> = view.policies.iter().map(|one| (one.policy.as_str(), one.rule.as_str())).collect();
    assert_eq!(policies, [("0", "get,list pods by al\u{fffd}ice"), ("1", "* *"), ("-", "")]);
    near(view.policies[0].forwarded_per_second, 30.0);
    let reasons: Vec<_> = view.policies[0].refused_per_second.iter().map(|(reason, _)| reason.as_str()).collect();
    assert_eq!(reasons, ["denied", "flow_control"], "most first");
    near(view.policies[0].refused_per_second[0].1, 6.0);
    let refused = view.policies.iter().flat_map(|one| &one.refused_per_second).map(|(_, rate)| rate).sum::<f64>();
    near(refused, view.summary.numbers.refusals_per_second);
    let limit = &view.limits[0];
    let at: Vec<_> = limit.by_gateway.iter().map(|at| (at.node.as_str(), at.used, at.limit, at.local)).collect();
    assert_eq!((limit.schema.as_str(), at), ("reads", vec![("n1", 4, 10, true), ("n3", 4, 10, true)]));
    near(limit.refused_per_second, 3.0);
    let users: Vec<_> = view.top.unwrap().users.into_iter().map(|one| (one.name, one.requests, one.error)).collect();
    assert_eq!(users, [("bob".to_owned(), 27, 2), ("alice".to_owned(), 6, 2)]);
}

#[test]
fn cluster_without_activity_shows_what_the_object_says() {
    let view = World::new().cluster("a").unwrap();
    assert_eq!(view.servers.len(), 2);
    assert_eq!(view.policies.len(), 2);
    assert_eq!((view.limits[0].schema.as_str(), view.limits[0].by_gateway.len()), ("reads", 0));
    assert!(view.top.is_none());
    assert!(World::new().cluster("unknown").is_none());
}

#[test]
fn requests_without_a_cluster_have_a_line_of_their_own() {
    let mut world = World::new();
    assert!(world.fleet().clusters.iter().all(|one| one.name != "-"));
    let mut agent = Agent::default();
    for turn in 0..2 {
        let counts = ClusterActivity { running: 1, ..cluster("-", &[("-", turn * 10, 0)]) };
        take(&mut world.activity, "n1", agent.parts(&activity(1, vec![counts])), world.clock.at(turn * 10));
    }
    let view = world.fleet();
    let line = view.clusters.iter().find(|one| one.name == "-").unwrap();
    near(line.numbers.requests_per_second, 1.0);
    near(view.gateways[0].numbers.requests_per_second, 1.0);
    assert!(world.cluster("-").is_some());
}

#[test]
fn served_objects_hold_no_key_and_are_read_once() {
    let mut cache = ServedObjectCache::default();
    let documents = BTreeMap::from([("a".to_owned(), Arc::new(document()))]);
    let first = cache.read("lab", &documents);
    assert!(!format!("{first:?}").contains("secret"));
    let again = BTreeMap::from([("a".to_owned(), Arc::new(document()))]);
    let second = cache.read("lab", &again);
    assert!(Arc::ptr_eq(&first.by_name["a"], &second.by_name["a"]), "an equal document is not read again");
    let mut other = document();
    other["spec"]["dispatchPolicies"] = json!([]);
    let third = cache.read("lab", &BTreeMap::from([("a".to_owned(), Arc::new(other))]));
    assert!(third.by_name["a"].policies().next().is_none());
    assert!(cache.read("lab", &BTreeMap::new()).by_name.is_empty());
}
