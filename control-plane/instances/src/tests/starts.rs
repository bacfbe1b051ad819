//! Two replicas that start anew, take turns at leading, and lose all Gateways for a while: a class of Gateways may be away.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::properties::{Event, World, event};
use crate::{InstanceObjects, Member, MemberKind, MemberName, Settlement, settle};

/// One turn of the world.
#[derive(Clone, Debug)]
enum FleetTurn {
    /// An object is otherwise than before.
    Edit(Event),
    /// The class of the Gateways is there, or away.
    Class(bool),
    /// A replica starts anew, with all that it had settled or with nothing.
    Start(usize, bool),
    /// A replica leads from now on.
    Leads(usize),
}

fn turn() -> impl Strategy<Value = FleetTurn> {
    prop_oneof![
        6 => event().prop_map(FleetTurn::Edit),
        1 => any::<bool>().prop_map(FleetTurn::Class),
        2 => (0..2_usize, any::<bool>()).prop_map(|(replica, is_saved)| FleetTurn::Start(replica, is_saved)),
        1 => (0..2_usize).prop_map(FleetTurn::Leads),
    ]
}

/// The objects, and both replicas.
#[derive(Default)]
struct ReplicaPair {
    world: World,
    is_class_away: bool,
    leader: usize,
    replicas: [Settlement; 2],
    /// The owners in the statuses of clusters.
    statuses: BTreeMap<MemberName, String>,
}

impl ReplicaPair {
    fn take(&mut self, turn: &FleetTurn) {
        match *turn {
            FleetTurn::Edit(ref event) => self.world.apply(event),
            FleetTurn::Class(is_there) => self.is_class_away = !is_there,
            FleetTurn::Start(replica, is_saved) if !is_saved => self.replicas[replica] = Settlement::default(),
            FleetTurn::Start(..) => {}
            FleetTurn::Leads(replica) => self.leader = replica,
        }
        // An object that is gone takes its status with it.
        let there: Vec<MemberName> = self.members().into_iter().map(|member| member.name).collect();
        self.statuses.retain(|name, _| there.contains(name));
        self.settle();
        self.write();
        self.settle();
    }

    /// The members, but for Gateways whose class is away, each with its status.
    fn members(&self) -> Vec<Member> {
        let all = self.world.members.values().filter(|one| !self.is_class_away || one.name.kind != MemberKind::Gateway);
        all.map(|one| Member { recorded: self.statuses.get(&one.name).cloned(), ..one.clone() }).collect()
    }

    fn settle(&mut self) {
        let (instances, members): (Vec<_>, _) = (self.world.instances.values().cloned().collect(), self.members());
        for (number, replica) in self.replicas.iter_mut().enumerate() {
            let (instances, members) = (instances.clone(), members.clone());
            let objects = InstanceObjects { instances, members, follows_statuses: number != self.leader };
            *replica = settle(replica, &objects, |_, _| false);
        }
    }

    fn write(&mut self) {
        let owners = &self.replicas[self.leader].owners;
        let clusters = owners.iter().filter(|(name, _)| name.kind == MemberKind::UpstreamCluster);
        let owned = clusters.filter_map(|(name, owner)| Some((name.clone(), owner.settled().instance()?.to_owned())));
        self.statuses = owned.collect();
    }

    /// The instance of a member at a replica, or of the end of its hand-over.
    fn settled(&self, replica: usize, member: &MemberName) -> Option<&str> {
        self.replicas[replica].owners.get(member)?.settled().instance()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn owner_is_one_over_starts_and_absent_classes(turns in prop::collection::vec(turn(), 1..60)) {
        let mut fleet = ReplicaPair::default();
        for turn in &turns {
            let statuses = fleet.statuses.clone();
            fleet.take(turn);
            for member in fleet.members() {
                let selecting = fleet.world.selecting(&member);
                for (number, replica) in fleet.replicas.iter().enumerate() {
                    let holder = replica.owners[&member.name].holder.instance();
                    let settled = fleet.settled(number, &member.name);
                    // Whatever happened before, it has an owner.
                    let is_right = |name: &str| selecting.contains(&name) || fleet.world.is_refused(name);
                    prop_assert!(selecting.is_empty() || settled.is_some_and(is_right), "{turn:?} {number} {member:?}");
                    // With nothing to hand over from, the next owner has it at once.
                    let waits = replica.owners[&member.name].next.is_some();
                    prop_assert!(selecting.is_empty() || waits || holder.is_some(), "{turn:?} {number} {member:?}");
                }
                if member.name.kind != MemberKind::UpstreamCluster {
                    continue;
                }
                let both = [0, 1].map(|replica| fleet.settled(replica, &member.name));
                if !selecting.is_empty() {
                    prop_assert_eq!(both[0], both[1], "{:?} {:?}", turn, &member);
                }
                // Over a start, too, with what was saved or without.
                if let (FleetTurn::Start(..) | FleetTurn::Class(_), Some(owner)) = (turn, statuses.get(&member.name)) {
                    let keeps = selecting.contains(&owner.as_str()) || fleet.world.is_refused(owner);
                    prop_assert!(!keeps || both == [Some(owner.as_str()); 2], "{turn:?} {both:?} {owner}");
                }
            }
        }
    }
}

/// The property meets what it is about.
#[test]
fn turns_meet_starts_that_would_change_owners() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut bare, mut away) = (0, 0);
    for _ in 0..200 {
        let turns = prop::collection::vec(turn(), 1..60).new_tree(&mut runner).unwrap().current();
        let mut fleet = ReplicaPair::default();
        for turn in &turns {
            fleet.take(turn);
            if let FleetTurn::Start(_, false) = turn {
                // Of a control plane that has neither a status nor its past.
                let objects = fleet.world.objects();
                let fresh = settle(&Settlement::default(), &objects, |_, _| false);
                let differs = |(name, owner): (&MemberName, &String)| {
                    fresh.owners.get(name).and_then(|one| one.settled().instance()) != Some(owner.as_str())
                };
                bare += fleet.statuses.iter().filter(|one| differs(*one)).count();
            }
            let is_gateway = |one: &&Member| one.name.kind == MemberKind::Gateway;
            away += fleet.world.members.values().filter(is_gateway).filter(|_| fleet.is_class_away).count();
        }
    }
    assert!(bare > 50 && away > 100, "{bare} {away}");
}
