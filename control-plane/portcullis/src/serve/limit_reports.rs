//! Reports of gateways about limits that they share, for the status of the objects that have them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use portcullis_api::status::LimitFacts;

/// The newest reports, by the name of the object.
pub(super) struct LimitReports {
    /// Whether the object of that name is served with limits of all gateways.
    has_limits: Box<dyn Fn(&str) -> bool + Send + Sync>,
    facts: Mutex<BTreeMap<String, LimitFacts>>,
}

impl LimitReports {
    /// Without any report. `has_limits`: whether the object of that name is served with limits of all gateways.
    pub(super) fn new(has_limits: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { has_limits: Box::new(has_limits), facts: Mutex::default() }
    }

    /// Takes the reports of all gateways about all objects.
    pub(super) fn replace(&self, facts: BTreeMap<String, LimitFacts>) {
        // A panic elsewhere leaves them whole: they are replaced in one step.
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = facts;
    }

    /// The reports about an object; `None` if it is served without limits of all gateways.
    pub(super) fn facts(&self, name: &str) -> Option<LimitFacts> {
        let known = || self.facts.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        (self.has_limits)(name).then(|| known().unwrap_or_default())
    }
}

impl fmt::Debug for LimitReports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LimitReports").field("facts", &self.facts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_with_limits_has_facts_before_the_first_report() {
        let reports = LimitReports::new(|name| name == "a");
        let two = LimitFacts { gateways: 2, ..LimitFacts::default() };
        assert_eq!([reports.facts("a"), reports.facts("b")], [Some(LimitFacts::default()), None]);
        reports.replace(BTreeMap::from(["a", "b"].map(|name| (name.to_owned(), two.clone()))));
        assert_eq!([reports.facts("a"), reports.facts("b")], [Some(two), None], "b has lost its limits since");
    }
}
