use std::collections::BTreeMap;

use kube::runtime::watcher::Event;
use portcullis_api::{ReferencedData, SecretData};
use serde_json::Value;

use super::documents::ClusterObject;
use crate::object_set::ObjectSet;

/// Objects of one kind by name. Until a list is complete, what was known before holds.
struct Known<T> {
    current: BTreeMap<String, T>,
    coming: BTreeMap<String, T>,
    is_complete: bool,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { current: BTreeMap::new(), coming: BTreeMap::new(), is_complete: false }
    }
}

impl<T> Known<T> {
    /// Takes an event of a watch. Returns whether something may have changed: `is_same` compares an object with the one of its
    /// name before.
    pub(super) fn apply(&mut self, event: Event<(String, T)>, is_same: impl Fn(&T, &T) -> bool) -> bool {
        match event {
            Event::Init => self.coming.clear(),
            Event::InitApply((name, object)) => {
                self.coming.insert(name, object);
            }
            Event::InitDone => {
                self.current = std::mem::take(&mut self.coming);
                self.is_complete = true;
                return true;
            }
            Event::Apply((name, object)) => {
                let is_known = self.current.get(&name).is_some_and(|before| is_same(before, &object));
                self.current.insert(name, object);
                return !is_known;
            }
            Event::Delete((name, _)) => return self.current.remove(&name).is_some(),
        }
        false
    }
}

/// The objects of one session.
#[derive(Default)]
pub(super) struct Store {
    clusters: Known<ClusterObject>,
    secrets: Known<SecretData>,
    /// Whether the set may be other than when it was taken last. A status that is written changes none.
    is_changed: bool,
    /// Whether a status may be other than when they were taken last.
    has_new_status: bool,
}

impl Store {
    pub(super) fn cluster(&mut self, event: Event<(String, ClusterObject)>) {
        self.has_new_status |= match &event {
            Event::Apply((name, now)) => {
                self.clusters.current.get(name).is_none_or(|before| before.status != now.status)
            }
            Event::Delete(_) | Event::InitDone => true,
            Event::Init | Event::InitApply(_) => false,
        };
        self.is_changed |= self.clusters.apply(event, |before, now| before.document == now.document);
    }

    pub(super) fn secret(&mut self, event: Event<(String, SecretData)>) {
        self.is_changed |= self.secrets.apply(event, |before, now| before == now);
    }

    /// Whether both lists are complete: before, a set would lack objects and Envoy would drop them.
    pub(super) fn is_complete(&self) -> bool {
        self.clusters.is_complete && self.secrets.is_complete
    }

    /// Everything, in the order of names; `None` if it is what was taken last, or not complete.
    pub(super) fn take_changed(&mut self) -> Option<ObjectSet> {
        if !self.is_complete() || !std::mem::take(&mut self.is_changed) {
            return None;
        }
        Some(ObjectSet {
            clusters: self.clusters.current.values().map(|one| one.document.clone()).collect(),
            referenced_data: ReferencedData::Secrets(self.secrets.current.clone()),
            ..ObjectSet::default()
        })
    }

    /// The status of every cluster that has one, by name; `None` if they are what was taken last, or not complete.
    pub(super) fn take_statuses(&mut self) -> Option<BTreeMap<String, Value>> {
        if !self.is_complete() || !std::mem::take(&mut self.has_new_status) {
            return None;
        }
        Some(self.statuses())
    }

    fn statuses(&self) -> BTreeMap<String, Value> {
        let with_status = self.clusters.current.iter().filter(|(_, one)| !one.status.is_null());
        with_status.map(|(name, one)| (name.clone(), one.status.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn names<T>(known: &Known<T>) -> String {
        known.current.keys().cloned().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn list_acts_when_it_is_complete_and_as_a_whole() {
        let mut known = Known::default();
        let one = |name: &str| (name.to_owned(), ());
        let steps = [
            (Event::Init, "", false),
            (Event::InitApply(one("a")), "", false),
            (Event::InitApply(one("b")), "", false),
            (Event::InitDone, "a b", true),
            (Event::Apply(one("c")), "a b c", true),
            (Event::Delete(one("a")), "b c", true),
            (Event::Init, "b c", true),
            (Event::InitApply(one("d")), "b c", true),
            // A list that broke off starts anew.
            (Event::Init, "b c", true),
            (Event::InitApply(one("c")), "b c", true),
            (Event::InitDone, "c", true),
        ];
        for (number, (event, current, is_complete)) in steps.into_iter().enumerate() {
            known.apply(event, |(), ()| false);
            assert_eq!((names(&known).as_str(), known.is_complete), (current, is_complete), "step {number}");
        }
    }
    #[test]
    fn set_is_new_when_a_document_or_a_secret_is() {
        let cluster = |document: u32, status: u32| {
            ("a".to_owned(), ClusterObject { document: Arc::new(document.into()), status: status.into() })
        };
        let secret =
            |label: &str| ("s".to_owned(), SecretData { clusters: [label.to_owned()].into(), ..SecretData::default() });
        let mut store = Store::default();
        store.cluster(Event::Init);
        store.cluster(Event::InitApply(cluster(1, 1)));
        store.cluster(Event::InitDone);
        assert_eq!(store.take_changed(), None, "the Secrets are not listed yet");
        store.secret(Event::Init);
        store.secret(Event::InitDone);
        assert_eq!(store.take_changed().unwrap().clusters, [Arc::new(Value::from(1))]);
        store.cluster(Event::Apply(cluster(1, 2)));
        assert_eq!((store.take_changed(), store.statuses()["a"].clone()), (None, 2.into()));
        store.cluster(Event::Apply(cluster(2, 2)));
        assert_eq!(store.take_changed().unwrap().clusters, [Arc::new(Value::from(2))]);
        for (event, is_new) in [
            (Event::Apply(secret("a")), true),
            (Event::Apply(secret("a")), false),
            (Event::Apply(secret("b")), true),
            (Event::Delete(secret("b")), true),
            (Event::Delete(secret("b")), false),
        ] {
            store.secret(event);
            assert_eq!(store.take_changed().is_some(), is_new);
        }
        store.cluster(Event::Delete(cluster(2, 2)));
        assert!(store.take_changed().unwrap().clusters.is_empty() && store.statuses().is_empty());
    }

    #[test]
    fn statuses_are_told_when_one_is_new() {
        let cluster = |document: u32, status: u32| {
            ("a".to_owned(), ClusterObject { document: Arc::new(document.into()), status: status.into() })
        };
        let mut store = Store::default();
        store.secret(Event::InitDone);
        store.cluster(Event::InitApply(cluster(1, 1)));
        assert_eq!(store.take_statuses(), None);
        store.cluster(Event::InitDone);
        for (event, is_new) in [
            (Event::Init, true),
            (Event::Init, false),
            (Event::Apply(cluster(2, 1)), false),
            (Event::Apply(cluster(2, 2)), true),
            (Event::Delete(cluster(2, 2)), true),
        ] {
            store.cluster(event);
            assert_eq!(store.take_statuses().is_some(), is_new);
        }
    }
}
