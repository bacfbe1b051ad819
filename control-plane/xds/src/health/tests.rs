use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::service::health::v3::{
    ClusterEndpointsHealth, EndpointHealth, EndpointHealthResponse, LocalityEndpointsHealth,
};

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::health::v3::health_check_request_or_endpoint_health_response::RequestType;
use envoy_types::pb::envoy::service::health::v3::{
    HealthCheckRequest, HealthCheckRequestOrEndpointHealthResponse, HealthCheckSpecifier,
};
use futures_util::stream;
use tokio::sync::watch;

use super::acknowledgements::{entries, repeated};
use super::service::HealthStream;
use super::{
    AckState, AckStates, Endpoints, HealthRegistry, HealthReport, MAX_UNHEALTHY_SERVERS, UnhealthyReason,
    UnhealthyServer,
};
use crate::admission::Admission;
use crate::kind::CDS;
use crate::limits::Limits;
use crate::membership::Membership;
use crate::node::{NodeInfo, OneView, ReportScope, Unserved, View, Views};
use crate::resource::Resource;
use crate::snapshot::Snapshot;

/// A stream to a server that serves clusters of these names.
fn stream_for(clusters: &[&str]) -> HealthStream {
    let url = CDS;
    let one = |name: &&str| (url.to_owned(), (*name).to_owned(), Resource::new(Vec::new()));
    let (_, snapshots) = watch::channel(Some(Arc::new(Snapshot::new(clusters.iter().map(one)))));
    let limits = Limits { report_pause: Duration::ZERO, idle: Duration::from_millis(20), ..Limits::default() };
    HealthStream {
        registry: Arc::default(),
        snapshots,
        admission: Admission::local(limits),
        named: watch::Sender::default(),
        views: Arc::new(OneView),
    }
}

fn counts(healthy: u32, total: u32) -> BTreeMap<String, Endpoints> {
    BTreeMap::from([("a".to_owned(), Endpoints { healthy, total, unhealthy: Vec::new() })])
}

#[test]
fn newest_report_of_each_node_counts_until_it_is_too_old() {
    let registry = HealthRegistry::default();
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    registry.record("one", counts(1, 3), start);
    registry.record("one", counts(2, 3), after(5));
    registry.record("two", counts(3, 3), after(20));
    assert_eq!(healthy(&registry, after(35)), [("one".to_owned(), 2), ("two".to_owned(), 3)]);
    assert_eq!(registry.reporting(after(36)), ["two"]);
    assert_eq!(healthy(&registry, after(36)), [("two".to_owned(), 3)]);
    assert!(registry.reports(after(51)).is_empty());
}

/// The healthy servers of the cluster `a`, by node.
fn healthy(registry: &HealthRegistry, now: Instant) -> Vec<(String, u32)> {
    let reports = registry.reports(now).into_iter();
    reports.filter_map(|(node, report)| Some((node, report.clusters.get("a")?.healthy))).collect()
}

#[test]
fn unchanged_report_keeps_its_allocations() {
    let (registry, start) = (HealthRegistry::default(), Instant::now());
    let after = |seconds| start + Duration::from_secs(seconds);
    let newest = |seconds| Arc::clone(&registry.reports(after(seconds))["one"]);
    registry.record("one", counts(1, 3), start);
    let first = newest(0);
    registry.record("one", counts(1, 3), after(5));
    assert!(Arc::ptr_eq(&first, &newest(5)));
    let answers = || AckStates::from([(("a".to_owned(), "1".to_owned()), AckState::Acknowledged)]);
    registry.answered("one", answers());
    let answered = newest(5);
    assert!(!Arc::ptr_eq(&first, &answered) && Arc::ptr_eq(&first.clusters, &answered.clusters));
    registry.answered("one", answers());
    assert!(Arc::ptr_eq(&answered, &newest(5)));
    registry.record_within("one", counts(1, 3), Some(Vec::new()), after(6));
    let within = newest(6);
    assert_eq!(within.views, Some(Vec::new()));
    assert!(Arc::ptr_eq(&within.clusters, &first.clusters) && Arc::ptr_eq(&within.answers, &answered.answers));
    registry.record_within("one", counts(2, 3), Some(Vec::new()), after(7));
    assert_eq!((newest(7).clusters["a"].healthy, newest(7).answers.len()), (2, 1));
    registry.record("one", counts(2, 3), after(38));
    assert!(newest(38).answers.is_empty(), "it was unknown meanwhile");
}

