//! The series that one cluster has had, over all its configurations.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, PoisonError, RwLock};

use super::counters::KeyHasher;
use super::series_budget::{SeriesBudget, UsedSeries};

/// The combinations of labels that one cluster's requests made, each charged to the budget once. The proxy keeps a series for
/// as long as the part of the listener that made it, whatever became of the configuration: an edit gives nothing back, and
/// makes a combination of labels that was there before for nothing.
#[derive(Debug, Default)]
pub struct SeriesLedger {
    budget: Arc<SeriesBudget>,
    charged: RwLock<Charged>,
}

#[derive(Debug, Default)]
struct Charged {
    combinations: HashSet<u64, BuildHasherDefault<KeyHasher>>,
    used: UsedSeries,
}

/// A combination of labels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combination {
    hash: u64,
    /// The number of its series: more than one for a histogram.
    series: u32,
}

impl SeriesLedger {
    /// Nothing charged.
    pub(crate) fn new(budget: &Arc<SeriesBudget>) -> Self {
        SeriesLedger { budget: Arc::clone(budget), charged: RwLock::default() }
    }

    /// A combination of a metric's labels that makes so many series. `cluster` is the same for all and not one of them.
    pub(super) fn combination(&self, metric: &str, labels: &[&str], series: u32) -> Combination {
        Combination { hash: self.budget.hash(metric, labels), series }
    }

    /// Whether all of these have their series: those that are new get them now, or none does. `is_known` says that the client of
    /// the request was authenticated. Takes no lock exclusively where nothing is new, or where there is no room.
    pub(super) fn admit(&self, combinations: &[Combination], is_known: bool) -> bool {
        let charged = self.charged.read().unwrap_or_else(PoisonError::into_inner);
        let missing = charged.missing(combinations);
        if missing == 0 {
            return true;
        }
        if !self.budget.allows(charged.used, missing, is_known) {
            return false;
        }
        drop(charged);
        let mut charged = self.charged.write().unwrap_or_else(PoisonError::into_inner);
        let missing = charged.missing(combinations);
        if missing > 0 && !self.budget.take(&mut charged.used, missing, is_known) {
            return false;
        }
        charged.combinations.extend(combinations.iter().map(|one| one.hash));
        true
    }

    /// The number of series that were charged.
    #[cfg(test)]
    pub(super) fn used(&self) -> u32 {
        self.charged.read().unwrap_or_else(PoisonError::into_inner).used.all
    }
}

impl Charged {
    /// The number of series that these make.
    fn missing(&self, combinations: &[Combination]) -> u32 {
        let new = combinations.iter().filter(|one| !self.combinations.contains(&one.hash));
        new.map(|one| one.series).fold(0, u32::saturating_add)
    }
}

impl Drop for SeriesLedger {
    fn drop(&mut self) {
        let charged = self.charged.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.budget.give_back(charged.used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combination_is_charged_once() {
        let budget = Arc::new(SeriesBudget::of(100));
        let ledger = SeriesLedger::new(&budget);
        let of = |labels: &[&str], series| ledger.combination("m", labels, series);
        assert!(ledger.admit(&[of(&["a"], 10), of(&["b"], 5)], true));
        assert!(ledger.admit(&[of(&["a"], 10), of(&["b"], 5)], false), "whoever counts there next");
        assert!(!ledger.admit(&[of(&["a"], 10), of(&["c"], 10)], true), "a quarter of 85");
        assert!(ledger.admit(&[of(&["c"], 2)], true), "nothing was taken");
        assert!(ledger.admit(&[ledger.combination("n", &["a"], 1), of(&["", "a"], 1)], true));
        assert_eq!(ledger.used(), 19);
        drop(ledger);
        let next = SeriesLedger::new(&budget);
        assert!(next.admit(&[next.combination("m", &["d"], 25)], true), "with the cluster all came back");
    }
}
