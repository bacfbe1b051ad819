//! Clusters that are divided among instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::{PolicyInEffect, with_policies};
use portcullis_sources::ObjectSet;
use portcullis_translate::{FilterBuild, Reason};
use portcullis_xds::{Snapshot, View};
use serde_json::{Value, json};

use super::super::{Reconciler, WantedView};
use super::{HOUR, certificate, object, settings};

pub(super) const HAND_OVER: Duration = Duration::from_secs(30);

/// Objects, as they change.
pub(super) struct World {
    pub(super) keys: [String; 2],
    /// The team of each object, by its number.
    pub(super) clusters: BTreeMap<u8, &'static str>,
    /// The edition of all objects.
    edition: u8,
    pub(super) instances: Vec<Value>,
    /// Settings of all gateways, and those that instances may name.
    pub(super) settings: (Value, Vec<Value>),
    /// Whether objects have neither a serving certificate nor a client CA.
    pub(super) are_bare: bool,
    /// In effect on all objects, or on some.
    pub(super) policies: Vec<PolicyInEffect>,
    pub(super) targets: Option<BTreeSet<u8>>,
    /// The views of Envoys with `portcullis.wasm`.
    wanted: BTreeSet<WantedView>,
    pub(super) now: Instant,
    pub(super) reconciler: Reconciler,
}

fn instance(name: &str, created: &str, selector: Value) -> Value {
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "Instance",
        "metadata": {"name": name, "creationTimestamp": created}, "spec": {"clustersSelector": selector},
    })
}

fn wasm(instance: Option<&str>) -> WantedView {
    WantedView { filter: FilterBuild::Wasm, instance: instance.map(str::to_owned) }
}

pub(super) fn of_team(name: &str, created: &str) -> Value {
    instance(name, created, json!({"matchLabels": {"team": name}}))
}

