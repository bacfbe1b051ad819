use portcullis_api::PolicyRole;
use portcullis_attach::ObjectName;
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

/// Whether a door is closed for requests to a cluster.
fn is_closed(policies: &DoorPolicies, door: &Door, cluster: &str) -> bool {
    let route = match door {
        Door::Route(route) => route.clone(),
        Door::Gateway(_) | Door::Listener(..) => ObjectName::new("team", "any"),
    };
    policies.are_unread(&edge(), "https", &route, cluster)
}

/// The paths that are denied at a door for requests to a cluster.
fn denied(policies: &DoorPolicies, door: &Door, cluster: &str) -> u8 {
    if is_closed(policies, door, cluster) {
        return u8::MAX;
    }
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
        let mut doors = FormerDoors::default();
        let mut at = |paths: u8, of: u64, progress: &ClusterProgress| {
            let held = doors.follow((&at_door(&door, paths), SetNumber(of)), progress);
            [denied(&held, &door, "waits"), denied(&held, &door, "other")]
        };
        assert_eq!(at(1, 1, &progress(1, &[])), [1, 1], "{door}");
        assert_eq!(at(0, 2, &progress(1, &[])), [1, 1], "{door}: the set with it is not reconciled");
        assert_eq!(at(0, 2, &progress(2, &["waits"])), [1, 0], "{door}: the other one's is served");
        assert_eq!(at(6, 2, &progress(2, &["waits"])), [7, 6], "{door}: additions do not wait");
        assert_eq!(at(6, 2, &progress(3, &[])), [6, 6], "{door}");
    }
}

#[test]
fn removal_without_an_edit_of_a_cluster_is_in_effect_at_once() {
    let door = at_route("a");
    let mut doors = FormerDoors::default();
    let progress = progress(4, &["waits"]);
    doors.follow((&at_door(&door, 1), SetNumber(4)), &progress);
    let held = doors.follow((&at_door(&door, 0), SetNumber(4)), &progress);
    assert_eq!([denied(&held, &door, "c"), denied(&held, &door, "waits")], [0, 1]);
}

#[test]
fn former_policy_says_why_it_holds_and_ends_when_it_is_back() {
    let door = at_route("a");
    let mut doors = FormerDoors::default();
    let waits = progress(1, &["c"]);
    let mut at = |paths: u8, progress: &ClusterProgress| doors.follow((&at_door(&door, paths), SetNumber(1)), progress);
    at(1, &waits);
    let held = at(0, &waits);
    assert!(held.holding(&door, Some("c")).all(|one| one.why.contains("it was removed, and holds until")));
    let held = at(1, &waits);
    assert_eq!(held.holding(&door, Some("c")).count(), 1, "it is back");
    at(0, &waits);
    assert!(at(0, &progress(2, &[])).is_empty());
}

/// Which routes are served is not asked: a tenant can toggle one, and it is closed for a moment.
#[test]
fn cluster_that_waits_is_behind_each_door_whatever_is_served() {
    let mut doors = FormerDoors::default();
    let [a, b] = ["a", "b"].map(at_route);
    doors.follow((&at_door(&a, 1), SetNumber(1)), &progress(1, &[]));
    let held = doors.follow((&at_door(&b, 2), SetNumber(2)), &progress(2, &["c"]));
    assert_eq!([denied(&held, &a, "c"), denied(&held, &b, "c")], [1, 2]);
}

#[test]
fn edits_keep_the_oldest_version_that_a_cluster_waits_for() {
    let door = at_route("a");
    let numbers: [fn(u64) -> u64; 2] = [|_| 2, |turn| 2 + turn];
    for of in numbers {
        let (mut doors, mut held) = (FormerDoors::default(), Arc::default());
        doors.follow((&at_door(&door, 1), SetNumber(1)), &progress(1, &[]));
        for turn in 0..100 {
            // Behind since the second set: the first one brought it.
            let mut waits_since = ClusterProgress::default();
            waits_since.follow(SetNumber(1), std::iter::empty());
            waits_since.follow(SetNumber(2), ["c".to_owned()].iter());
            waits_since.follow(SetNumber(of(turn)), ["c".to_owned()].iter());
            let paths = 2 + u8::try_from(turn % 2).unwrap() * 2;
            held = doors.follow((&at_door(&door, paths), SetNumber(of(turn))), &waits_since);
        }
        assert_eq!([denied(&held, &door, "c"), denied(&held, &door, "d")], [5, 4]);
        assert_eq!(held.holding(&door, Some("c")).count(), 2, "one former version is enough");
    }
}