#[test]
fn nodes_are_bounded_and_those_that_report_stay() {
    let registry = HealthRegistry::default();
    let start = Instant::now();
    for node in 0..1_000 {
        registry.record(&format!("node-{node}"), counts(1, 1), start);
    }
    registry.record("late", counts(1, 1), start);
    assert!(!registry.reporting(start).contains(&"late".to_owned()));
    registry.record("node-7", counts(0, 1), start);
    assert_eq!(registry.reports(start)["node-7"].clusters["a"].healthy, 0);
    let later = start + HealthRegistry::MAX_AGE + Duration::from_secs(1);
    registry.record("late", counts(1, 1), later);
    assert_eq!(registry.reporting(later), ["late"]);
}

#[test]
fn endpoints_that_may_get_requests_are_healthy() {
    let endpoint = |status: HealthStatus| EndpointHealth { health_status: status.into(), ..Default::default() };
    let all = [
        HealthStatus::Healthy,
        HealthStatus::Degraded,
        HealthStatus::Unhealthy,
        HealthStatus::Timeout,
        HealthStatus::Draining,
        HealthStatus::Unknown,
    ];
    let cluster = |name: &str| ClusterEndpointsHealth {
        cluster_name: name.to_owned(),
        locality_endpoints_health: vec![LocalityEndpointsHealth {
            locality: None,
            endpoints_health: all.into_iter().map(endpoint).collect(),
        }],
    };
    let report =
        EndpointHealthResponse { cluster_endpoints_health: vec![cluster("a"), cluster("b")], ..Default::default() };
    let counted = stream_for(&["a", "c"]).read(&report, None);
    assert_eq!(counted, BTreeMap::from([("a".to_owned(), Endpoints { healthy: 2, total: 6, unhealthy: Vec::new() })]));
}

#[test]
fn unhealthy_servers_are_named_and_counted() {
    let one = |server: &str| UnhealthyServer {
        server: server.to_owned(),
        reason: UnhealthyReason::HealthCheckTimedOut,
        since: 1_700_000_000,
    };
    let healthy = EndpointHealth { health_status: HealthStatus::Healthy.into(), ..Default::default() };
    let read = |named: &[UnhealthyServer]| {
        let endpoints_health = named.iter().map(UnhealthyServer::endpoint).chain([healthy.clone()]).collect();
        let locality_endpoints_health = vec![LocalityEndpointsHealth { locality: None, endpoints_health }];
        let cluster = ClusterEndpointsHealth { cluster_name: "a".to_owned(), locality_endpoints_health };
        let report = EndpointHealthResponse { cluster_endpoints_health: vec![cluster], ..Default::default() };
        stream_for(&["a"]).read(&report, None).remove("a").unwrap()
    };
    let named = [one("10.0.0.1:6443"), one("[fd00::1]:6443"), one("api.example.com:443")];
    assert_eq!(read(&named), Endpoints { healthy: 1, total: 4, unhealthy: named.to_vec() });
    for bad in ["", "<script>", "a b", &"x".repeat(300)] {
        assert_eq!(read(&[one(bad)]), Endpoints { healthy: 1, total: 2, unhealthy: Vec::new() }, "{bad}");
    }
    let many: Vec<_> = (0..100).map(|number| one(&format!("10.0.0.{number}:1"))).collect();
    assert_eq!(read(&many).unhealthy, many[..MAX_UNHEALTHY_SERVERS]);
    assert_eq!(read(&many).total, 101);
}

fn introduction(id: &str) -> RequestType {
    let node = Some(Node { id: id.to_owned(), ..Default::default() });
    RequestType::HealthCheckRequest(HealthCheckRequest { node, ..Default::default() })
}

