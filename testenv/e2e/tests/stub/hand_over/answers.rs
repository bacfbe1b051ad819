//! Clusters that pass over are answered at every moment, by their own servers alone, and others notice nothing.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use portcullis_harness::certs::{CertSpec, Identity};

use super::owners::{HAND_OVER, LabelledCluster, SOON, TEAMS, Team, TwoOwners};
use super::seekers::{Seeker, Seen, count};
use crate::fixture::{PODS, Pki, StopOnDrop};

/// Fewer answers than clients have on new connections, and on kept ones, in the time of a hand-over.
const STEADY: u64 = 50;

/// A cluster, its first owner and all that its clients have seen.
struct Watched {
    cluster: LabelledCluster,
    owner: Team,
    client: Identity,
    seen: Seen,
}

impl Watched {
    fn new(pki: &Pki, name: &str, owner: Team) -> Self {
        let client = pki.client_ca.issue(&CertSpec::client(format!("user-of-{name}"), ["dev"])).unwrap();
        Watched { cluster: LabelledCluster::new(pki, name), owner, client, seen: Seen::default() }
    }

    /// A client that asks at these Envoys in this order.
    fn seeker(&self, owners: &TwoOwners, order: &[Team]) -> Seeker<'_> {
        let target = |team: &Team| (*team, owners.target(*team, &self.cluster, &self.client));
        Seeker::new(&self.cluster, &self.seen, order.iter().map(target).collect())
    }

    fn wait_answers(&self, team: Team) {
        let what = format!("the Envoy of {} answers for {}", team.name(), self.cluster.name);
        self.seen.wait_more(&what, SOON, &self.seen.at(team).answered);
    }

    fn wait_refusals(&self, team: Team) {
        let what = format!("the Envoy of {} refuses {}", team.name(), self.cluster.name);
        self.seen.wait_more(&what, SOON + HAND_OVER, &self.seen.at(team).refused);
    }

    /// How many requests its first owner's Envoy has refused, and how many connections there have ended.
    fn lost(&self) -> [u64; 2] {
        let at = self.seen.at(self.owner);
        [count(&at.refused), count(&at.ended)]
    }

    /// Asserts that each request was answered, by the cluster's server and for its user.
    fn assert_answered(&self) {
        assert!(self.seen.faults().is_empty(), "{:#?}", self.seen);
        let user = format!("user-of-{}", self.cluster.name.trim_end_matches(".test"));
        self.cluster.assert_users(&[&user]);
        let answered: u64 = TEAMS.iter().map(|team| count(&self.seen.at(*team).answered)).sum();
        assert!(self.cluster.stub.records_for(PODS).len() as u64 >= answered, "{:#?}", self.seen);
    }
}

/// Labels clusters with the other owners until these answer, and asserts that the first ones refuse nothing meanwhile.
fn pass(owners: &TwoOwners, all: &[&Watched]) {
    let (edit, before) = (Instant::now(), lost(all));
    all.iter().for_each(|one| owners.give(&one.cluster, one.owner.other()));
    all.iter().for_each(|one| one.wait_answers(one.owner.other()));
    let after = lost(all);
    // On a machine that is so slow the other ones may have them alone.
    assert!(after == before || edit.elapsed() >= HAND_OVER, "a former owner ceased first: {before:?}, {after:?}");
}

fn lost(all: &[&Watched]) -> Vec<[u64; 2]> {
    all.iter().map(|one| one.lost()).collect()
}

/// Clusters pass to their other owners and back, before these have them alone: the Envoys of the first ones never cease.
fn pass_and_return(owners: &TwoOwners, all: &[&Watched]) {
    let (edit, before) = (Instant::now(), lost(all));
    pass(owners, all);
    all.iter().for_each(|one| owners.give(&one.cluster, one.owner));
    all.iter().for_each(|one| one.wait_refusals(one.owner.other()));
    all.iter().for_each(|one| one.wait_answers(one.owner));
    let after = lost(all);
    assert!(after == before || edit.elapsed() >= HAND_OVER, "the first owners ceased: {before:?}, {after:?}");
}

/// Clusters pass over until their first owners' Envoys have ceased, and back until these answer again.
fn pass_for_good_and_return(owners: &TwoOwners, all: &[&Watched]) {
    let edit = Instant::now();
    pass(owners, all);
    all.iter().for_each(|one| one.wait_refusals(one.owner));
    assert!(edit.elapsed() >= HAND_OVER, "the former owners ceased {:?} after the edit", edit.elapsed());
    all.iter().for_each(|one| owners.give(&one.cluster, one.owner));
    all.iter().for_each(|one| one.wait_answers(one.owner));
}

/// Three times there and back. Two clusters pass at once, in both directions, so that one hand-over's time is enough.
#[test]
fn cluster_that_passes_to_another_owner_is_always_answered() {
    let pki = Pki::new();
    let [going, coming] =
        [("going", Team::A), ("coming", Team::B)].map(|(name, owner)| Watched::new(&pki, name, owner));
    let staying = Watched::new(&pki, "staying", Team::A);
    let (passing, all) = ([&going, &coming], [&going, &coming, &staying]);
    let owners = TwoOwners::start("hand-over", &all.map(|one| (&one.cluster, one.owner)));
    all.iter().for_each(|one| owners.wait_served(one.owner, &one.cluster, &one.client));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for one in passing {
            for first in TEAMS {
                let seeker = one.seeker(&owners, &[first, first.other()]);
                scope.spawn(|| seeker.run(&stop));
            }
        }
        let seeker = staying.seeker(&owners, &[staying.owner]);
        scope.spawn(|| seeker.run(&stop));
        all.iter().for_each(|one| one.wait_answers(one.owner));
        (0..2).for_each(|_| pass_and_return(&owners, &passing));
        pass_for_good_and_return(&owners, &passing);
    });
    all.iter().for_each(|one| one.assert_answered());
    assert_eq!(staying.lost(), [0, 0], "{:#?}", staying.seen);
    let used = all.iter().map(|one| (one, one.owner)).chain(passing.iter().map(|one| (one, one.owner.other())));
    for (one, team) in used {
        let (name, at) = (&one.cluster.name, one.seen.at(team));
        let (answered, on_kept) = (count(&at.answered), count(&at.answered_on_kept));
        eprintln!("{name} at {}: {answered} answers on new connections, {on_kept} on kept ones", team.name());
        assert!(answered > STEADY && on_kept > STEADY, "{name}: {:#?}", one.seen);
    }
}
