use std::collections::BTreeMap;

use kube::runtime::watcher::Event;
use portcullis_api::{Materials, SecretMaterial};
use serde_json::Value;

use super::documents::ClusterObject;
use crate::ObjectSet;

/// Objects of one kind by name. Until a list is complete, what was known before holds.
#[derive(Debug)]
pub(super) struct Known<T> {
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
    /// Takes what a watch tells.
    pub(super) fn apply(&mut self, event: Event<(String, T)>) {
        match event {
            Event::Init => self.coming.clear(),
            Event::InitApply((name, object)) => {
                self.coming.insert(name, object);
            }
            Event::InitDone => {
                self.current = std::mem::take(&mut self.coming);
                self.is_complete = true;
            }
            Event::Apply((name, object)) => {
                self.current.insert(name, object);
            }
            Event::Delete((name, _)) => {
                self.current.remove(&name);
            }
        }
    }
}

/// All that one session has been told.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) clusters: Known<ClusterObject>,
    pub(super) secrets: Known<SecretMaterial>,
}

impl Store {
    /// Whether both lists are complete: before, a set would lack objects and Envoy would drop them.
    pub(super) fn is_complete(&self) -> bool {
        self.clusters.is_complete && self.secrets.is_complete
    }

    /// Everything, in the order of names.
    pub(super) fn set(&self) -> ObjectSet {
        ObjectSet {
            clusters: self.clusters.current.values().map(|one| one.document.clone()).collect(),
            materials: Materials::Secrets(self.secrets.current.clone()),
            ..ObjectSet::default()
        }
    }

    /// The status of every cluster that has one, by name.
    pub(super) fn statuses(&self) -> BTreeMap<String, Value> {
        let told = self.clusters.current.iter().filter(|(_, one)| !one.status.is_null());
        told.map(|(name, one)| (name.clone(), one.status.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<T>(known: &Known<T>) -> String {
        known.current.keys().cloned().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_list_acts_when_it_is_complete_and_as_a_whole() {
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
            known.apply(event);
            assert_eq!((names(&known).as_str(), known.is_complete), (current, is_complete), "step {number}");
        }
    }
}
