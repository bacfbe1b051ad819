//! The bounds of what is kept of reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::health_room::{ENTRY, MAX_NODES_OF_INSTANCE, OF_GATEWAYS, SHARES};
use super::{AckState, AckStates, Endpoints, HealthRegistry, HealthReport, UnhealthyReason, UnhealthyServer};

/// The endpoints of so many clusters, each with a server of a long name.
fn seen(count: usize) -> BTreeMap<String, Endpoints> {
    let server = |number: usize| UnhealthyServer {
        server: format!("{number:0200}"),
        reason: UnhealthyReason::NotChecked,
        since: 1,
    };
    let one =
        |number: usize| (format!("{number:0100}"), Endpoints { healthy: 0, total: 1, unhealthy: vec![server(number)] });
    (0..count).map(one).collect()
}

/// Nodes of an instance that report as much as they may.
fn flood(registry: &HealthRegistry, instance: &str, at: Instant) {
    for number in 0..MAX_NODES_OF_INSTANCE {
        registry.record(&format!("{instance}/{number}"), seen(2_000), at);
    }
}

fn kept(registry: &HealthRegistry, at: Instant) -> usize {
    bytes(&registry.reports(at))
}

fn bytes(reports: &BTreeMap<String, Arc<HealthReport>>) -> usize {
    let weight = |seen: &Endpoints| ENTRY + 200 * seen.unhealthy.len();
    reports.values().flat_map(|report| report.clusters.values()).map(weight).sum()
}

/// The endpoints of a cluster as a node sees them.
fn seen_by(registry: &HealthRegistry, node: &str, number: usize, at: Instant) -> Endpoints {
    registry.reports(at)[node].clusters[&format!("{number:0100}")].clone()
}

#[test]
fn bytes_of_an_instance_are_bounded_and_others_have_theirs() {
    let (registry, now) = (HealthRegistry::default(), Instant::now());
    flood(&registry, "a", now);
    assert!(kept(&registry, now) <= SHARES.most, "{}", kept(&registry, now));
    ["b", "c", "d", "e", "f"].iter().for_each(|instance| flood(&registry, instance, now));
    assert!(kept(&registry, now) <= SHARES.rest + 6 * SHARES.own);
    registry.record("quiet/0", seen(1_000), now);
    assert_eq!(seen_by(&registry, "quiet/0", 7, now).unhealthy.len(), 1, "with its servers' names");
    // Reports that are not renewed make room.
    let later = now + HealthRegistry::MAX_AGE + Duration::from_secs(1);
    registry.record("a/0", seen(20_000), later);
    assert_eq!(registry.reporting(later), ["a/0"]);
}

#[test]
fn reports_of_gateways_take_no_room_of_others() {
    let (registry, now) = (HealthRegistry::default(), Instant::now());
    let node = |namespace: &str, number: usize| format!("gateway:{namespace}/edge/{number}");
    let shares = &OF_GATEWAYS.shares;
    (0..200).for_each(|number| registry.record(&node("a", number), seen(200), now));
    let of_one = registry.gateway_reports(now);
    assert!(of_one.len() <= OF_GATEWAYS.of_one && bytes(&of_one) <= shares.most, "{}", of_one.len());
    for namespace in (0..80).map(|number| format!("n{number}")) {
        (0..20).for_each(|number| registry.record(&node(&namespace, number), seen(200), now));
    }
    assert!(bytes(&registry.gateway_reports(now)) <= shares.rest + 81 * shares.own);
    registry.record(&node("quiet", 0), seen(100), now);
    let quiet = registry.gateway_reports(now)[&node("quiet", 0)].clusters[&format!("{:0100}", 7)].clone();
    assert_eq!(quiet.unhealthy.len(), 1, "its own part is left");
    (0..200).for_each(|number| registry.record(&node(&format!("late{number}"), 0), seen(1), now));
    let owners: std::collections::BTreeSet<_> =
        registry.gateway_reports(now).into_keys().filter_map(|name| Some(name.split_once('/')?.0.to_owned())).collect();
    assert!(owners.len() <= 100, "{}", owners.len());
    registry.record("i/0", seen(1_000), now);
    registry.record("free", seen(1_000), now);
    assert_eq!(["i/0", "free"].map(|node| seen_by(&registry, node, 7, now).unhealthy.len()), [1, 1]);
}

#[test]
fn servers_are_counted_without_names_where_these_have_no_room() {
    let (registry, now) = (HealthRegistry::default(), Instant::now());
    let count = SHARES.most / 300;
    registry.record("a/0", seen(count), now);
    let found = seen_by(&registry, "a/0", 7, now);
    assert_eq!((found.total, found.unhealthy.len()), (1, 0));
    registry.record("a/0", seen(2), now);
    assert_eq!(seen_by(&registry, "a/0", 1, now).unhealthy.len(), 1);
}

#[test]
fn answers_have_room_in_the_same_share() {
    let (registry, now) = (HealthRegistry::default(), Instant::now());
    let answers = |count: usize| {
        let one = |number: usize| ((format!("{number:0200}"), format!("{number:0100}")), AckState::Acknowledged);
        (0..count).map(one).collect::<AckStates>()
    };
    registry.record("a/0", seen(1), now);
    registry.answered("a/0", answers(SHARES.most / 300));
    assert!(registry.reports(now)["a/0"].answers.is_empty());
    registry.answered("a/0", answers(10));
    assert_eq!(registry.reports(now)["a/0"].answers.len(), 10);
}
