//! How many series all clusters of a process may have together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Series of a process at most, beside the totals of each cluster.
///
/// Envoy takes some 320 bytes for a series with its labels: all of them, with the totals and the activity of 10,000 clusters, stay
/// below 64 MiB (docs/performance.md).
const MAX_SERIES: u32 = 65_536;

/// The series that all clusters of a process may still make. A cluster without any left counts what is new as `other`.
#[derive(Debug)]
pub struct SeriesBudget {
    left: AtomicU32,
}

impl Default for SeriesBudget {
    fn default() -> Self {
        SeriesBudget::of(MAX_SERIES)
    }
}

impl SeriesBudget {
    /// A budget of that many series.
    pub(super) fn of(series: u32) -> Self {
        SeriesBudget { left: AtomicU32::new(series) }
    }

    fn take(&self, series: u32) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(series)).is_ok()
    }
}

/// A cluster's part of the budget, given back when the cluster's configuration is gone.
#[derive(Debug)]
pub(super) struct SeriesLease {
    budget: Arc<SeriesBudget>,
    taken: AtomicU32,
}

impl SeriesLease {
    pub(super) fn new(budget: &Arc<SeriesBudget>) -> Self {
        SeriesLease { budget: Arc::clone(budget), taken: AtomicU32::new(0) }
    }

    /// Takes more series. False if fewer are left: none is taken then.
    pub(super) fn extend(&self, series: u32) -> bool {
        let has_room = self.budget.take(series);
        if has_room {
            self.taken.fetch_add(series, Ordering::Relaxed);
        }
        has_room
    }
}

impl Drop for SeriesLease {
    fn drop(&mut self) {
        self.budget.left.fetch_add(*self.taken.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_that_a_cluster_took_come_back_with_its_end() {
        let budget = Arc::new(SeriesBudget::of(10));
        let (first, second) = (SeriesLease::new(&budget), SeriesLease::new(&budget));
        assert_eq!([first.extend(7), second.extend(4), second.extend(3), first.extend(1)], [true, false, true, false]);
        drop(first);
        assert_eq!([second.extend(8), second.extend(7)], [false, true]);
    }
}