fn report() -> RequestType {
    let cluster = ClusterEndpointsHealth { cluster_name: "a".to_owned(), ..Default::default() };
    RequestType::EndpointHealthResponse(EndpointHealthResponse {
        cluster_endpoints_health: vec![cluster],
        ..Default::default()
    })
}

#[tokio::test]
async fn report_counts_for_the_node_that_was_named_before_it() {
    let table = [
        (vec![introduction("one"), report()], Some("one")),
        (vec![report()], None),
        (vec![introduction(""), report()], None),
        (vec![introduction("one"), introduction(&"x".repeat(2_000)), report()], None),
        (vec![introduction("one"), introduction("two"), report()], None),
    ];
    for (messages, node) in table {
        let stream_for = stream_for(&["a"]);
        let messages =
            messages.into_iter().map(|one| Ok(HealthCheckRequestOrEndpointHealthResponse { request_type: Some(one) }));
        let ended = stream_for.listen(stream::iter(messages)).await;
        assert_eq!(ended.is_ok(), node.is_some(), "{ended:?}");
        assert_eq!(stream_for.registry.reporting(Instant::now()), node.into_iter().collect::<Vec<_>>());
    }
}

/// Each Gateway has a view of its name. Nodes that belong to none may not report.
struct ViewsOfGateways;

impl Views for ViewsOfGateways {
    fn view(&self, _: &NodeInfo) -> Result<View, Unserved> {
        Ok(View::default())
    }

    fn reported(&self, node: &NodeInfo) -> Result<ReportScope, Unserved> {
        let Membership::Bound(gateways) = &node.membership else { return Err(Unserved::Foreign("no".to_owned())) };
        let views = gateways.iter().map(|one| View(Some(format!("gateway/{one}"))));
        Ok(ReportScope { membership: node.membership.clone(), views: Some(views.collect()) })
    }
}

#[tokio::test]
async fn envoy_of_a_gateway_reports_about_its_view_alone() {
    let cluster = |name: &str| (CDS.to_owned(), name.to_owned(), Resource::new(Vec::new()).owned_by("a.test"));
    let views = [("infra/edge", "a"), ("infra/other", "b")]
        .map(|(gateway, name)| (format!("gateway/{gateway}"), Snapshot::new([cluster(name)])));
    let served = Arc::new(Snapshot::new([cluster("none")]).with_views(views));
    let named = |name: &str| ClusterEndpointsHealth { cluster_name: name.to_owned(), ..Default::default() };
    let acknowledged = AckStates::from([(("a.test".to_owned(), "1".to_owned()), AckState::Acknowledged)]);
    let sent = HealthCheckSpecifier { cluster_health_checks: entries(&acknowledged), ..Default::default() };
    let cluster_endpoints_health = ["a", "b", "none"].map(named).into_iter().chain(repeated(sent)).collect();
    let report = EndpointHealthResponse { cluster_endpoints_health, ..Default::default() };
    for (names, code) in
        [(&["one", "edge.infra.gateway.portcullis.dev"][..], None), (&["one"], Some(tonic::Code::PermissionDenied))]
    {
        let (_, snapshots) = watch::channel(Some(Arc::clone(&served)));
        let limits = Limits { report_pause: Duration::ZERO, ..Limits::default() };
        let admission = Admission::of_certificate(names, limits);
        let stream = HealthStream { snapshots, admission, views: Arc::new(ViewsOfGateways), ..stream_for(&[]) };
        let messages = [introduction("one"), RequestType::EndpointHealthResponse(report.clone())]
            .map(|one| Ok(HealthCheckRequestOrEndpointHealthResponse { request_type: Some(one) }));
        let ended = stream.listen(stream::iter(messages)).await;
        assert_eq!(ended.err().map(|status| status.code()), code, "{names:?}");
        let now = Instant::now();
        let kept = stream.registry.gateway_reports(now);
        let of = |report: &HealthReport| (report.clusters.keys().cloned().collect::<Vec<_>>(), report.answers.len());
        let kept: Vec<_> = kept.iter().map(|(node, report)| (node.as_str(), of(report))).collect();
        let expected = ("gateway:infra/edge/one", (vec!["a".to_owned()], 0));
        assert_eq!(kept, if code.is_none() { vec![expected] } else { Vec::new() });
        assert!(stream.registry.reports(now).is_empty(), "no other Envoy reports");
        assert_eq!(*stream.named.borrow(), "", "nothing is repeated to other replicas");
    }
}

