//! Edits on their way to the gateways.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, SystemTime};

/// Edits that are followed at a time. Of more the oldest is reported without its acknowledgements.
const MAX_OPEN: usize = 16;
/// The time after which an edit is reported although gateways have not acknowledged it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A part of an edit's way, and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
}

/// An edit that is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// When the source noticed it.
    pub(super) start: SystemTime,
    /// When it was published.
    pub(super) published: SystemTime,
    /// From the source to publication, in order.
    pub(super) phases: Vec<Phase>,
    /// The versions of the snapshot and of its views: a gateway acknowledges one of them.
    pub(super) versions: BTreeSet<String>,
    /// Gateways that have not acknowledged it.
    pub(super) waiting: BTreeSet<String>,
    /// Gateways that have, and when.
    pub(super) acknowledged: BTreeMap<String, SystemTime>,
    /// Texts about the edit.
    pub(super) attributes: Vec<(&'static str, String)>,
}

/// How far an edit came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EditOutcome {
    /// Every gateway that it changes something for has acknowledged it.
    Acknowledged,
    /// It changes nothing that is served.
    Unchanged,
    /// Some gateway has not acknowledged it within a minute, or before many further edits.
    Incomplete,
}

impl EditOutcome {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            EditOutcome::Acknowledged => "acknowledged",
            EditOutcome::Unchanged => "unchanged",
            EditOutcome::Incomplete => "incomplete",
        }
    }
}

/// An edit that is over, with its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finished {
    pub(super) edit: Edit,
    pub(super) outcome: EditOutcome,
    pub(super) end: SystemTime,
}

/// Follows edits until their last acknowledgement.
#[derive(Debug, Default)]
pub(super) struct EditTracker {
    /// In the order of their publication.
    open: VecDeque<Edit>,
}

impl EditTracker {
    /// Takes an edit. Returns it if no gateway has to acknowledge it, and the oldest if there are too many.
    pub(super) fn published(&mut self, edit: Edit) -> Vec<Finished> {
        let end = edit.published;
        if edit.waiting.is_empty() {
            let outcome = if edit.versions.is_empty() { EditOutcome::Unchanged } else { EditOutcome::Acknowledged };
            return vec![Finished { edit, outcome, end }];
        }
        self.open.push_back(edit);
        let oldest = (self.open.len() > MAX_OPEN).then(|| self.open.pop_front()).flatten();
        oldest.map(|edit| Finished { edit, outcome: EditOutcome::Incomplete, end }).into_iter().collect()
    }

    /// A gateway has acknowledged the whole of a version, and with it all that was published before. Returns the edits of which
    /// this was the last acknowledgement.
    pub(super) fn acknowledged(&mut self, gateway: &str, version: &str, now: SystemTime) -> Vec<Finished> {
        let Some(last) = self.open.iter().rposition(|edit| edit.versions.contains(version)) else { return Vec::new() };
        for edit in self.open.iter_mut().take(last.saturating_add(1)) {
            if edit.waiting.remove(gateway) {
                edit.acknowledged.insert(gateway.to_owned(), now);
            }
        }
        self.take(|edit| edit.waiting.is_empty().then_some(EditOutcome::Acknowledged), now)
    }

    /// The edits that have waited for too long.
    pub(super) fn expired(&mut self, now: SystemTime) -> Vec<Finished> {
        let is_late = |edit: &Edit| now.duration_since(edit.published).is_ok_and(|age| age >= PATIENCE);
        self.take(|edit| is_late(edit).then_some(EditOutcome::Incomplete), now)
    }

    fn take(&mut self, outcome: impl Fn(&Edit) -> Option<EditOutcome>, end: SystemTime) -> Vec<Finished> {
        let (mut open, mut finished) = (VecDeque::new(), Vec::new());
        for edit in std::mem::take(&mut self.open) {
            match outcome(&edit) {
                Some(outcome) => finished.push(Finished { edit, outcome, end }),
                None => open.push_back(edit),
            }
        }
        self.open = open;
        finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn edit(version: &str, gateways: &[&str], seconds: u64) -> Edit {
        Edit {
            start: at(seconds),
            published: at(seconds),
            phases: Vec::new(),
            versions: [version.to_owned()].into(),
            waiting: gateways.iter().map(|one| (*one).to_owned()).collect(),
            acknowledged: BTreeMap::new(),
            attributes: Vec::new(),
        }
    }

    fn ended(finished: &[Finished]) -> Vec<(String, EditOutcome, SystemTime)> {
        let version = |one: &Finished| one.edit.versions.first().cloned().unwrap_or_default();
        finished.iter().map(|one| (version(one), one.outcome, one.end)).collect()
    }

    #[test]
    fn edit_ends_with_its_last_acknowledgement() {
        let mut tracker = EditTracker::default();
        assert_eq!(tracker.published(edit("v1", &["a", "b"], 1)), []);
        assert_eq!(tracker.acknowledged("a", "other", at(2)), []);
        assert_eq!(tracker.acknowledged("a", "v1", at(3)), []);
        assert_eq!(tracker.acknowledged("a", "v1", at(4)), [], "once counts");
        let finished = tracker.acknowledged("b", "v1", at(5));
        assert_eq!(ended(&finished), [("v1".to_owned(), EditOutcome::Acknowledged, at(5))]);
        assert_eq!(finished[0].edit.acknowledged, [("a".to_owned(), at(3)), ("b".to_owned(), at(5))].into());
        assert!(tracker.open.is_empty());
    }

    #[test]
    fn newer_version_acknowledges_earlier_edits() {
        let mut tracker = EditTracker::default();
        tracker.published(edit("v1", &["a", "b"], 1));
        tracker.published(edit("v2", &["a"], 2));
        let finished = tracker.acknowledged("a", "v2", at(3));
        assert_eq!(ended(&finished), [("v2".to_owned(), EditOutcome::Acknowledged, at(3))]);
        let finished = tracker.acknowledged("b", "v1", at(4));
        assert_eq!(ended(&finished), [("v1".to_owned(), EditOutcome::Acknowledged, at(4))]);
    }

    #[test]
    fn edit_without_a_gateway_ends_at_once() {
        let mut tracker = EditTracker::default();
        assert_eq!(
            ended(&tracker.published(edit("v1", &[], 1))),
            [("v1".to_owned(), EditOutcome::Acknowledged, at(1))]
        );
        let nothing = Edit { versions: BTreeSet::new(), ..edit("", &[], 1) };
        assert_eq!(tracker.published(nothing)[0].outcome, EditOutcome::Unchanged);
    }

    #[test]
    fn edits_are_bounded_in_time_and_number() {
        let mut tracker = EditTracker::default();
        tracker.published(edit("v1", &["a"], 1));
        assert_eq!(tracker.expired(at(60)), []);
        assert_eq!(ended(&tracker.expired(at(61))), [("v1".to_owned(), EditOutcome::Incomplete, at(61))]);
        for number in 0..MAX_OPEN as u64 {
            assert_eq!(tracker.published(edit(&number.to_string(), &["a"], number)), []);
        }
        let finished = tracker.published(edit("last", &["a"], 20));
        assert_eq!(ended(&finished), [("0".to_owned(), EditOutcome::Incomplete, at(20))]);
        assert_eq!(tracker.acknowledged("a", "last", at(21)).len(), MAX_OPEN);
    }
}
