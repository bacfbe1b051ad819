use std::sync::Arc;

use portcullis_api::{PolicyKind, PolicyRole};
use portcullis_attach::{BoundRoute, HostPattern, HostTable, ObjectName, RouteKind, ServedListener, WeightedBackend};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn edge() -> ObjectName {
    ObjectName::new("infra", "edge")
}

fn at_route(name: &str) -> Door {
    Door::Route(ObjectName::new("team", name))
}

/// Denies some of eight paths.
fn denies(paths: u8) -> PolicyInEffect {
    PolicyInEffect {
        kind: PolicyKind::Dispatch,
        policy: "team/x".to_owned(),
        uid: None,
        role: PolicyRole::Tightens,
        why: "overrides".to_owned(),
        fields: Ok(Arc::new(json!(paths))),
    }
}

fn at_door(door: &Door, paths: u8) -> DoorPolicies {
    DoorPolicies::new((paths > 0).then(|| (door.clone(), vec![denies(paths)])))
}

/// A Gateway with a route of each name to a cluster.
fn leading(routes: &[(&str, &str)]) -> ServedGateway {
    let route = |(name, cluster): &(&str, &str)| {
        let backend = WeightedBackend { backend: ServedBackend::Cluster((*cluster).to_owned()), weight: 1 };
        let route = ObjectName::new("team", *name);
        let bound = BoundRoute { kind: RouteKind::Http, route, backends: vec![backend], refused_weight: 0 };
        (HostPattern::Exact(format!("{name}.test")), bound)
    };
    let table = HostTable { routes: routes.iter().map(route).collect(), ..HostTable::default() };
    let role = ListenerRole::Terminate { certificates: vec![], client_ca: None, routes: table };
    let listener = ServedListener { name: "https".to_owned(), port: 443, host: HostPattern::Any, role };
    let policies = DoorPolicies::default();
    ServedGateway { gateway: edge(), addresses: vec![], settings: None, listeners: vec![listener], policies }
}

/// The paths that are denied at a door for requests to a cluster.
fn denied(policies: &DoorPolicies, door: &Door, cluster: &str) -> u8 {
    let paths = |one: &PolicyInEffect| u8::try_from(one.fields.as_ref().unwrap().as_u64().unwrap()).unwrap();
    policies.holding(door, Some(cluster)).map(paths).fold(0, |all, paths| all | paths)
}

fn progress(number: u64, behind: &[&str]) -> ClusterProgress {
    let behind: Vec<String> = behind.iter().map(|name| (*name).to_owned()).collect();
    let mut progress = ClusterProgress::default();
    progress.follow(SetNumber(number), behind.iter());
    progress
}

#[test]
fn policy_stays_at_its_door_until_the_clusters_edit_is_served() {
    for door in [at_route("a"), Door::Gateway(edge()), Door::Listener(edge(), "https".to_owned())] {
        let served = [leading(&[("a", "waits"), ("b", "other")])];
        let mut doors = FormerDoors::default();
        let mut at = |paths: u8, of: u64, progress: &ClusterProgress, served: Option<&[ServedGateway]>| {
            let held = doors.follow((&at_door(&door, paths), SetNumber(of)), progress, served);
            [denied(&held, &door, "waits"), denied(&held, &door, "other")]
        };
        assert_eq!(at(1, 1, &progress(1, &[]), Some(&served)), [1, 1], "{door}");
        assert_eq!(at(0, 2, &progress(1, &[]), Some(&served)), [1, 1], "{door}: the set with it is not reconciled");
        assert_eq!(at(0, 2, &progress(2, &["waits"]), None), [1, 1], "{door}: the routes of before say nothing");
        assert_eq!(at(0, 2, &progress(2, &["waits"]), Some(&served)), [1, 0], "{door}: the other one's is served");
        assert_eq!(at(6, 2, &progress(2, &["waits"]), Some(&served)), [7, 6], "{door}: additions do not wait");
        assert_eq!(at(6, 2, &progress(3, &[]), Some(&served)), [6, 6], "{door}");
    }
}

#[test]
fn removal_without_an_edit_of_a_cluster_is_in_effect_at_once() {
    let (door, served) = (at_route("a"), [leading(&[("a", "c"), ("b", "waits")])]);
    let mut doors = FormerDoors::default();
    let progress = progress(4, &["waits"]);
    doors.follow((&at_door(&door, 1), SetNumber(4)), &progress, Some(&served));
    let held = doors.follow((&at_door(&door, 0), SetNumber(4)), &progress, Some(&served));
    assert!(held.is_empty(), "the edit of another cluster is none of it");
}

