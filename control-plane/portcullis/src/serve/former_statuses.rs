//! The statuses of the observation before: an object whose status is the same keeps the allocation. Otherwise each second would have
//! all of them twice.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use portcullis_api::status::Condition;
use portcullis_translate::Diagnosis;

use super::status::ObjectStatus;

/// The statuses of objects, by object.
pub(super) struct FormerStatuses<'a> {
    last: HashMap<ObjectKey<'a>, &'a Arc<ObjectStatus>>,
    /// Conditions that another replica wrote since then.
    written: &'a BTreeMap<(String, String, String), Vec<Condition>>,
    counts: KeyCounts<'a>,
}

/// Kind, name, UID, and which one of those that share all three: objects of files have no UID.
type ObjectKey<'a> = (&'a str, &'a str, &'a str, usize);

/// How many objects there were of a kind, name and UID.
#[derive(Default)]
struct KeyCounts<'a>(HashMap<(&'a str, &'a str, &'a str), usize>);

/// The status of an object before.
pub(super) struct FormerStatus<'a> {
    last: Option<&'a Arc<ObjectStatus>>,
    written: Option<&'a [Condition]>,
}

impl<'a> FormerStatuses<'a> {
    /// The statuses of the last observation, in its order.
    pub(super) fn new(
        last: impl Iterator<Item = &'a Arc<ObjectStatus>>,
        written: &'a BTreeMap<(String, String, String), Vec<Condition>>,
    ) -> Self {
        let mut counts = KeyCounts::default();
        let last = last.map(|object| (counts.next(&object.diagnosis), object)).collect();
        Self { last, written, counts: KeyCounts::default() }
    }

    /// That of the object of the next diagnosis.
    pub(super) fn of(&mut self, diagnosis: &'a Diagnosis) -> FormerStatus<'a> {
        let key = self.counts.next(diagnosis);
        let is_written = key.3 == 0 && !self.written.is_empty();
        let written = || self.written.get(&(key.0.to_owned(), key.1.to_owned(), key.2.to_owned()));
        let written = if is_written { written().map(Vec::as_slice) } else { None };
        FormerStatus { last: self.last.get(&key).copied(), written }
    }
}

impl<'a> KeyCounts<'a> {
    fn next(&mut self, diagnosis: &'a Diagnosis) -> ObjectKey<'a> {
        let uid = diagnosis.version.uid.as_deref().unwrap_or_default();
        let (kind, name) = (diagnosis.kind.as_str(), diagnosis.name.as_str());
        let count = self.0.entry((kind, name, uid)).or_default();
        let key = (kind, name, uid, *count);
        *count += 1;
        key
    }
}

impl<'a> FormerStatus<'a> {
    /// The conditions that it had.
    pub(super) fn conditions(&self) -> &'a [Condition] {
        self.written.or_else(|| Some(self.last?.status.conditions.as_slice())).unwrap_or_default()
    }

    /// The status that it has now: the same allocation if it is as before.
    pub(super) fn followed_by(&self, object: ObjectStatus) -> Arc<ObjectStatus> {
        match self.last {
            Some(last) if **last == object => Arc::clone(last),
            _ => Arc::new(object),
        }
    }
}

#[cfg(test)]
mod tests {
    use portcullis_api::status::{ClusterStatus, ConditionType, State, Timestamp};
    use portcullis_translate::{Reason, Version};

    use super::*;

    fn diagnosis(name: &str, message: &str) -> Diagnosis {
        Diagnosis {
            kind: "File".to_owned(),
            name: name.to_owned(),
            at: None,
            accepted: false,
            reason: Reason::Invalid,
            message: message.to_owned(),
            warnings: Vec::new(),
            problems: Vec::new(),
            cautions: Vec::new(),
            names: Vec::new(),
            shadow: None,
            version: Version::default(),
        }
    }

    fn condition(reason: &str) -> Condition {
        Condition {
            kind: ConditionType::Accepted,
            status: State::False,
            reason: reason.to_owned(),
            message: String::new(),
            last_transition_time: Timestamp::from_seconds(0),
            observed_generation: None,
        }
    }

    fn object((name, message): (&str, &str)) -> ObjectStatus {
        let status = ClusterStatus { conditions: vec![condition(message)], ..ClusterStatus::default() };
        ObjectStatus::new(Arc::new(diagnosis(name, message)), status)
    }

    /// The reason that each is known by, and whether it keeps its allocation.
    fn seen(
        last: &[Arc<ObjectStatus>],
        written: &BTreeMap<(String, String, String), Vec<Condition>>,
        now: &[(&str, &str)],
    ) -> Vec<(String, bool)> {
        let diagnoses: Vec<_> = now.iter().map(|(name, message)| diagnosis(name, message)).collect();
        let mut former = FormerStatuses::new(last.iter(), written);
        let one = |(diagnosis, now)| {
            let before = former.of(diagnosis);
            let reason = before.conditions().first().map(|one| one.reason.clone()).unwrap_or_default();
            let followed = before.followed_by(object(now));
            (reason, last.iter().any(|last| Arc::ptr_eq(last, &followed)))
        };
        diagnoses.iter().zip(now.iter().copied()).map(one).collect()
    }

    #[test]
    fn status_that_is_the_same_keeps_its_allocation() {
        let last: Vec<_> = [("a", "1"), ("b", "1"), ("a", "2")].map(|one| Arc::new(object(one))).into();
        let none = BTreeMap::new();
        let wanted =
            [("1", true), ("2", true), ("1", false), ("", false)].map(|(reason, kept)| (reason.to_owned(), kept));
        assert_eq!(seen(&last, &none, &[("a", "1"), ("a", "2"), ("b", "2"), ("c", "1")]), wanted);
    }

    #[test]
    fn conditions_that_another_replica_wrote_come_first() {
        let last = [Arc::new(object(("a", "1")))];
        let written = [("a", "other"), ("b", "new")]
            .map(|(name, reason)| (("File".to_owned(), name.to_owned(), String::new()), vec![condition(reason)]));
        let seen = seen(&last, &written.into(), &[("a", "1"), ("a", "1"), ("b", "1")]);
        let reasons: Vec<_> = seen.iter().map(|(reason, _)| reason.as_str()).collect();
        assert_eq!(reasons, ["other", "", "new"], "of twins the first alone");
    }
}