#[test]
fn edits_that_are_not_translated_close_their_door_and_no_other() {
    let door = at_route("a");
    let (mut doors, mut held) = (FormerDoors::default(), Arc::default());
    let first = progress(1, &[]);
    for turn in 0..100 {
        let paths = 1 + u8::try_from(turn).unwrap();
        held = doors.follow((&at_door(&door, paths), SetNumber(2 + turn)), &first);
        assert_eq!(is_closed(&held, &door, "c"), turn > 8, "{turn}");
    }
    assert_eq!(held.holding(&door, Some("c")).count(), 1 + MAX_OF_DOOR);
    assert!(!is_closed(&held, &at_route("b"), "c"));
    let held = doors.follow((&at_door(&door, 1), SetNumber(102)), &progress(102, &[]));
    assert_eq!((is_closed(&held, &door, "c"), denied(&held, &door, "c")), (false, 1));
}

/// Another cluster waits, for ever, after each edit.
#[test]
fn clusters_that_wait_close_the_door_for_themselves_alone() {
    let door = at_route("a");
    let (mut doors, mut progress) = (FormerDoors::default(), ClusterProgress::default());
    let mut held = Arc::default();
    for turn in 1..30 {
        let waiting: Vec<String> = (1..=turn).map(|name| format!("c{name:02}")).collect();
        progress.follow(SetNumber(turn), waiting.iter());
        held = doors.follow((&at_door(&door, u8::try_from(turn).unwrap()), SetNumber(turn)), &progress);
        assert!(!is_closed(&held, &door, "other"));
    }
    let closed: Vec<bool> = (1..29).map(|name| is_closed(&held, &door, &format!("c{name:02}"))).collect();
    assert_eq!(closed.iter().filter(|is_closed| !**is_closed).count(), MAX_OF_DOOR + 1, "{closed:?}");
}

#[test]
fn namespace_with_most_former_policies_is_closed() {
    let large = |name: &str, turn: u64| {
        let fields = Ok(Arc::new(json!(format!("{turn}{}", "x".repeat(1 << 20)))));
        let crowd = Door::Route(ObjectName::new("crowd", name));
        (crowd, vec![PolicyInEffect { fields, ..denies(1) }])
    };
    let (mut doors, mut held) = (FormerDoors::default(), Arc::default());
    let waits = progress(1, &["c"]);
    let own = at_route("a");
    doors.follow((&DoorPolicies::new([(own.clone(), vec![denies(1)])]), SetNumber(1)), &waits);
    for turn in 0..100 {
        held = doors.follow((&DoorPolicies::new([large(&format!("r{turn}"), turn)]), SetNumber(1)), &waits);
        let kept: usize = doors.former.values().flatten().map(|one| one.bytes).sum();
        assert!(kept <= MAX_BYTES, "{turn}");
    }
    let route = ObjectName::new("crowd", "any");
    assert!(held.are_unread(&edge(), "https", &route, "c") && !held.are_unread(&edge(), "https", &route, "d"));
    assert_eq!(denied(&held, &own, "c"), 1, "another namespace's stays");
    let held = doors.follow((&DoorPolicies::default(), SetNumber(1)), &progress(2, &[]));
    assert!(held.is_empty() && !held.are_unread(&edge(), "https", &route, "c"));
}

/// The step is run several times a second, and many policies may be held.
#[test]
fn same_policies_and_progress_make_nothing_new() {
    let door = at_route("a");
    let mut doors = FormerDoors::default();
    doors.follow((&at_door(&door, 1), SetNumber(1)), &progress(1, &[]));
    let mut at = |progress: &ClusterProgress| doors.follow((&at_door(&door, 0), SetNumber(2)), progress);
    let waits = progress(2, &["c"]);
    let first = at(&waits);
    assert!(Arc::ptr_eq(&at(&waits), &first));
    assert!(!Arc::ptr_eq(&at(&progress(3, &["c"])), &first) && at(&progress(3, &[])).is_empty());
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
        let door = at_route("a");
        let (mut doors, mut progress) = (FormerDoors::default(), ClusterProgress::default());
        // The number of the set, and of the one of the last verdicts; the newest objects.
        let (mut number, mut of, mut at, mut cluster) = (1_u64, 1_u64, 0xff_u8, 0_u8);
        let mut versions = vec![(number, cluster)];
        let (mut served_version, mut always) = (cluster, at | cluster);
        let mut held = doors.follow((&at_door(&door, at), SetNumber(of)), &progress);
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
                    held = doors.follow((&at_door(&door, at), SetNumber(of)), &progress);
                }
            }
            if cluster != before.1 {
                number += 1;
                versions.push((number, cluster));
            }
            if at != before.0 {
                of = number;
            }
            always &= at | cluster;
            let now = denied(&held, &door, "c") | served_version;
            prop_assert_eq!(always & !now, 0, "{:?}: {:?}", event, versions);
        }
    }
}
