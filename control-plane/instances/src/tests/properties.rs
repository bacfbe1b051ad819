//! Properties over events in any order.

use std::collections::BTreeMap;

use portcullis_api::SelectedLabels;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{instance, member, objects, team};
use crate::{
    Entitlement, InstanceClaim, InstanceObjects, Member, MemberHolder, MemberKind, MemberName, Settlement, settle,
};

const TEAMS: [&str; 3] = ["x", "y", "z"];
const INSTANCES: [&str; 4] = ["a", "b", "c", "d"];

/// One event.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// An instance is made or edited: its index, its second of creation, its selector.
    Instance(usize, u32, usize),
    /// An instance is refused.
    Refused(usize),
    /// An instance is removed.
    Removed(usize),
    /// A member is made or has other labels: its index and its team.
    Member(usize, usize),
    /// A member is gone.
    Gone(usize),
    /// The owner to be of a member is ready, or none is.
    Ready(Option<usize>),
}

fn selector(index: usize) -> Value {
    match index {
        0..3 => team(TEAMS[index]),
        3 => json!({}),
        4 => json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["x", "y"]}]}),
        5 => json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}),
        _ => json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["z"]}]}),
    }
}

fn name(index: usize) -> MemberName {
    match index {
        0..3 => MemberName::cluster(format!("c{index}")),
        3..5 => MemberName::gateway(format!("n/g{index}")),
        _ => MemberName::envoy(format!("e{index}")),
    }
}

/// Envoys have certificates of their own.
fn entitlement(index: usize) -> Entitlement {
    match index {
        0..6 => Entitlement::Any,
        6 => Entitlement::Free,
        _ => Entitlement::Named(["a".to_owned(), "b".to_owned()].into()),
    }
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..INSTANCES.len(), 0..3_u32, 0..7_usize).prop_map(|(index, second, selector)| Event::Instance(index, second, selector)),
        1 => (0..INSTANCES.len()).prop_map(Event::Refused),
        1 => (0..INSTANCES.len()).prop_map(Event::Removed),
        5 => (0..8_usize, 0..TEAMS.len()).prop_map(|(index, team)| Event::Member(index, team)),
        1 => (0..8_usize).prop_map(Event::Gone),
        3 => prop::option::of(0..8_usize).prop_map(Event::Ready),
    ]
}

/// The objects as they are after some events.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) instances: BTreeMap<usize, InstanceClaim>,
    pub(super) members: BTreeMap<usize, Member>,
}

impl World {
    pub(super) fn apply(&mut self, event: &Event) {
        match *event {
            Event::Instance(index, second, labels) => {
                let made = instance(INSTANCES[index], second, &selector(labels));
                let created = self.instances.get(&index).map(|before| before.creation_timestamp.clone());
                // An edit keeps the time of creation.
                let creation_timestamp = created.unwrap_or_else(|| made.creation_timestamp.clone());
                self.instances.insert(index, InstanceClaim { creation_timestamp, ..made });
            }
            Event::Refused(index) => {
                self.instances.entry(index).and_modify(|one| one.selection = None);
            }
            Event::Removed(index) => {
                self.instances.remove(&index);
            }
            Event::Member(index, team) => {
                let made = Member { entitlement: entitlement(index), ..member(name(index), TEAMS[team]) };
                self.members.insert(index, made);
            }
            Event::Gone(index) => {
                self.members.remove(&index);
            }
            Event::Ready(_) => {}
        }
    }

    pub(super) fn objects(&self) -> InstanceObjects {
        let instances: Vec<_> = self.instances.values().cloned().collect();
        objects(&instances, &self.members.values().cloned().collect::<Vec<_>>())
    }

    /// The names of instances that select a member to which it may belong, written anew and as simply as can be.
    pub(super) fn selecting(&self, member: &Member) -> Vec<&str> {
        let is_cluster = member.name.kind == MemberKind::UpstreamCluster;
        let selects = |one: &&InstanceClaim| {
            let selection = one.selection.clone().unwrap_or_default();
            let labels: Option<SelectedLabels> = if is_cluster { selection.clusters } else { selection.gateways };
            let is_admitted = match &member.entitlement {
                Entitlement::Any => true,
                Entitlement::Free => false,
                Entitlement::Named(names) => names.contains(&one.name),
            };
            is_admitted && labels.is_some_and(|labels| labels.selects(&member.labels))
        };
        self.instances.values().filter(selects).map(|one| one.name.as_str()).collect()
    }

