use portcullis_api::status::Health;
use portcullis_translate::type_urls;
use portcullis_xds::{Endpoints, Resource, UnhealthyReason, UnhealthyServer, View};
use proptest::prelude::*;

use super::super::gateway_views::group_of;
use super::view_health::LOOKED_UP;
use super::*;

const START: Duration = Duration::from_secs(1_000);

/// The pools of each Gateway's view, with generations as they are served.
fn snapshot(views: &[(&str, &[&str])]) -> Snapshot {
    let cluster = |pool: &&str| (type_urls::cluster(), format!("{pool}@0123"), Resource::new(vec![1]));
    let view = |(name, pools): &(&str, &[&str])| (format!("gateway/{name}"), Snapshot::new(pools.iter().map(cluster)));
    let base = ["lab/-/a.test/all.h2", "lab/-/b.test/all.h2"];
    Snapshot::new(base.iter().map(cluster)).with_views(views.iter().map(view))
}

struct Reports {
    registry: HealthRegistry,
    followed: GatewayHealthReports,
    begin: Instant,
}

impl Reports {
    fn new() -> Self {
        let begin = Instant::now();
        Self { registry: HealthRegistry::default(), followed: GatewayHealthReports::default(), begin }
    }

    /// An Envoy of a Gateway reports so many healthy servers of two.
    fn report(&self, gateway: &str, id: &str, pools: &[(&str, u32)], at: Duration) {
        let seen = |(pool, healthy): &(&str, u32)| {
            ((*pool).to_owned(), Endpoints { healthy: *healthy, total: 2, unhealthy: Vec::new() })
        };
        let views = Some(vec![View(Some(format!("gateway/{gateway}")))]);
        let node = format!("gateway:{gateway}/{id}");
        self.registry.record_within(&node, pools.iter().map(seen).collect(), views, self.begin + at);
    }

    fn follow(&mut self, snapshot: &Snapshot, nodes: &[NodeStatus], at: Duration) -> Arc<HealthAtGateways> {
        self.followed.follow(&self.registry, (Some(snapshot), nodes), (self.begin + at, PACE))
    }
}

/// A Gateway whose Envoys find so many healthy servers of two.
fn at(gateway: &str, healthy: &[u32]) -> GatewayHealth {
    let mut found = GatewayHealth::new(gateway.to_owned());
    let seen = |healthy: &u32| Health { healthy: *healthy, total: 2, unhealthy: Vec::new() };
    healthy.iter().map(seen).for_each(|seen| found.add(&seen, true));
    found
}

fn connected(gateway: &str) -> NodeStatus {
    NodeStatus {
        id: format!("gateway:{gateway}/silent"),
        connected: true,
        types: BTreeMap::new(),
        snapshot: String::new(),
        in_sync: true,
        refused: Vec::new(),
        view: View(Some(format!("gateway/{gateway}"))),
    }
}

/// The Gateway `infra/edge` has a route to the cluster `a.test` and to the tenant's upstream.
#[test]
fn gateway_reports_about_what_it_has_now_alone() {
    let [of_cluster, of_upstream, of_service] =
        ["lab/-/a.test/all.h2", "lab/team/prod/all.h2", "lab/team/prod/port-443.tcp"];
    let passed = "lab/-/a.test/all.tcp";
    let edge = [of_cluster, of_upstream, of_service];
    let served = snapshot(&[("infra/edge", &edge), ("team/own", &[of_upstream]), ("infra/refused", &[])]);
    let known = |objects: &[(&str, GatewayHealth)]| -> HealthAtGateways {
        objects.iter().map(|(object, health)| ((*object).to_owned(), vec![health.clone()])).collect()
    };
    for (gateway, pools, expected) in [
        (
            "infra/edge",
            &[(of_cluster, 1), (of_upstream, 0), (of_service, 0)][..],
            known(&[("a.test", at("infra/edge", &[1])), ("team/prod", at("infra/edge", &[0]))]),
        ),
        // A pool that no Gateway has, one of another Gateway, and one that only Envoys of none have.
        ("infra/edge", &[("lab/-/gone/all.h2", 0), (passed, 0)], known(&[])),
        ("team/own", &[(of_cluster, 0), ("lab/-/b.test/all.h2", 0)], known(&[])),
        ("team/own", &[(of_upstream, 2)], known(&[("team/prod", at("team/own", &[2]))])),
        // A Gateway whose routes are all refused, one that is gone, and names with a generation.
        ("infra/refused", &[(of_cluster, 0)], known(&[])),
        ("infra/gone", &[(of_cluster, 0)], known(&[])),
        ("infra/edge", &[("lab/-/a.test/all.h2@0123", 0), ("lab/-/a.test/all", 0), ("x", 0)], known(&[])),
    ] {
        let mut reports = Reports::new();
        reports.report(gateway, "envoy-0", pools, START);
        assert_eq!(*reports.follow(&served, &[], START), expected, "{gateway} {pools:?}");
    }
}

