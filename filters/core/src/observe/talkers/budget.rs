use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::Talkers;
use crate::weak_map::WeakMap;

/// Names of a process, of all kinds, beside [`ALWAYS`] of each kind for each cluster. A name takes some 200 bytes.
const MAX_NAMES: u32 = 32_768;
/// Names of each kind for which a cluster has room however many others there are.
const ALWAYS: usize = 2;
/// Users, groups and user agents.
const KINDS: u32 = 3;

/// The names that all clusters of a process may still keep.
#[derive(Debug)]
pub(crate) struct TalkerBudget {
    left: AtomicU32,
    clusters: AtomicU32,
    /// By the cluster's name: one for each, however many objects of the name still have streams.
    current: WeakMap<String, Talkers>,
}

impl Default for TalkerBudget {
    fn default() -> Self {
        TalkerBudget { left: AtomicU32::new(MAX_NAMES), clusters: AtomicU32::new(0), current: WeakMap::default() }
    }
}

impl TalkerBudget {
    /// Talkers for the newest object of this name. Those of an earlier one are forgotten.
    pub(crate) fn start(self: &Arc<Self>, cluster: &str) -> Arc<Talkers> {
        let talkers = Arc::new(Talkers::new(self));
        if let Some(former) = self.current.replace(cluster.to_owned(), &talkers) {
            former.forget();
        }
        talkers
    }
}

/// One cluster's part of the budget.
#[derive(Debug)]
pub(super) struct TalkerLease {
    budget: Arc<TalkerBudget>,
    taken: AtomicU32,
    has_ended: AtomicBool,
}

impl TalkerLease {
    pub(super) fn new(budget: &Arc<TalkerBudget>) -> Self {
        budget.clusters.fetch_add(1, Ordering::Relaxed);
        TalkerLease { budget: Arc::clone(budget), taken: AtomicU32::new(0), has_ended: AtomicBool::new(false) }
    }

    /// Leaves the share to others. Names that were taken stay so until they are given back.
    pub(super) fn end(&self) {
        if !self.has_ended.swap(true, Ordering::Relaxed) {
            self.budget.clusters.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// The names of each kind that the cluster may keep: at most `capacity`, and at most a fair share of what the process has, so
    /// that the busiest clusters leave room for the others.
    pub(super) fn share(&self, capacity: u32) -> usize {
        let clusters = self.budget.clusters.load(Ordering::Relaxed);
        let share = MAX_NAMES.checked_div(clusters.saturating_mul(KINDS)).unwrap_or(MAX_NAMES);
        usize::try_from(capacity.min(share)).unwrap_or(usize::MAX).max(ALWAYS)
    }

    /// Whether one more name may be kept beside that many of its kind.
    pub(super) fn has_room(&self, names: usize, capacity: u32) -> bool {
        if names < ALWAYS {
            return true;
        }
        if names >= self.share(capacity) {
            return false;
        }
        let has_left = |left: u32| left.checked_sub(1);
        let is_taken = self.budget.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_left).is_ok();
        self.taken.fetch_add(u32::from(is_taken), Ordering::Relaxed);
        is_taken
    }

    /// Gives back the room of names beyond [`ALWAYS`].
    pub(super) fn give_back(&self, names: usize) {
        let names = u32::try_from(names).unwrap_or(u32::MAX);
        let without = |taken: u32| Some(taken.saturating_sub(names));
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, without).unwrap_or(0);
        self.budget.left.fetch_add(names.min(taken), Ordering::Relaxed);
    }
}

impl Drop for TalkerLease {
    fn drop(&mut self) {
        self.budget.left.fetch_add(*self.taken.get_mut(), Ordering::Relaxed);
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of one kind that find room, at most.
    fn filled(lease: &TalkerLease, capacity: u32) -> usize {
        (0..).find(|names| !lease.has_room(*names, capacity)).unwrap()
    }

    #[test]
    fn names_of_all_clusters_stay_within_the_budget() {
        let budget = Arc::default();
        let one = TalkerLease::new(&budget);
        assert_eq!(filled(&one, 200), 200);
        drop(one);
        let many: Vec<_> = (0..10_000).map(|_| TalkerLease::new(&budget)).collect();
        assert!(many.iter().all(|lease| (0..3).all(|_| filled(lease, 2_000) == ALWAYS)));
        drop(many);
        let some: Vec<_> = (0..100).map(|_| TalkerLease::new(&budget)).collect();
        let names: usize = some.iter().map(|lease| (0..3).map(|_| filled(lease, 2_000)).sum::<usize>()).sum();
        assert_eq!(names, 100 * 3 * 109, "each has its share");
        assert!(names <= usize::try_from(MAX_NAMES).unwrap());
        drop(some);
        assert_eq!(budget.left.load(Ordering::Relaxed), MAX_NAMES);
    }
    #[test]
    fn objects_of_one_name_have_one_share() {
        let budget: Arc<TalkerBudget> = Arc::default();
        let other = budget.start("other");
        let objects: Vec<_> = (0..1_000).map(|_| budget.start("prod")).collect();
        assert_eq!(budget.clusters.load(Ordering::Relaxed), 2);
        assert_eq!(other.lease.share(u32::MAX), 5_461);
        assert!(objects[..999].iter().all(|former| former.is_forgotten()) && !objects[999].is_forgotten());
        drop((objects, other));
        assert_eq!(budget.clusters.load(Ordering::Relaxed), 0);
        assert_eq!(budget.left.load(Ordering::Relaxed), MAX_NAMES);
    }
}
