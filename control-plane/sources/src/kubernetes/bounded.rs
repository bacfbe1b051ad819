//! Objects of a kind that tenants write: within bounds, of which objects of the namespace that is preferred are the first to have room,
//! then the oldest ones, or the others by fair shares of their namespaces.

use std::collections::BTreeSet;

use kube::runtime::watcher::Event;

use super::documents::WatchedObject;
use super::fair_room::{FairRoom, KindBounds};

/// Objects of one kind by name. Until a list is complete, those that were known before hold.
pub(super) struct BoundedObjects {
    bounds: KindBounds,
    /// The namespace whose objects no other one's push out; empty for none.
    preferred: String,
    /// Whether the oldest of all stay, and namespaces have no shares.
    is_by_age: bool,
    current: FairRoom,
    coming: FairRoom,
    is_listed: bool,
    /// Whether an object has changed that shares room with some that were left out: it may be one of them.
    is_stale: bool,
}

impl BoundedObjects {
    /// `preferred` is the namespace whose objects no other one's push out; empty for none.
    pub(super) fn new(bounds: KindBounds, preferred: &str) -> Self {
        Self {
            bounds,
            preferred: preferred.to_owned(),
            is_by_age: false,
            current: FairRoom::default(),
            coming: FairRoom::default(),
            is_listed: false,
            is_stale: false,
        }
    }

    /// The same, of which the oldest of all namespaces stay: objects that own names, which no younger one may get by shares.
    pub(super) fn by_age(self) -> Self {
        Self { is_by_age: true, current: FairRoom::new(true), coming: FairRoom::new(true), ..self }
    }

    /// Takes an event of a watch. Returns whether something may have changed.
    pub(super) fn apply(&mut self, event: Event<(String, WatchedObject)>) -> bool {
        match event {
            Event::Init => (self.coming, self.is_stale) = (FairRoom::new(self.is_by_age), false),
            Event::InitApply((name, object)) => {
                // An equal one is shared, so that a second list takes no memory twice.
                let known = self.current.objects().get(&name).filter(|known| **known == object);
                let object = known.cloned().unwrap_or(object);
                self.coming.insert(name, object, self.bounds, &self.preferred);
            }
            Event::InitDone => {
                self.current = std::mem::replace(&mut self.coming, FairRoom::new(self.is_by_age));
                self.is_listed = true;
                return true;
            }
            Event::Apply((name, object)) => {
                let is_known = self.current.objects().get(&name) == Some(&object);
                if !is_known {
                    self.is_stale |= self.current.is_cut(&name, &self.preferred);
                    self.current.insert(name, object, self.bounds, &self.preferred);
                }
                return !is_known;
            }
            Event::Delete((name, _)) => return self.remove(&name),
        }
        false
    }

