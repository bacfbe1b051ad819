//! The number of series that all clusters of a process may have together.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

/// Series of a process at most, beside the totals of each cluster.
///
/// Envoy takes some 320 bytes for a series with its labels: all of them, with the totals and the activity of 10,000 clusters, stay
/// below 64 MiB (docs/performance.md).
const MAX_SERIES: u32 = 65_536;
/// Of one in so many series at most the first request is one whose client was not authenticated.
const STRANGERS_PART: u32 = 8;
/// A cluster takes series while all that it would have are at most one in so many of those that are left. However many clusters
/// take all that they get, the next one gets a fifth of the rest.
const CLUSTERS_PART: u32 = 4;

/// The series that all clusters of a process may still make. A cluster without any left counts what is new as `other`.
#[derive(Debug)]
pub struct SeriesBudget {
    left: AtomicU32,
    left_for_strangers: AtomicU32,
    /// With keys of the process's own: writers of objects choose texts of labels, and must not find two of one hash.
    hasher: RandomState,
}

/// The series that a cluster has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UsedSeries {
    /// All of them.
    pub(super) all: u32,
    /// Those that were made by requests of clients that were not authenticated.
    pub(super) by_strangers: u32,
}

impl Default for SeriesBudget {
    fn default() -> Self {
        SeriesBudget::of(MAX_SERIES)
    }
}

impl SeriesBudget {
    /// A budget of that many series.
    pub(super) fn of(series: u32) -> Self {
        SeriesBudget {
            left: AtomicU32::new(series),
            left_for_strangers: AtomicU32::new(series / STRANGERS_PART),
            hasher: RandomState::new(),
        }
    }

    /// A number for the labels of a metric, equal for equal ones.
    pub(super) fn hash(&self, metric: &str, labels: &[&str]) -> u64 {
        self.hasher.hash_one((metric, labels))
    }

    /// Whether a cluster that has `used` may have that many more now.
    pub(super) fn allows(&self, used: UsedSeries, series: u32, is_known: bool) -> bool {
        may_take(self.left.load(Ordering::Relaxed), used.all, series)
            && (is_known || may_take(self.left_for_strangers.load(Ordering::Relaxed), used.by_strangers, series))
    }

    /// Takes more series for a cluster that has `used`; for a client that was not authenticated unless `is_known`. False if it
    /// may not have them: none is taken then.
    pub(super) fn take(&self, used: &mut UsedSeries, series: u32, is_known: bool) -> bool {
        if !is_known && !take(&self.left_for_strangers, used.by_strangers, series) {
            return false;
        }
        let is_taken = take(&self.left, used.all, series);
        if is_taken {
            used.all = used.all.saturating_add(series);
        }
        match (is_known, is_taken) {
            (false, true) => used.by_strangers = used.by_strangers.saturating_add(series),
            (false, false) => _ = self.left_for_strangers.fetch_add(series, Ordering::Relaxed),
            (true, _) => {}
        }
        is_taken
    }

    /// Gives back all that a cluster has.
    pub(super) fn give_back(&self, used: UsedSeries) {
        self.left.fetch_add(used.all, Ordering::Relaxed);
        self.left_for_strangers.fetch_add(used.by_strangers, Ordering::Relaxed);
    }
}

fn may_take(left: u32, used: u32, series: u32) -> bool {
    used.saturating_add(series) <= left / CLUSTERS_PART
}

fn take(pool: &AtomicU32, used: u32, series: u32) -> bool {
    let after = |left| if may_take(left, used, series) { u32::checked_sub(left, series) } else { None };
    pool.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes series one by one while there are any.
    fn fill(budget: &SeriesBudget, is_known: bool) -> UsedSeries {
        let mut used = UsedSeries::default();
        while budget.take(&mut used, 1, is_known) {}
        used
    }

    #[test]
    fn greedy_clusters_leave_room_for_the_next() {
        let budget = SeriesBudget::default();
        let greedy: Vec<_> = (0..10).map(|_| fill(&budget, true).all).collect();
        assert_eq!((greedy[0], greedy[9]), (13_107, 1_759));
        let mut next = UsedSeries::default();
        assert!(budget.take(&mut next, 1_000, true), "{greedy:?}");
        let taken = greedy.iter().sum::<u32>() + next.all;
        assert_eq!(budget.left.load(Ordering::Relaxed), MAX_SERIES - taken);
    }

    #[test]
    fn strangers_leave_room_for_users() {
        let budget = SeriesBudget::default();
        let by_strangers: u32 = (0..1_000).map(|_| fill(&budget, false).all).sum();
        assert!(by_strangers <= MAX_SERIES / STRANGERS_PART, "{by_strangers}");
        assert!(fill(&budget, true).all > 11_000);
    }

    #[test]
    fn series_that_a_cluster_took_come_back() {
        let budget = SeriesBudget::of(80);
        let mut first = UsedSeries::default();
        assert_eq!([budget.take(&mut first, 21, true), budget.take(&mut first, 2, false)], [false, true]);
        assert!(budget.allows(first, 10, true) && budget.take(&mut first, 10, true));
        assert_eq!(first, UsedSeries { all: 12, by_strangers: 2 });
        assert!(!budget.allows(first, 10, true) && !budget.allows(UsedSeries::default(), 3, false));
        budget.give_back(first);
        assert_eq!((budget.left.into_inner(), budget.left_for_strangers.into_inner()), (80, 10));
    }
}