#[test]
fn report_ends_with_the_route_that_it_is_about() {
    let pool = "lab/-/a.test/all.h2";
    let (before, after) = (snapshot(&[("infra/edge", &[pool])]), snapshot(&[("infra/edge", &[])]));
    let mut reports = Reports::new();
    reports.report("infra/edge", "envoy-0", &[(pool, 0)], START);
    assert_eq!(reports.follow(&before, &[], START).len(), 1);
    let soon = START + Duration::from_secs(1);
    assert!(reports.follow(&after, &[], soon).is_empty(), "before the next look at reports");
    assert!(reports.follow(&snapshot(&[]), &[], soon).is_empty());
    assert_eq!(reports.follow(&before, &[], soon).len(), 1, "its route is there again");
    let late = START + HealthRegistry::MAX_AGE + PACE;
    assert!(reports.follow(&before, &[], late).is_empty(), "it has not reported since");
}

#[test]
fn reports_are_looked_at_in_their_own_time() {
    let pool = "lab/-/a.test/all.h2";
    let served = snapshot(&[("infra/edge", &[pool])]);
    let mut reports = Reports::new();
    let mut before = reports.follow(&served, &[], START);
    let mut changes = Vec::new();
    for second in 0..30 {
        let now = START + Duration::from_secs(second.into());
        reports.report("infra/edge", "liar", &[(pool, second % 3)], now);
        let newest = reports.follow(&served, &[], now);
        if !Arc::ptr_eq(&before, &newest) {
            changes.push(second);
        }
        before = newest;
    }
    assert_eq!(changes, [10, 20], "it says something else each second");
}

/// A change that decides nothing counts later, with what was reported last; one that decides has the newest names with it.
#[test]
fn names_and_times_alone_are_looked_at_more_seldom() {
    let pool = "lab/-/a.test/all.h2";
    let served = snapshot(&[("infra/edge", &[pool])]);
    let mut reports = Reports::new();
    let report = |reports: &Reports, healthy: u32, since: u32, now: Duration| {
        let reason = UnhealthyReason::HealthCheckFailed;
        let server = UnhealthyServer { server: "10.0.0.1:6443".to_owned(), reason, since: since.into() };
        let seen = Endpoints { healthy, total: 2, unhealthy: vec![server] };
        let views = Some(vec![View(Some("gateway/infra/edge".to_owned()))]);
        let clusters = [(pool.to_owned(), seen)].into();
        reports.registry.record_within("gateway:infra/edge/liar", clusters, views, reports.begin + now);
    };
    let mut changes = Vec::new();
    let mut before = Arc::default();
    for second in 0..200 {
        let now = START + Duration::from_secs(second.into());
        report(&reports, if (75..145).contains(&second) { 0 } else { 1 }, second, now);
        let newest = reports.follow(&served, &[], now);
        if !Arc::ptr_eq(&before, &newest) {
            changes.push(second);
        }
        before = newest;
    }
    assert_eq!(changes, [0, 10, 70, 80, 130, 150, 190], "the times are others each second");
    report(&reports, 1, 999, START + Duration::from_secs(200));
    let last = reports.follow(&served, &[], START + Duration::from_secs(200));
    assert!(Arc::ptr_eq(&before, &last));
    assert!(reports.follow(&snapshot(&[]), &[], START + Duration::from_secs(201)).is_empty(), "a route ends at once");
}

#[test]
fn gateways_are_apart_and_silent_ones_are_known() {
    let pool = "lab/-/a.test/all.h2";
    let served = snapshot(&[
        ("infra/edge", &[pool]),
        ("infra/silent", &[pool]),
        ("infra/other", &["lab/-/b.test/all.h2"]),
        ("team/own", &[pool]),
    ]);
    let mut reports = Reports::new();
    reports.report("infra/edge", "envoy-0", &[(pool, 0)], START);
    reports.report("infra/edge", "envoy-1", &[(pool, 0)], START);
    reports.report("team/own", "envoy-0", &[(pool, 1)], START);
    let nodes = ["infra/edge", "infra/silent", "infra/other"].map(connected);
    let found = reports.follow(&served, &nodes, START);
    let expected = vec![at("infra/edge", &[0, 0]), at("infra/silent", &[]), at("team/own", &[1])];
    assert_eq!(*found, [("a.test".to_owned(), expected)].into());
    let gone = NodeStatus { connected: false, ..connected("infra/silent") };
    let found = reports.follow(&served, &[gone], START);
    assert_eq!(found["a.test"].len(), 2, "an Envoy that has gone says nothing");
}

/// A Gateway that has other servers of an object than those that are reported has the object.
#[test]
fn silent_gateway_has_an_object_by_any_pool_of_it() {
    let pool = "lab/-/a.test/all.h2";
    let served = snapshot(&[("infra/edge", &[pool]), ("infra/silent", &["lab/-/a.test/all.tcp"])]);
    let mut reports = Reports::new();
    reports.report("infra/edge", "envoy-0", &[(pool, 0)], START);
    let found = reports.follow(&served, &[connected("infra/silent")], START);
    assert_eq!(found["a.test"], [at("infra/edge", &[0]), at("infra/silent", &[])]);
}