impl World {
    pub(super) fn new(clusters: &[(u8, &'static str)], instances: &[Value]) -> Self {
        Self {
            keys: certificate(),
            clusters: clusters.iter().copied().collect(),
            edition: 0,
            instances: instances.to_vec(),
            settings: (settings(false), Vec::new()),
            are_bare: false,
            policies: Vec::new(),
            targets: None,
            wanted: [wasm(None), wasm(Some("a")), wasm(Some("b"))].into(),
            now: Instant::now(),
            reconciler: Reconciler::resume(None, 24 * HOUR),
        }
    }

    pub(super) fn reconcile(&mut self) -> super::super::Reconciled {
        let clusters = self.clusters.iter().map(|(number, team)| {
            let mut document = object(*number, self.edition, &self.keys).as_ref().clone();
            // A number, as a file may have it.
            if self.are_bare {
                document["spec"]["secureServing"] = json!({});
            }
            document["metadata"]["labels"] = if *team == "1" { json!({"team": 1}) } else { json!({"team": team}) };
            let is_target = self.targets.as_ref().is_none_or(|targets| targets.contains(number));
            with_policies(&Arc::new(document), if is_target { &self.policies } else { &[] })
        });
        let set = ObjectSet {
            clusters: clusters.collect(),
            settings: vec![self.settings.0.clone()],
            instance_settings: self.settings.1.iter().cloned().map(Arc::new).collect(),
            instances: self.instances.iter().cloned().map(Arc::new).collect(),
            ..ObjectSet::default()
        };
        self.reconciler.reconcile(&set, &self.wanted, self.now).unwrap()
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        self.reconcile().snapshot
    }
}

/// The numbers of the objects in each view, by the view's name; that of no instance is empty.
fn served(snapshot: &Snapshot) -> BTreeMap<String, Vec<u8>> {
    let numbers = |view: &Snapshot| {
        (0..4).filter(|number| view.version_of(&format!("c{number}.example.com")).is_some()).collect()
    };
    let views = snapshot.views().map(|(name, view)| (name.to_owned(), numbers(view)));
    views.chain([(String::new(), numbers(snapshot))]).collect()
}

/// The same of Envoys with the module.
pub(super) fn module(snapshot: &Snapshot) -> BTreeMap<String, Vec<u8>> {
    served(snapshot).into_iter().filter(|(name, _)| !name.ends_with("wasm")).collect()
}

pub(super) fn views(of: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
    of.iter().map(|(name, numbers)| ((*name).to_owned(), numbers.to_vec())).collect()
}

#[test]
fn clusters_are_divided_and_no_key_is_in_another_view() {
    let mut world = World::new(&[(0, "a"), (1, "b"), (2, "none")], &[of_team("a", "1"), of_team("b", "2")]);
    let snapshot = world.snapshot();
    let expected = [
        ("", &[2][..]),
        ("instance/a", &[0]),
        ("instance/a/wasm", &[0]),
        ("instance/b", &[1]),
        ("instance/b/wasm", &[1]),
        ("wasm", &[2]),
    ];
    assert_eq!(served(&snapshot), views(&expected));
    let view = snapshot.view(&View(Some("instance/a".to_owned()))).unwrap();
    let foreign = view.resources().find(|(_, name, _)| name.contains("c1.") || name.contains("c2."));
    assert!(foreign.is_none(), "{:?}", foreign.map(|(_, name, _)| name));
    assert!(view.resources().any(|(_, name, _)| name.contains("c0.example.com")));
}

/// Else one Envoy of a tenant has everything of all others translated twice.
#[test]
fn build_is_translated_for_the_instances_that_have_it() {
    let mut world = World::new(&[(0, "a"), (1, "b"), (2, "none")], &[of_team("a", "1"), of_team("b", "2")]);
    let of_a = |snapshot: &Snapshot| snapshot.view(&View(Some("instance/a/wasm".to_owned()))).cloned();
    let all = world.snapshot();
    world.wanted = [wasm(Some("a"))].into();
    let modules = [("", &[2][..]), ("instance/a", &[0]), ("instance/b", &[1])];
    let expected = views(&[&modules[..], &[("instance/a/wasm", &[0][..])]].concat());
    let own = world.snapshot();
    assert_eq!(served(&own), expected);
    assert!(of_a(&own) == of_a(&all), "names of others are closed as before");
    world.wanted.clear();
    assert_eq!(served(&world.snapshot()), views(&modules));
    world.wanted = [wasm(Some("a")), wasm(Some("unknown"))].into();
    let again = world.snapshot();
    assert_eq!(served(&again), expected);
    assert!(of_a(&again) == of_a(&all));
}

#[test]
fn clusters_are_for_all_without_instances() {
    let mut world = World::new(&[(0, "a"), (1, "b")], &[]);
    assert_eq!(served(&world.snapshot()), views(&[("", &[0, 1]), ("wasm", &[0, 1])]));
    assert_eq!(world.reconciler.next_expiry(), None);
}

#[test]
fn both_owners_serve_a_cluster_while_it_passes_over() {
    let mut world = World::new(&[(0, "a"), (1, "b")], &[of_team("a", "1"), of_team("b", "2")]);
    world.snapshot();
    world.clusters.insert(0, "b");
    let both = views(&[("", &[]), ("instance/a", &[0]), ("instance/b", &[0, 1])]);
    assert_eq!(module(&world.snapshot()), both);
    assert_eq!(world.reconciler.next_expiry(), Some(world.now + HAND_OVER));
    world.now += HAND_OVER - Duration::from_secs(1);
    assert_eq!(module(&world.snapshot()), both);
    world.now += Duration::from_secs(1);
    assert_eq!(module(&world.snapshot()), views(&[("", &[]), ("instance/a", &[]), ("instance/b", &[0, 1])]));
}

#[test]
fn first_instance_takes_over_while_envoys_of_none_serve_on() {
    for is_restarted in [false, true] {
        let mut world = World::new(&[(0, "a"), (1, "none")], &[]);
        let before = world.snapshot();
        if is_restarted {
            world.reconciler = Reconciler::resume(Some(&before), 24 * HOUR);
        }
        world.instances.push(of_team("a", "1"));
        // One that is new goes to no others.
        world.clusters.insert(2, "a");
        let both = views(&[("", &[0, 1]), ("instance/a", &[0, 2])]);
        assert_eq!(module(&world.snapshot()), both, "restarted: {is_restarted}");
        world.now += HAND_OVER;
        assert_eq!(module(&world.snapshot()), views(&[("", &[1]), ("instance/a", &[0, 2])]));
    }
}

#[test]
fn removed_instance_leaves_its_envoys_nothing() {
    let mut world = World::new(&[(0, "a"), (1, "none")], &[of_team("a", "1")]);
    world.snapshot();
    world.instances.clear();
    world.snapshot();
    world.now += HAND_OVER;
    let expected = [("", &[0, 1][..]), ("instance/a", &[]), ("instance/a/wasm", &[]), ("wasm", &[0, 1])];
    assert_eq!(served(&world.snapshot()), views(&expected));
}

#[test]
fn owners_stay_after_a_restart() {
    let young = of_team("a", "2026-02-01T00:00:00Z");
    let mut world = World::new(&[(0, "a")], &[young]);
    let before = world.snapshot();
    // An older one selects the same, while no control plane runs.
    world.instances.push(instance("old", "2026-01-01T00:00:00Z", json!({})));
    world.reconciler = Reconciler::resume(Some(&before), 24 * HOUR);
    let reconciled = world.reconcile();
    let found = served(&reconciled.snapshot);
    assert_eq!((&found["instance/a"], &found["instance/old"]), (&vec![0], &vec![]));
    let told = reconciled.diagnoses.iter().find(|one| one.name == "old").unwrap();
    assert_eq!((told.reason, told.accepted), (Reason::Conflicted, true));
    assert!(told.message.ends_with("UpstreamCluster c0.example.com belongs to Instance a"), "{}", told.message);
}

#[test]
fn refused_instance_keeps_its_clusters() {
    let mut world = World::new(&[(0, "a"), (1, "a")], &[of_team("a", "1")]);
    world.clusters.remove(&1);
    world.snapshot();
    world.instances = vec![instance("a", "1", json!({"matchFields": []}))];
    world.clusters.insert(1, "a");
    let reconciled = world.reconcile();
    let told = reconciled.diagnoses.iter().find(|one| one.kind == "Instance").unwrap();
    assert!(!told.accepted && told.message.contains("unknown field"), "{}", told.message);
    // By the version that was accepted last.
    assert_eq!(served(&reconciled.snapshot)["instance/a"], [0, 1]);
}

#[test]
fn refused_instance_opens_no_cluster_at_a_start() {
    let refused = instance("a", "1", json!({"matchFields": []}));
    let mut world = World::new(&[(0, "a"), (1, "none"), (2, "b")], &[refused, of_team("b", "2")]);
    // By which settings the first would be served is not known either: its Envoys keep what they have.
    let closed = views(&[("", &[]), ("instance/b", &[2])]);
    assert_eq!(module(&world.snapshot()), closed);
    world.instances = vec![of_team("a", "1"), of_team("b", "2")];
    let open = views(&[("", &[1]), ("instance/a", &[0]), ("instance/b", &[2])]);
    assert_eq!(module(&world.snapshot()), open);
}

#[test]
fn instances_beyond_the_views_leave_nothing_behind() {
    let instances: Vec<Value> = (0..201).map(|index| of_team(&format!("t{index:03}"), "1")).collect();
    let mut world = World::new(&[(0, "t000")], &instances);
    world.snapshot();
    // Servers with another CA are of another generation, and the former one is retained for a while.
    world.keys = certificate();
    assert_eq!(module(&world.snapshot())["instance/t000"], [0]);
    assert!(world.reconciler.instances.next_expiry().is_some(), "nothing is retained");
    world.instances.clear();
    assert_eq!(served(&world.snapshot()), views(&[("", &[0]), ("wasm", &[0])]));
    assert_eq!(world.reconciler.instances.next_expiry(), None);
    world.now += HAND_OVER;
    world.snapshot();
    assert_eq!(world.reconciler.next_expiry(), None, "else the same objects are reconciled without end");
}

#[test]
fn hand_over_begins_anew_after_a_restart() {
    // In both orders of names.
    for (from, to) in [("a", "b"), ("b", "a"), ("a", "none"), ("none", "b")] {
        let mut world = World::new(&[(0, from)], &[of_team("a", "1"), of_team("b", "2")]);
        world.snapshot();
        world.clusters.insert(0, to);
        let both = world.snapshot();
        world.now += HAND_OVER / 2;
        world.reconciler = Reconciler::resume(Some(&both), 24 * HOUR);
        assert_eq!(module(&world.snapshot()), module(&both), "{from} {to}");
        world.now += HAND_OVER / 2;
        assert_eq!(module(&world.snapshot()), module(&both), "{from} {to}");
        world.now += HAND_OVER / 2;
        let served: Vec<String> =
            module(&world.snapshot()).into_iter().filter(|(_, all)| *all == [0]).map(|(name, _)| name).collect();
        assert_eq!(served, [if to == "none" { String::new() } else { format!("instance/{to}") }], "{from} {to}");
    }
}

#[test]
fn object_made_anew_has_no_key_at_its_former_owner() {
    for had_instances in [true, false] {
        let instances = [of_team("a", "1"), of_team("b", "2")];
        let mut world = World::new(&[(0, "a")], if had_instances { &instances[..] } else { &[] });
        world.snapshot();
        world.instances = instances.to_vec();
        world.clusters.insert(0, "b");
        world.edition = 5;
        let expected = views(&[("", &[]), ("instance/a", &[]), ("instance/b", &[0])]);
        assert_eq!(module(&world.snapshot()), expected, "{had_instances}");
    }
}

#[test]
fn label_that_is_no_text_moves_no_cluster() {
    let mut world = World::new(&[(0, "a"), (1, "none"), (2, "1")], &[of_team("a", "1")]);
    let served = views(&[("", &[1]), ("instance/a", &[0])]);
    assert_eq!(module(&world.snapshot()), served, "the third may be of any");
    world.clusters.extend([(0, "1"), (1, "1")]);
    for _ in 0..2 {
        assert_eq!(module(&world.snapshot()), served);
        world.now += HAND_OVER;
    }
    world.clusters.extend([(0, "none"), (1, "a"), (2, "a")]);
    // A round of so few objects takes two edits.
    world.snapshot();
    assert_eq!(module(&world.snapshot()), views(&[("", &[0, 1]), ("instance/a", &[0, 1, 2])]));
}

#[test]
fn cluster_without_readable_labels_stays_with_envoys_of_none() {
    let mut world = World::new(&[(0, "1")], &[]);
    world.snapshot();
    world.instances.push(instance("a", "1", json!({})));
    for _ in 0..2 {
        assert_eq!(module(&world.snapshot()), views(&[("", &[0]), ("instance/a", &[])]));
        world.now += HAND_OVER;
    }
}

/// The number of an object that is the last of many.
const QUIET: u8 = 200;

/// Many objects of one team in an edition, and one with its own team and edition.
fn many_and_one(keys: &[String; 2], storm: u8, quiet: (&str, u8)) -> ObjectSet {
    let clusters = (0..=QUIET).map(|number| {
        let (team, edition) = if number == QUIET { quiet } else { ("a", storm) };
        let mut document = object(number, edition, keys).as_ref().clone();
        document["metadata"]["labels"] = json!({"team": team});
        Arc::new(document)
    });
    ObjectSet {
        clusters: clusters.collect(),
        settings: vec![settings(false)],
        instances: [of_team("a", "1"), of_team("b", "2")].map(Arc::new).to_vec(),
        ..ObjectSet::default()
    }
}

#[test]
fn object_made_anew_waits_in_the_line_of_its_new_instance() {
    let (keys, now) = (certificate(), Instant::now());
    let mut reconciler = Reconciler::resume(None, 24 * HOUR);
    let mut holders = |objects: &ObjectSet| {
        let reconciled = reconciler.reconcile(objects, &BTreeSet::new(), now).unwrap();
        let has = |name: &&str| {
            let view = reconciled.snapshot.view(&View(Some(format!("instance/{name}")))).unwrap();
            view.version_of(&format!("c{QUIET}.example.com")).is_some()
        };
        (["a", "b"].into_iter().filter(has).collect::<Vec<_>>(), reconciled.paced.is_some())
    };
    assert_eq!(holders(&many_and_one(&keys, 0, ("a", 0))), (vec!["a"], false));
    let made_anew = many_and_one(&keys, 1, ("b", 5));
    assert_eq!(holders(&made_anew), (vec!["b"], true), "the storm of the former owner delays neither");
}

#[test]
fn storm_of_one_instance_leaves_anothers_edit_its_round() {
    let (keys, now) = (certificate(), Instant::now());
    let set = |storm: u8, quiet: u8| many_and_one(&keys, storm, ("b", quiet));
    let mut reconciler = Reconciler::resume(None, 24 * HOUR);
    let mut follow = |objects: &ObjectSet| {
        let reconciled = reconciler.reconcile(objects, &BTreeSet::new(), now).unwrap();
        (reconciled, reconciler.next_expiry())
    };
    let version = |reconciled: &super::super::Reconciled| {
        let view = reconciled.snapshot.view(&View(Some("instance/b".to_owned()))).unwrap();
        view.version_of(&format!("c{QUIET}.example.com")).unwrap()
    };
    let (first, _) = follow(&set(0, 0));
    let (stormy, expiry) = follow(&set(1, 0));
    assert!(expiry == Some(now) && stormy.paced.is_some(), "the rest waits for another round, which is due");
    assert_eq!(stormy.diagnoses.len(), first.diagnoses.len());
    let (next, _) = follow(&set(2, 1));
    assert_ne!(version(&next), version(&first));
    assert!(!next.waiting.is_empty(), "the storm goes on");
    let mut last = next;
    for _ in 0..QUIET {
        if !last.waiting.is_empty() {
            last = follow(&set(2, 1)).0;
        }
    }
    assert!(last.waiting.is_empty() && last.paced.is_none());
    let fresh = Reconciler::resume(None, 24 * HOUR).reconcile(&set(2, 1), &BTreeSet::new(), now).unwrap();
    let names = |one: &Snapshot| {
        let view = one.view(&View(Some("instance/a".to_owned()))).unwrap();
        (0..QUIET).map(|number| view.version_of(&format!("c{number}.example.com"))).collect::<Vec<_>>()
    };
    assert_eq!(version(&last), version(&fresh));
    assert!(names(&fresh.snapshot).iter().all(Option::is_some));
}