    /// Removes an object. Returns whether it was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.is_stale |= self.current.is_cut(name, &self.preferred);
        self.current.remove(name, &self.preferred)
    }

    /// There are none, or no longer. Returns whether something may have changed.
    pub(super) fn clear(&mut self) -> bool {
        let is_news = !self.is_listed || !self.is_empty();
        (self.current, self.coming) = (FairRoom::new(self.is_by_age), FairRoom::new(self.is_by_age));
        self.is_listed = true;
        is_news
    }

    /// Whether none is known.
    pub(super) fn is_empty(&self) -> bool {
        self.current.objects().is_empty()
    }

    /// The namespaces of which some were left out; empty for cluster-scoped objects.
    pub(super) fn cut(&self) -> &BTreeSet<String> {
        self.current.cut()
    }

    /// Whether some of the preferred namespace were left out.
    pub(super) fn is_preferred_cut(&self) -> bool {
        !self.preferred.is_empty() && self.cut().contains(&self.preferred)
    }

    /// Whether some were left out for which there may be room by now, or that may be gone: a list finds out.
    pub(super) fn has_room(&self) -> bool {
        self.is_stale || self.current.has_room(self.bounds)
    }

    /// The objects, in the order of names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &WatchedObject)> {
        self.current.objects().iter()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::kubernetes::{ObjectKey, StoredStatus, WatchedKind};

    const BOUNDS: KindBounds = KindBounds { objects: 10, bytes: 1_000 };

    fn object(name: usize, age: usize, bytes: usize) -> (String, WatchedObject) {
        let document = json!({"metadata": {"creationTimestamp": format!("2024-01-01T00:00:{:02}Z", 59 - age)}});
        let stored = Arc::new(StoredStatus::default());
        let key = Arc::new(ObjectKey::cluster_scoped(WatchedKind::Gateway, name.to_string()));
        (name.to_string(), WatchedObject { key, document: Arc::new(document), stored, bytes })
    }

    fn names(objects: &BoundedObjects) -> Vec<usize> {
        let mut names: Vec<usize> = objects.iter().map(|(name, _)| name.parse().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn youngest_objects_beyond_the_bounds_are_left_out() {
        let mut objects = BoundedObjects::new(BOUNDS, "");
        objects.apply(Event::Init);
        for index in 0..30 {
            objects.apply(Event::InitApply(object(index, index, 1)));
            assert!(objects.coming.objects().len() <= 10 && objects.is_empty());
        }
        assert!(objects.apply(Event::InitDone) && !objects.cut().is_empty());
        assert_eq!(names(&objects), (20..30).collect::<Vec<_>>());
        // The oldest one is large.
        objects.apply(Event::Apply(object(29, 29, 995)));
        assert_eq!(names(&objects), (24..30).collect::<Vec<_>>());
        objects.apply(Event::Apply(object(40, 40, 1_001)));
        assert_eq!(names(&objects), [0; 0], "it alone is too large, and it is the oldest of its namespace");
    }

    #[test]
    fn objects_of_the_preferred_namespace_stay_however_young() {
        let of = |namespace: &str, name: usize, bytes: usize| {
            let (name, object) = object(name, 59 - name, bytes);
            (format!("{namespace}/{name}"), object)
        };
        let names = |objects: &BoundedObjects| {
            let names: Vec<String> = objects.iter().map(|(name, _)| name.clone()).collect();
            names.join(" ")
        };
        // Numbers are seconds of creation: the younger, the higher.
        for is_home_first in [true, false] {
            let mut objects = BoundedObjects::new(BOUNDS, "home");
            let mut all: Vec<_> = (0..30).map(|second| of("homeless", second, 1)).collect();
            let at = if is_home_first { 0 } else { all.len() };
            all.splice(at..at, [of("home", 58, 1), of("home", 59, 900)]);
            objects.apply(Event::Init);
            for one in all {
                objects.apply(Event::InitApply(one));
            }
            objects.apply(Event::InitDone);
            assert!(!objects.cut().is_empty() && !objects.is_preferred_cut());
            let others: Vec<String> = (0..8).map(|second| format!("homeless/{second}")).collect();
            assert_eq!(names(&objects), format!("home/58 home/59 {}", others.join(" ")));
            // Those that have no room beside each other are noticed, and the bounds hold.
            objects.apply(Event::Apply(of("home", 57, 200)));
            assert_eq!(names(&objects), "home/57 home/58");
            assert!(objects.is_preferred_cut() && objects.has_room());
            objects.apply(Event::Init);
            objects.apply(Event::InitDone);
            assert!(!objects.is_preferred_cut());
        }
    }

    #[test]
    fn room_for_those_left_out_is_noticed() {
        let mut objects = BoundedObjects::new(BOUNDS, "");
        for index in 0..11 {
            objects.apply(Event::Apply(object(index, index, 1)));
        }
        assert!(!objects.cut().is_empty() && !objects.has_room());
        assert!(objects.remove("9") && !objects.remove("9"));
        assert!(objects.has_room());
        objects.apply(Event::Init);
        objects.apply(Event::InitDone);
        assert!(objects.cut().is_empty() && !objects.has_room());
    }

    #[test]
    fn object_left_out_that_is_deleted_is_noticed() {
        let mut objects = BoundedObjects::new(BOUNDS, "");
        let of = |namespace: &str, index: usize| {
            let (name, object) = object(index, 59 - index, 1);
            (format!("{namespace}/{name}"), object)
        };
        (0..11).for_each(|index| _ = objects.apply(Event::Apply(of("team", index))));
        assert!(objects.cut().contains("team") && !objects.has_room());
        objects.apply(Event::Apply(of("other", 20)));
        assert!(!objects.has_room(), "an edit of another namespace says nothing");
        assert!(!objects.remove("team/10") && objects.has_room());
        objects.apply(Event::Init);
        assert!(!objects.has_room());
    }

    proptest! {
        /// No namespace stays cut when there is room for all.
        #[test]
        fn namespace_whose_objects_have_room_is_listed_anew(
            edits in prop::collection::vec((any::<bool>(), 0..3_u8, 0..8_usize), 1..80),
        ) {
            let mut objects = BoundedObjects::new(BOUNDS, "");
            let mut there = BTreeSet::new();
            for (is_there, namespace, index) in edits {
                let name = format!("n{namespace}/{index}");
                if is_there {
                    objects.apply(Event::Apply((name.clone(), object(index, 59 - index, 1).1)));
                    there.insert(name);
                } else {
                    objects.remove(&name);
                    there.remove(&name);
                }
                if there.len() <= BOUNDS.objects && !objects.cut().is_empty() {
                    prop_assert!(objects.has_room(), "{there:?}");
                }
            }
        }
    }

    #[test]
    fn objects_stay_until_a_list_is_complete() {
        let mut objects = BoundedObjects::new(BOUNDS, "");
        assert!(objects.clear() && !objects.clear());
        assert!(objects.apply(Event::Apply(object(1, 1, 1))));
        assert!(!objects.apply(Event::Apply(object(1, 1, 1))));
        assert!(!objects.apply(Event::Init));
        assert!(!objects.apply(Event::InitApply(object(2, 1, 1))));
        assert_eq!(names(&objects), [1]);
        assert!(objects.apply(Event::InitDone));
        assert_eq!(names(&objects), [2]);
        assert!(objects.apply(Event::Delete(object(2, 1, 1))) && objects.is_empty());
    }
}
