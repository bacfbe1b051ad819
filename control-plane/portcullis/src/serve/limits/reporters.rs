//! The processes that report the use of limits, of which each owner has a bounded number: parts are reserved and kept for each.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portcullis_limits::RESERVED_FOR;
use portcullis_xds::node_owner;

/// Most processes of nodes that belong to no instance, and most of one instance. The limits of an object have room for both owners of a
/// hand-over.
const MAX_OF_NONE: usize = 3_584;
const MAX_OF_INSTANCE: usize = 256;
/// Most instances with a number of their own; those beyond have one together.
const MAX_OWNERS: usize = 100;
/// The owner of those beyond. No node's name has it.
const OTHERS: &str = "/";

/// The processes that have reported of late.
#[derive(Debug, Default)]
pub(super) struct LimitReporters(Mutex<BTreeMap<Option<String>, OwnProcesses>>);

/// Those of one owner: when each of a node has reported last.
#[derive(Debug, Default)]
struct OwnProcesses(BTreeMap<(String, u64), Duration>);

impl LimitReporters {
    /// Takes note of a report by a process of the node of that name. False if its owner has too many.
    pub(super) fn admit(&self, node: &str, process: u64, now: Duration) -> bool {
        // A panic elsewhere leaves the map whole: each change is one insertion or removal.
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = node_owner(node).map(str::to_owned);
        let is_new = owner.is_some() && !owners.contains_key(&owner);
        if is_new && owners.len() > MAX_OWNERS {
            owners.retain(|_, processes| processes.0.values().any(|last| is_held(*last, now)));
        }
        let owner = if is_new && owners.len() > MAX_OWNERS { Some(OTHERS.to_owned()) } else { owner };
        let most = if owner.is_some() { MAX_OF_INSTANCE } else { MAX_OF_NONE };
        owners.entry(owner).or_default().admit((node.to_owned(), process), most, now)
    }
}

impl OwnProcesses {
    fn admit(&mut self, process: (String, u64), most: usize, now: Duration) -> bool {
        if let Some(last) = self.0.get_mut(&process) {
            *last = now.max(*last);
            return true;
        }
        if self.0.len() >= most {
            self.0.retain(|_, last| is_held(*last, now));
        }
        let has_room = self.0.len() < most;
        if has_room {
            self.0.insert(process, now);
        }
        has_room
    }
}

/// Whether parts of a process may be reserved that has reported then.
fn is_held(last: Duration, now: Duration) -> bool {
    now < last.saturating_add(RESERVED_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_an_instance_leave_places_for_those_of_others() {
        let reporters = LimitReporters::default();
        let start = Duration::from_secs(1_000);
        let admitted =
            |node: &dyn Fn(u64) -> String, at| (0..5_000).filter(|one| reporters.admit(&node(*one), *one, at)).count();
        assert_eq!(admitted(&|one| format!("a/{}", one / 4), start), MAX_OF_INSTANCE);
        assert_eq!(admitted(&|one| format!("b/{one}"), start), MAX_OF_INSTANCE);
        assert_eq!(admitted(&|one| format!("n{one}"), start), MAX_OF_NONE);
        assert!(reporters.admit("a/0", 1, start), "one that is known reports on");
        assert!(!reporters.admit("a/late", 1, start));
        let later = start + RESERVED_FOR;
        assert!(reporters.admit("a/late", 1, later), "the others have ended");
        assert!((0..200).all(|owner| reporters.admit(&format!("i{owner}/x"), 1, later)));
        assert!(reporters.admit("one-more/x", 1, later), "of those beyond, together");
        let known = reporters.0.lock().unwrap();
        assert!(known.len() <= MAX_OWNERS + 2, "{}", known.len());
    }
}