    pub(super) fn is_refused(&self, instance: &str) -> bool {
        self.instances.values().any(|one| one.name == instance && one.selection.is_none())
    }
}

/// Settles as a caller does for whom one member's next owner is ready.
fn step(before: &Settlement, world: &World, event: &Event) -> Settlement {
    let ready = match event {
        Event::Ready(Some(index)) => Some(name(*index)),
        _ => None,
    };
    settle(before, &world.objects(), |member, _| Some(member) == ready.as_ref())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_of_objects_makes_no_difference(
        events in prop::collection::vec(event(), 1..30), ready in any::<bool>(), seed in any::<u64>(),
    ) {
        let (mut world, mut before) = (World::default(), Settlement::default());
        for event in &events {
            before = step(&before, &world, event);
            world.apply(event);
        }
        let objects = world.objects();
        let mut shuffled = objects.clone();
        let turn = |length: usize| usize::try_from(seed % 97).unwrap() % length.max(1);
        shuffled.instances.rotate_left(turn(objects.instances.len()));
        shuffled.members.reverse();
        prop_assert_eq!(settle(&before, &objects, |_, _| ready), settle(&before, &shuffled, |_, _| ready));
    }

    #[test]
    fn owner_stays_as_long_as_it_selects(events in prop::collection::vec(event(), 1..60)) {
        let (mut world, mut before) = (World::default(), Settlement::default());
        for event in &events {
            world.apply(event);
            let after = step(&before, &world, event);
            prop_assert_eq!(after.owners.len(), world.members.len(), "one owner each");
            for member in world.members.values() {
                let (selecting, now) = (world.selecting(member), &after.owners[&member.name]);
                let last = before.owners.get(&member.name);
                let held = last.and_then(|last| last.holder.instance());
                if let Some(held) = held.filter(|held| selecting.contains(held) || world.is_refused(held)) {
                    prop_assert_eq!((now.holder.instance(), &now.next), (Some(held), &None), "{:?} {:?}", event, member);
                }
                // Selected before and after: at no time without an instance, whatever happens between.
                if held.is_some() && !selecting.is_empty() {
                    prop_assert!(now.holder.instance().is_some(), "{event:?} {member:?} {now:?}");
                }
                if !selecting.is_empty() {
                    let settled = now.settled().instance();
                    let is_right = settled.is_some_and(|name| selecting.contains(&name) || world.is_refused(name));
                    prop_assert!(is_right, "{event:?} {member:?} {now:?}");
                }
            }
            before = after;
        }
    }

    #[test]
    fn gateway_reaches_clusters_of_one_owner_at_every_moment(events in prop::collection::vec(event(), 1..60)) {
        let (mut world, mut before) = (World::default(), Settlement::default());
        for event in &events {
            world.apply(event);
            let after = step(&before, &world, event);
            let of_kind = |kind: MemberKind| after.owners.iter().filter(move |(member, _)| member.kind == kind);
            for (gateway, of_gateway) in of_kind(MemberKind::Gateway) {
                for (cluster, of_cluster) in of_kind(MemberKind::UpstreamCluster) {
                    let reaches = after.separated(gateway, cluster).is_none();
                    let is_known = *of_cluster.settled() != MemberHolder::Nobody;
                    // Of one owner after the event: also if both were another one's before.
                    if of_gateway.settled() == of_cluster.settled() && is_known {
                        prop_assert!(reaches, "{event:?} {of_gateway:?} {of_cluster:?}");
                    }
                    let of_both = [of_gateway, of_cluster].map(|owner| {
                        std::iter::once(&owner.holder).chain(&owner.next).collect::<Vec<_>>()
                    });
                    let shares = of_both[0].iter().any(|holder| of_both[1].contains(holder));
                    prop_assert!(!reaches || (shares && is_known), "{event:?} {of_gateway:?} {of_cluster:?}");
                }
            }
            before = after;
        }
        // When nothing passes over, it is one owner exactly.
        let ready = |settled: &Settlement| settle(settled, &world.objects(), |_, _| true);
        let last = ready(&ready(&before));
        for (gateway, of_gateway) in last.owners.iter().filter(|(member, _)| member.kind == MemberKind::Gateway) {
            for (cluster, of_cluster) in last.owners.iter().filter(|(one, _)| one.kind == MemberKind::UpstreamCluster) {
                let is_one = of_gateway.holder == of_cluster.holder;
                prop_assert_eq!(last.separated(gateway, cluster).is_none(), is_one);
            }
        }
    }

    #[test]
    fn certificate_is_never_exceeded(events in prop::collection::vec(event(), 1..60)) {
        let (mut world, mut before) = (World::default(), Settlement::default());
        for event in &events {
            world.apply(event);
            before = step(&before, &world, event);
            for member in world.members.values() {
                let now = &before.owners[&member.name];
                let is_cluster = member.name.kind == MemberKind::UpstreamCluster;
                let may_wait = is_cluster && world.instances.values().any(|one| one.selection.is_none());
                for holder in std::iter::once(&now.holder).chain(&now.next) {
                    let is_admitted = match (&member.entitlement, holder) {
                        (Entitlement::Any, holder) => may_wait || *holder != MemberHolder::Nobody,
                        (Entitlement::Free, holder) => *holder == MemberHolder::Free,
                        (Entitlement::Named(names), MemberHolder::Instance(name)) => names.contains(name),
                        (Entitlement::Named(_), holder) => *holder == MemberHolder::Nobody,
                    };
                    prop_assert!(is_admitted, "{member:?} {now:?}");
                }
            }
        }
    }

    #[test]
    fn conflict_names_the_owner_that_is(events in prop::collection::vec(event(), 1..40)) {
        let (mut world, mut before) = (World::default(), Settlement::default());
        for event in &events {
            world.apply(event);
            before = step(&before, &world, event);
        }
        let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
        for member in world.members.values() {
            let owner = before.owners[&member.name].settled().instance();
            for other in world.selecting(member).into_iter().filter(|other| owner.is_some() && owner != Some(other)) {
                *expected.entry(other).or_default() += 1;
            }
        }
        let counts: BTreeMap<&str, usize> =
            before.conflicts.iter().map(|(name, conflicts)| (name.as_str(), conflicts.count)).collect();
        prop_assert_eq!(counts, expected);
        for conflict in before.conflicts.values().flat_map(|conflicts| &conflicts.named) {
            prop_assert_eq!(before.owners[&conflict.member].settled().instance(), Some(conflict.owner.as_str()));
        }
    }

    #[test]
    fn hand_overs_end_when_all_is_ready(events in prop::collection::vec(event(), 1..40)) {
        let (mut world, mut before) = (World::default(), Settlement::default());
        for event in &events {
            world.apply(event);
            before = step(&before, &world, event);
        }
        // Gateways first, then the clusters that they needed.
        let ready = |settled: &Settlement| settle(settled, &world.objects(), |_, _| true);
        let last = ready(&ready(&before));
        prop_assert_eq!(last.hand_overs(), vec![]);
        prop_assert_eq!(&ready(&last), &last);
        let wanted: Vec<_> = before.owners.values().map(|owner| owner.settled().clone()).collect();
        let found: Vec<_> = last.owners.values().map(|owner| owner.holder.clone()).collect();
        prop_assert_eq!(found, wanted);
    }
}

/// The properties meet what they are about.
#[test]
fn properties_meet_hand_overs_conflicts_and_refusals() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut moving, mut conflicts, mut closed, mut blind) = (0, 0, 0, 0);
    for _ in 0..200 {
        let events = prop::collection::vec(event(), 1..60).new_tree(&mut runner).unwrap().current();
        let (mut world, mut before) = (World::default(), Settlement::default());
        for event in &events {
            world.apply(event);
            before = step(&before, &world, event);
            moving += before.hand_overs().len();
            conflicts += before.conflicts.len();
            closed += before.owners.values().filter(|owner| owner.holder == MemberHolder::Nobody).count();
            let is_blind = |name: &str| world.is_refused(name);
            blind += before.owners.values().filter(|owner| owner.holder.instance().is_some_and(is_blind)).count();
        }
    }
    let counts = [moving, conflicts, closed, blind];
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}