#[test]
fn edit_of_one_view_has_no_other_view_looked_at() {
    let names: Vec<String> = (0..50).map(|number| format!("infra/e{number:02}")).collect();
    let pools: Vec<String> = (0..20).map(|number| format!("lab/-/c{number:02}.test/all.h2")).collect();
    let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
    let served = |edited: &[&str]| {
        let view = |(number, name): (usize, &String)| {
            (name.clone(), if number == 7 { edited.to_vec() } else { pools.clone() })
        };
        let views: Vec<(String, Vec<&str>)> = names.iter().enumerate().map(view).collect();
        let views: Vec<(&str, &[&str])> = views.iter().map(|(name, pools)| (name.as_str(), pools.as_slice())).collect();
        snapshot(&views)
    };
    let seen: Vec<(&str, u32)> = pools.iter().map(|pool| (*pool, 1)).collect();
    let mut reports = Reports::new();
    for name in &names {
        reports.report(name, "envoy-0", &seen, START);
    }
    let looked_up = |reports: &mut Reports, served: &Snapshot, at: Duration| {
        LOOKED_UP.set(0);
        let found = reports.follow(served, &[], at);
        let gateways = ["c00.test", "c01.test"].map(|object| found[object].len());
        (LOOKED_UP.get(), gateways)
    };
    let (before, after) = (served(&pools), served(&pools[1..]));
    assert_eq!(looked_up(&mut reports, &before, START), (50 * 20, [50, 50]));
    let soon = START + Duration::from_secs(1);
    assert_eq!(looked_up(&mut reports, &after, soon), (20, [49, 50]));
    assert_eq!(looked_up(&mut reports, &after, soon), (0, [49, 50]));
    reports.report(&names[3], "envoy-0", &seen[2..], START);
    assert_eq!(looked_up(&mut reports, &after, START + PACE), (18, [49, 50]), "one without a report has the cluster");
}

proptest! {
    /// Each event is an edit of a Gateway's view, a report about it, and another set of connected Envoys.
    #[test]
    fn followed_health_is_the_health_found_anew(
        events in proptest::collection::vec((0..3_usize, 0..16_u8, 0..16_u8, 0..3_u32, 0..8_u8), 1..12),
    ) {
        const POOLS: [&str; 4] =
            ["lab/-/a.test/all.h2", "lab/-/a.test/s-0.h2", "lab/-/b.test/all.h2", "lab/team/prod/all.h2"];
        const GATEWAYS: [&str; 3] = ["infra/edge", "team/own", "team-a/own"];
        let some = |set: u8| POOLS.into_iter().enumerate().filter(move |(bit, _)| set & (1 << bit) != 0).map(|(_, pool)| pool);
        let (mut reports, mut sets) = (Reports::new(), [15_u8; 3]);
        for (gateway, set, reported, healthy, nodes) in events {
            sets[gateway] = set;
            let pools = sets.map(|set| some(set).collect::<Vec<&str>>());
            let views: Vec<(&str, &[&str])> =
                GATEWAYS.into_iter().zip(&pools).map(|(name, pools)| (name, pools.as_slice())).collect();
            let served = snapshot(&views);
            let seen: Vec<(&str, u32)> = some(reported).map(|pool| (pool, healthy)).collect();
            reports.report(GATEWAYS[gateway], "envoy-0", &seen, START);
            let nodes = GATEWAYS.into_iter().enumerate().filter(|(bit, _)| nodes & (1 << bit) != 0);
            let nodes: Vec<NodeStatus> = nodes.map(|(_, gateway)| connected(gateway)).collect();
            let Reports { registry, followed, begin } = &mut reports;
            let (served, at) = ((Some(&served), nodes.as_slice()), (*begin + START, Duration::ZERO));
            let found = followed.follow(registry, served, at);
            let anew = GatewayHealthReports::default().follow(registry, served, at);
            prop_assert_eq!(&*found, &*anew);
        }
    }
}

/// Only a pool of the cluster's own counts for all of its servers.
#[test]
fn pools_are_of_objects_by_their_names() {
    for (pool, expected) in [
        ("lab/-/a.test/all.h2", Some(("a.test", "all"))),
        ("lab/-/a.test/all.tcp", Some(("a.test", "all"))),
        ("lab/-/a.test/s-0123456789.h2", Some(("a.test", "s-0123456789"))),
        ("lab/-/a.test/all.h1", None),
        ("lab/team/prod/all.h2", Some(("team/prod", "all"))),
        ("lab/team/prod/all.tcp", None),
        ("lab/team/prod/port-443.tcp", None),
        ("lab/-/a.test", None),
        ("lab/-/a.test/all", None),
        ("", None),
    ] {
        let found = group_of(pool);
        let found = found.as_ref().map(|(object, group)| (object.as_str(), *group));
        assert_eq!(found, expected, "{pool}");
    }
}