#[tokio::test]
async fn envoy_of_an_instance_reports_about_its_view_alone() {
    let cluster = |name: &str| Snapshot::new([(CDS.to_owned(), name.to_owned(), Resource::new(Vec::new()))]);
    let views = ["a", "b"].map(|name| (format!("instance/{name}"), cluster(name)));
    let served = Arc::new(cluster("none").with_views(views));
    let view = |name: &str| View(Some(format!("instance/{name}")));
    let report = |name: &str| ClusterEndpointsHealth { cluster_name: name.to_owned(), ..Default::default() };
    let names = ["a", "b", "none"];
    let cluster_endpoints_health = names.map(report).to_vec();
    let report = EndpointHealthResponse { cluster_endpoints_health, ..Default::default() };
    for (reported, expected) in [
        (None, &names[..]),
        (Some(vec![View(None)]), &["none"]),
        (Some(vec![view("a")]), &["a"]),
        (Some(vec![view("b"), view("a")]), &["a", "b"]),
        (Some(vec![view("gone")]), &[]),
        (Some(vec![]), &[]),
    ] {
        let (_, snapshots) = watch::channel(Some(Arc::clone(&served)));
        let stream = HealthStream { snapshots, ..stream_for(&[]) };
        let read = stream.read(&report, reported.as_deref());
        assert_eq!(read.into_keys().collect::<Vec<_>>(), expected, "{reported:?}");
    }
}

/// Two tenants may give their Envoys the same id.
#[tokio::test]
async fn report_of_an_instances_node_leaves_that_of_anothers() {
    let registry: Arc<HealthRegistry> = Arc::default();
    let of = |names: &[&str]| HealthStream {
        registry: Arc::clone(&registry),
        admission: Admission::of_certificate(names, Limits { report_pause: Duration::ZERO, ..Limits::default() }),
        ..stream_for(&["a"])
    };
    for names in [&["one", "a.instance.portcullis.dev"][..], &["one", "b.instance.portcullis.dev"], &["one"]] {
        let messages = [introduction("one"), report()]
            .map(|one| Ok(HealthCheckRequestOrEndpointHealthResponse { request_type: Some(one) }));
        of(names).listen(stream::iter(messages)).await.unwrap();
    }
    assert_eq!(registry.reporting(Instant::now()), ["a/one", "b/one", "one"]);
}

#[test]
fn nodes_of_an_instance_leave_room_for_those_of_others() {
    let (registry, now) = (HealthRegistry::default(), Instant::now());
    let of = |name: &str| Some(vec![View(Some(format!("instance/{name}")))]);
    for number in 0..200 {
        registry.record_within(&format!("a/{number}"), counts(1, 1), of("a"), now);
    }
    assert_eq!(registry.reporting(now).len(), 100);
    registry.record_within("b/1", counts(1, 1), of("b"), now);
    registry.record("free", counts(1, 1), now);
    let reports = registry.reports(now);
    let views = |node: &str| reports.get(node).map(|report| report.views.clone());
    assert_eq!((views("b/1"), views("free"), views("a/150")), (Some(of("b")), Some(None), None));
    registry.record_within("a/1", counts(0, 1), of("a"), now);
    assert_eq!(registry.reports(now)["a/1"].clusters["a"].healthy, 0, "one that is known reports on");
}

#[tokio::test]
async fn silent_health_stream_ends_soon() {
    let ended = stream_for(&[]).listen(stream::pending()).await;
    assert_eq!(ended.unwrap_err().code(), tonic::Code::DeadlineExceeded);
}
