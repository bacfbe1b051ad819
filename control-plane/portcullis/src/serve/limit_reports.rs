//! Reports of gateways about limits that they share, for the status of the objects that have them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_api::status::LimitFacts;
use portcullis_xds::ChangedNames;

use super::changed_keys::changed_keys;

/// The newest reports, by the name of the object.
pub(super) struct LimitReports {
    /// The names of objects that are served with limits of all gateways.
    limited: Box<dyn Fn() -> Arc<BTreeSet<String>> + Send + Sync>,
    facts: Mutex<Arc<BTreeMap<String, LimitFacts>>>,
}

impl LimitReports {
    /// Without any report. `limited`: the names of objects that are served with limits of all gateways, the same allocation as long as
    /// they are the same.
    pub(super) fn new(limited: impl Fn() -> Arc<BTreeSet<String>> + Send + Sync + 'static) -> Self {
        Self { limited: Box::new(limited), facts: Mutex::default() }
    }

    /// Takes the reports of all gateways about all objects.
    pub(super) fn replace(&self, newest: &Arc<BTreeMap<String, LimitFacts>>) {
        *self.lock() = Arc::clone(newest);
    }

    /// The newest reports.
    pub(super) fn newest(&self) -> ReportedLimits {
        ReportedLimits { limited: (self.limited)(), facts: Arc::clone(&self.lock()) }
    }

    /// A panic elsewhere leaves them whole: they are replaced in one step.
    fn lock(&self) -> MutexGuard<'_, Arc<BTreeMap<String, LimitFacts>>> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LimitReports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LimitReports").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// The reports of one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportedLimits {
    limited: Arc<BTreeSet<String>>,
    facts: Arc<BTreeMap<String, LimitFacts>>,
}

impl ReportedLimits {
    /// The reports about an object; `None` if it is served without limits of all gateways.
    pub(super) fn facts(&self, name: &str) -> Option<LimitFacts> {
        self.limited.contains(name).then(|| self.facts.get(name).cloned().unwrap_or_default())
    }

    /// Adds the names of objects about which something else is reported than before.
    pub(super) fn add_changed(&self, before: &Self, changed: &mut ChangedNames) {
        if !Arc::ptr_eq(&self.limited, &before.limited) {
            self.limited.symmetric_difference(&before.limited).for_each(|name| changed.add(name.as_str()));
        }
        if !Arc::ptr_eq(&self.facts, &before.facts) {
            changed_keys(&before.facts, &self.facts).into_iter().for_each(|name| changed.add(name.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_with_limits_has_facts_before_the_first_report() {
        let limited = Arc::new(BTreeSet::from(["a".to_owned()]));
        let reports = LimitReports::new(move || Arc::clone(&limited));
        let two = LimitFacts { gateways: 2, ..LimitFacts::default() };
        let none = reports.newest();
        assert_eq!([none.facts("a"), none.facts("b")], [Some(LimitFacts::default()), None]);
        reports.replace(&Arc::new(BTreeMap::from(["a", "b"].map(|name| (name.to_owned(), two.clone())))));
        let newest = reports.newest();
        assert_eq!([newest.facts("a"), newest.facts("b")], [Some(two), None], "b has lost its limits since");
        let mut changed = ChangedNames::default();
        newest.add_changed(&none, &mut changed);
        assert!(changed.has("a") && !changed.has("c"));
    }
}
