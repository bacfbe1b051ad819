//! The processes that report the use of limits, of which each owner has a bounded number: parts are reserved and kept for each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portcullis_limits::NodeOwners;
use portcullis_xds::{gateway_namespace, node_owner};

use super::recent_reports::RecentReports;

/// Most processes of nodes that belong to no instance, and most of one owner: an instance, or a guest. The limits of an object have room
/// for both owners of a hand-over.
const MAX_OF_NONE: usize = 3_584;
const MAX_OF_OWNER: usize = 256;
/// Most instances, and most guests, with a number of their own; those beyond have one together, and a few of it each.
const MAX_OWNERS: usize = 100;
const MAX_OF_ONE_BEYOND: usize = 4;

/// The processes that have reported of late.
#[derive(Debug, Default)]
pub(super) struct LimitReporters {
    owners: NodeOwners,
    known: Mutex<KnownReporters>,
}

/// A node's name, and one of its processes.
type NodeProcess = Arc<(String, u64)>;

/// The processes of each owner. One report is noted at the cost of a few searches, so that a flood of them leaves the lock to others.
#[derive(Debug, Default)]
struct KnownReporters {
    of_none: RecentReports<NodeProcess>,
    of_instances: OwnedReporters,
    /// Apart: a tenant may have many namespaces, and take the places of no instance.
    of_guests: OwnedReporters,
}

#[derive(Debug, Default)]
struct OwnedReporters {
    /// The owners with a number of their own.
    owners: RecentReports<String>,
    of_owners: BTreeMap<String, RecentReports<NodeProcess>>,
    /// Processes of the owners beyond, after their names.
    of_others: RecentReports<(String, NodeProcess)>,
}

impl LimitReporters {
    pub(super) fn new(owners: NodeOwners) -> Self {
        Self { owners, known: Mutex::default() }
    }

    /// Takes note of a report by a process of the node of that name, which may have a part of a limit in it: others would take places for
    /// nothing. False if its owner has too many.
    pub(super) fn admit(&self, node: &str, process: u64, now: Duration) -> bool {
        let process = Arc::new((node.to_owned(), process));
        let guest = self.owners.guest_of(node);
        // A Gateway that is no guest's is the platform's.
        let instance = node_owner(node).filter(|_| gateway_namespace(node).is_none());
        // A panic elsewhere leaves at most one process without its place.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match (guest, instance) {
            (Some(guest), _) => known.of_guests.admit(guest, &process, now),
            (None, Some(instance)) => known.of_instances.admit(instance.to_owned(), &process, now),
            (None, None) => known.of_none.admit(&process, MAX_OF_NONE, now),
        }
    }
}

impl OwnedReporters {
    fn admit(&mut self, owner: String, process: &NodeProcess, now: Duration) -> bool {
        if !self.owners.contains(&owner) && self.owners.len() >= MAX_OWNERS {
            match self.owners.forget_oldest(now) {
                Some(gone) => drop(self.of_owners.remove(&gone)),
                None => return self.admit_beyond(owner, process, now),
            }
        }
        // The owner has its place for as long as one of its processes.
        self.owners.admit(&owner, MAX_OWNERS, now);
        self.of_owners.entry(owner).or_default().admit(process, MAX_OF_OWNER, now)
    }

    /// Admits a process of an owner that has no number of its own.
    fn admit_beyond(&mut self, owner: String, process: &NodeProcess, now: Duration) -> bool {
        let first = (owner.clone(), NodeProcess::default());
        let sender = (owner, Arc::clone(process));
        let of_owner = self.of_others.recent_from(&first, now).take_while(|(owner, _)| *owner == sender.0);
        let has_room = of_owner.filter(|one| **one != sender).count() < MAX_OF_ONE_BEYOND;
        has_room && self.of_others.admit(&sender, MAX_OF_OWNER, now)
    }
}

#[cfg(test)]
mod tests {
    use portcullis_limits::RESERVED_FOR;

    use super::super::owners::node_owners;
    use super::*;

    #[test]
    fn processes_of_an_instance_leave_places_for_those_of_others() {
        let reporters = LimitReporters::new(node_owners(Some("portcullis".to_owned())));
        let start = Duration::from_secs(1_000);
        let admitted =
            |node: &dyn Fn(u64) -> String, at| (0..5_000).filter(|one| reporters.admit(&node(*one), *one, at)).count();
        assert_eq!(admitted(&|one| format!("a/{}", one / 4), start), MAX_OF_OWNER);
        assert_eq!(admitted(&|one| format!("b/{one}"), start), MAX_OF_OWNER);
        assert_eq!(admitted(&|one| format!("n{one}"), start), MAX_OF_NONE);
        assert!(reporters.admit("a/0", 1, start), "one that is known reports on");
        assert!(!reporters.admit("a/late", 1, start));
        let later = start + RESERVED_FOR;
        assert!(reporters.admit("a/late", 1, later), "the others have ended");
        assert!((0..200).all(|owner| reporters.admit(&format!("i{owner}/x"), 1, later)));
        assert!(reporters.admit("one-more/x", 1, later), "of those beyond, together");
        let known = &reporters.known.lock().unwrap().of_instances;
        assert_eq!((known.owners.len(), known.of_owners.len()), (MAX_OWNERS, MAX_OWNERS));
        assert_eq!(known.of_others.len(), 102);
    }

    #[test]
    fn processes_of_guests_take_no_place_of_others() {
        let reporters = LimitReporters::new(node_owners(Some("portcullis".to_owned())));
        let start = Duration::from_secs(1_000);
        let admitted =
            |node: &dyn Fn(u64) -> String| (0..30_000).filter(|one| reporters.admit(&node(*one), *one, start)).count();
        let of_many = admitted(&|one| format!("gateway:team-{}/edge/envoy-{one}", one % 150));
        assert_eq!(of_many, MAX_OWNERS * 200 + 50 * MAX_OF_ONE_BEYOND, "those beyond a hundred have a few each");
        assert!(reporters.admit("gateway:team-149/edge/envoy-149", 149, start), "one that is known reports on");
        let of_more = admitted(&|one| format!("gateway:more-{one}/edge/envoy"));
        assert_eq!(of_more, MAX_OF_OWNER - 50 * MAX_OF_ONE_BEYOND, "and no more than one owner together");
        assert_eq!(admitted(&|one| format!("gateway:team-0/edge/more-{one}")), MAX_OF_OWNER - 200);
        assert_eq!(admitted(&|one| format!("a/{one}")), MAX_OF_OWNER, "an instance has its own");
        let of_home = |one| format!("gateway:portcullis/edge/envoy-{one}");
        assert_eq!(admitted(&of_home), MAX_OF_NONE, "the platform's Gateways are of the fleet");
        assert!(!reporters.admit("envoy-0", 1, start));
    }
}