#[test]
fn former_policy_says_why_it_holds_and_ends_with_its_route() {
    let door = at_route("a");
    let mut doors = FormerDoors::default();
    let progress = progress(1, &["c"]);
    let mut at = |paths: u8, routes: &[(&str, &str)]| {
        let served = [leading(routes)];
        doors.follow((&at_door(&door, paths), SetNumber(1)), &progress, Some(&served))
    };
    at(1, &[("a", "c")]);
    let held = at(0, &[("a", "c")]);
    assert!(held.holding(&door, Some("c")).all(|one| one.why.contains("it was removed, and holds until")));
    let held = at(1, &[("a", "c")]);
    assert_eq!(held.holding(&door, Some("c")).count(), 1, "it is back");
    assert!(at(0, &[("b", "c")]).is_empty(), "no request comes by this door");
}

#[test]
fn former_policies_of_a_door_are_bounded() {
    let (door, served) = (at_route("a"), [leading(&[("a", "c")])]);
    let mut doors = FormerDoors::default();
    let progress = progress(1, &["c"]);
    let mut held = DoorPolicies::default();
    for paths in 1..100 {
        held = doors.follow((&at_door(&door, paths), SetNumber(1)), &progress, Some(&served));
    }
    assert_eq!(held.holding(&door, Some("c")).count(), 1 + MAX_OF_DOOR);
}

/// An event in the life of a cluster and of a route that leads there.
#[derive(Clone, Copy, Debug)]
enum DoorEvent {
    /// The policy at the door denies these paths.
    Door(u8),
    /// The newest version of the cluster denies these.
    Cluster(u8),
    /// Paths move from the door to the cluster, in one step.
    Move(u8),
    /// The newest set is reconciled; the cluster's edit is served, or it waits or is refused.
    Reconcile { is_served: bool },
    /// The newest verdicts are judged.
    Judge,
}

fn events() -> impl Strategy<Value = Vec<DoorEvent>> {
    let event = prop_oneof![
        any::<u8>().prop_map(DoorEvent::Door),
        any::<u8>().prop_map(DoorEvent::Cluster),
        any::<u8>().prop_map(DoorEvent::Move),
        any::<bool>().prop_map(|is_served| DoorEvent::Reconcile { is_served }),
        Just(DoorEvent::Judge),
        Just(DoorEvent::Judge),
    ];
    prop::collection::vec(event, 1..40)
}

proptest! {
    /// A path that each version of the objects denies, at the door or at the cluster, is denied at any time.
    #[test]
    fn path_that_is_always_denied_has_no_unprotected_moment(events in events()) {
        let (door, served) = (at_route("a"), [leading(&[("a", "c")])]);
        let (mut doors, mut progress) = (FormerDoors::default(), ClusterProgress::default());
        // The number of the set, and of the one of the last verdicts; the newest objects.
        let (mut number, mut of, mut at, mut cluster) = (1_u64, 1_u64, 0xff_u8, 0_u8);
        let mut versions = vec![(number, cluster)];
        let (mut served_version, mut always) = (cluster, at | cluster);
        let mut held = doors.follow((&at_door(&door, at), SetNumber(of)), &progress, Some(&served));
        let mut removals = 0;
        for event in events {
            let before = (at, cluster);
            match event {
                DoorEvent::Door(paths) => at = paths,
                // A policy that moves to a door is kept by the step that judges policies.
                DoorEvent::Cluster(paths) => cluster = paths | (cluster & always),
                DoorEvent::Move(paths) => (at, cluster) = (at & !paths, cluster | (at & paths)),
                DoorEvent::Reconcile { is_served } => {
                    let is_newest = is_served || served_version == cluster;
                    if is_newest {
                        served_version = cluster;
                    }
                    let name = "c".to_owned();
                    progress.follow(SetNumber(number), (!is_newest).then_some(&name).into_iter());
                }
                DoorEvent::Judge => {
                    held = doors.follow((&at_door(&door, at), SetNumber(of)), &progress, Some(&served));
                }
            }
            if cluster != before.1 {
                number += 1;
                versions.push((number, cluster));
            }
            if at != before.0 {
                of = number;
                removals += 1;
            }
            always &= at | cluster;
            if removals <= MAX_OF_DOOR {
                let now = denied(&held, &door, "c") | served_version;
                prop_assert_eq!(always & !now, 0, "{:?}: {:?}", event, versions);
            }
        }
    }
}
