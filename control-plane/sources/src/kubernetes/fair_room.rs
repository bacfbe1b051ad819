//! Room for objects of many namespaces: the oldest of all, or shared max-min, so that whatever one of them writes, another one keeps
//! what is within its fair share.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::documents::WatchedObject;

/// How much of a kind is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct KindBounds {
    /// Objects.
    pub(super) objects: usize,
    /// Bytes of their documents and statuses, as JSON.
    pub(super) bytes: usize,
}

/// The objects that have room. Beyond the bounds the youngest one of the namespace that has most is left out.
#[derive(Default)]
pub(super) struct FairRoom {
    /// Whether all namespaces but the preferred one are as one, of which the oldest objects stay.
    is_by_age: bool,
    by_name: BTreeMap<String, WatchedObject>,
    namespaces: BTreeMap<String, NamespaceRoom>,
    bytes: usize,
    /// The namespaces of which objects were left out; empty for cluster-scoped ones.
    cut: BTreeSet<String>,
    /// The numbers of objects of all namespaces but the preferred one.
    by_count: BTreeSet<(usize, String)>,
    /// Their bytes.
    by_bytes: BTreeSet<(usize, String)>,
}

/// The room that one namespace takes.
#[derive(Default)]
struct NamespaceRoom {
    /// By creation time and name.
    by_age: BTreeSet<(String, String)>,
    bytes: usize,
}

impl FairRoom {
    /// Room of which namespaces have shares, or the oldest objects of all.
    pub(super) fn new(is_by_age: bool) -> Self {
        Self { is_by_age, ..Self::default() }
    }

    /// Whether objects were left out that share the room of this one.
    pub(super) fn is_cut(&self, name: &str, preferred: &str) -> bool {
        self.cut.contains(self.sharing(name, preferred))
    }

    /// The namespace with which an object shares room.
    fn sharing<'a>(&self, name: &'a str, preferred: &str) -> &'a str {
        let namespace = namespace_of(name);
        if self.is_by_age && namespace != preferred { "" } else { namespace }
    }

    /// Takes an object in the place of one of its name, and leaves out as many as do not fit. Those of the namespace `preferred` are the
    /// last to be.
    pub(super) fn insert(&mut self, name: String, object: WatchedObject, bounds: KindBounds, preferred: &str) {
        self.remove(&name, preferred);
        let namespace = self.sharing(&name, preferred);
        self.change(namespace, preferred, |room| {
            room.bytes = room.bytes.saturating_add(object.bytes);
            room.by_age.insert((created(&object.document), name.clone()));
        });
        self.bytes = self.bytes.saturating_add(object.bytes);
        self.by_name.insert(name, object);
        while let Some(last) = self.excess(bounds, preferred) {
            self.remove(&last, preferred);
            self.cut.insert(self.sharing(&last, preferred).to_owned());
        }
    }

    /// Removes an object. Returns whether it was there.
    pub(super) fn remove(&mut self, name: &str, preferred: &str) -> bool {
        let Some(object) = self.by_name.remove(name) else { return false };
        self.bytes = self.bytes.saturating_sub(object.bytes);
        let namespace = self.sharing(name, preferred);
        self.change(namespace, preferred, |room| {
            room.bytes = room.bytes.saturating_sub(object.bytes);
            room.by_age.remove(&(created(&object.document), name.to_owned()));
        });
        true
    }

    /// Those that have room, by `namespace/name`.
    pub(super) fn objects(&self) -> &BTreeMap<String, WatchedObject> {
        &self.by_name
    }

    /// The namespaces of which objects were left out; an empty one for all that have no share.
    pub(super) fn cut(&self) -> &BTreeSet<String> {
        &self.cut
    }

    /// Whether some were left out for which there may be room by now: there is some, or another namespace has clearly more than theirs.
    pub(super) fn has_room(&self, bounds: KindBounds) -> bool {
        let KindBounds { objects, bytes } = bounds;
        if self.cut.is_empty() {
            return false;
        }
        let most = |of: &BTreeSet<(usize, String)>| of.last().map_or(0, |(most, _)| most.saturating_sub(most / 10));
        let (most_objects, most_bytes) = (most(&self.by_count), most(&self.by_bytes));
        let has_less = |namespace: &String| {
            let (count, of) = self.namespaces.get(namespace).map_or((0, 0), |room| (room.by_age.len(), room.bytes));
            count.saturating_add(1) < most_objects && of.saturating_add(bytes / 128) < most_bytes
        };
        (self.by_name.len() < objects && self.bytes <= bytes - bytes / 10) || self.cut.iter().any(has_less)
    }

    /// The object to leave out, if there are too many. Of namespaces that have as much as each other it is of the last by name.
    fn excess(&self, bounds: KindBounds, preferred: &str) -> Option<String> {
        let largest = if self.by_name.len() > bounds.objects {
            self.by_count.last()
        } else if self.bytes > bounds.bytes {
            self.by_bytes.last()
        } else {
            return None;
        };
        let namespace = largest.map_or(preferred, |(_, namespace)| namespace);
        self.namespaces.get(namespace)?.by_age.last().map(|(_, name)| name.clone())
    }

    fn change(&mut self, namespace: &str, preferred: &str, change: impl FnOnce(&mut NamespaceRoom)) {
        let room = self.namespaces.entry(namespace.to_owned()).or_default();
        let before = (room.by_age.len(), room.bytes);
        change(room);
        let after = (room.by_age.len(), room.bytes);
        if after.0 == 0 {
            self.namespaces.remove(namespace);
        }
        if namespace == preferred && !preferred.is_empty() {
            return;
        }
        self.by_count.remove(&(before.0, namespace.to_owned()));
        self.by_bytes.remove(&(before.1, namespace.to_owned()));
        if after.0 > 0 {
            self.by_count.insert((after.0, namespace.to_owned()));
            self.by_bytes.insert((after.1, namespace.to_owned()));
        }
    }
}

/// The namespace of `namespace/name`; empty of the name of a cluster-scoped object.
fn namespace_of(name: &str) -> &str {
    name.split_once('/').map_or("", |(namespace, _)| namespace)
}

fn created(document: &Value) -> String {
    document.pointer("/metadata/creationTimestamp").and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::kubernetes::{ObjectKey, StoredStatus, WatchedKind};

    const BOUNDS: KindBounds = KindBounds { objects: 12, bytes: 1_200 };

    /// The number of the namespace, the second of creation, and the size.
    type Drawn = (u8, u8, usize);

    fn put(room: &mut FairRoom, (namespace, second, bytes): Drawn, preferred: &str) {
        let document = json!({"metadata": {"creationTimestamp": format!("2024-01-01T00:00:{second:02}Z")}});
        let (document, stored) = (Arc::new(document), Arc::new(StoredStatus::default()));
        let name = format!("n{namespace}/{second}");
        let key = Arc::new(ObjectKey::of_path(WatchedKind::Gateway, &name));
        room.insert(name, WatchedObject { key, document, stored, bytes }, BOUNDS, preferred);
    }

    fn filled(objects: &[Drawn], preferred: &str) -> FairRoom {
        let mut room = FairRoom::default();
        objects.iter().for_each(|object| put(&mut room, *object, preferred));
        room
    }

    fn names(room: &FairRoom) -> Vec<&String> {
        room.objects().keys().collect()
    }

    #[test]
    fn older_objects_of_a_stranger_push_nothing_out() {
        let strangers: Vec<Drawn> = (0..60).map(|second| (9, second, 1)).collect();
        for (case, mine, bytes) in [("many", 1, 1), ("large", 2, 500)] {
            let mut room = filled(&strangers, "");
            (0..mine).for_each(|at| put(&mut room, (1, 59 - at, 1), ""));
            (0..20).for_each(|second| put(&mut room, (9, second, bytes), ""));
            let own = names(&room).into_iter().filter(|name| name.starts_with("n1/")).count();
            assert_eq!(own, usize::from(mine), "{case}");
            assert_eq!(room.cut().iter().collect::<Vec<_>>(), ["n9"], "{case}");
        }
    }

    /// A name is its owner's as long as its object is there: many namespaces may be one tenant's.
    #[test]
    fn younger_objects_of_many_namespaces_push_none_out_by_age() {
        for (is_by_age, kept) in [(true, 12), (false, 1)] {
            let mut room = FairRoom::new(is_by_age);
            (0..12).for_each(|second| put(&mut room, (0, second, 1), ""));
            (0..30).for_each(|at| put(&mut room, (1 + at, 30 + at % 30, 1), ""));
            let own = names(&room).into_iter().filter(|name| name.starts_with("n0/")).count();
            assert_eq!((own, room.objects().len()), (kept, 12));
        }
    }

    #[test]
    fn namespace_that_was_cut_gets_room_that_others_give_up() {
        let mut room = filled(&(0..40).map(|second| (1 + second % 2, second, 1)).collect::<Vec<_>>(), "");
        assert_eq!((room.objects().len(), room.has_room(BOUNDS)), (12, false));
        assert!((0..6).all(|at| room.remove(&format!("n1/{}", 2 * at), "")));
        assert!(room.has_room(BOUNDS));
        // Others are faster than the next list.
        (0..6).for_each(|second| put(&mut room, (2, 40 + second, 200), ""));
        assert!(!room.objects().keys().any(|name| name.starts_with("n1/")) && room.has_room(BOUNDS));
    }

    fn drawn(most_bytes: usize) -> impl Strategy<Value = Vec<Drawn>> {
        prop::collection::vec((0..6_u8, 0..60_u8, 1..=most_bytes), 1..60)
    }

    /// The objects of a namespace, the last one of each name.
    fn own(objects: &[Drawn], namespace: u8) -> BTreeMap<u8, usize> {
        objects.iter().filter(|one| one.0 == namespace).map(|(_, second, bytes)| (*second, *bytes)).collect()
    }

    proptest! {
        #[test]
        fn fair_share_is_kept_whatever_others_write(objects in drawn(400), preferred in 0..7_u8) {
            let preferred_name = format!("n{preferred}");
            let room = filled(&objects, &preferred_name);
            prop_assert!(room.objects().len() <= BOUNDS.objects && room.bytes <= BOUNDS.bytes);
            let sum: usize = room.objects().values().map(|one| one.bytes).sum();
            prop_assert_eq!(sum, room.bytes);
            let others: BTreeSet<u8> = objects.iter().map(|one| one.0).filter(|one| *one != preferred).collect();
            let first = own(&objects, preferred);
            // Objects may have been larger for a while.
            let largest = |namespace: u8| -> usize {
                let mut all: BTreeMap<u8, usize> = BTreeMap::new();
                for (_, second, bytes) in objects.iter().filter(|one| one.0 == namespace) {
                    let known = all.entry(*second).or_default();
                    *known = (*known).max(*bytes);
                }
                all.values().sum()
            };
            let rest = (
                BOUNDS.objects.saturating_sub(first.len()),
                BOUNDS.bytes.saturating_sub(largest(preferred)),
            );
            for namespace in &others {
                let mine = own(&objects, *namespace);
                let is_within = mine.len() <= rest.0 / others.len() && largest(*namespace) <= rest.1 / others.len();
                let kept = names(&room).into_iter().filter(|name| name.starts_with(&format!("n{namespace}/"))).count();
                if is_within {
                    prop_assert_eq!(kept, mine.len(), "n{} of {:?}", namespace, objects);
                    let is_cut = room.cut().contains(&format!("n{namespace}"));
                    prop_assert!(!is_cut, "n{} of {:?}", namespace, objects);
                }
            }
            let is_cut = room.cut().contains(&preferred_name);
            let has_all = first.keys().all(|second| room.objects().contains_key(&format!("n{preferred}/{second}")));
            prop_assert!(is_cut || has_all);
            prop_assert!(!is_cut || first.len() > BOUNDS.objects || largest(preferred) > BOUNDS.bytes);
        }

        #[test]
        fn order_of_objects_of_one_size_makes_no_difference(objects in drawn(1), seed in any::<u64>()) {
            let mut shuffled = objects.clone();
            shuffled.sort_by_key(|(namespace, second, _)| (u64::from(*namespace) * 60 + u64::from(*second)).wrapping_mul(seed | 1));
            let (one, other) = (filled(&objects, "n0"), filled(&shuffled, "n0"));
            prop_assert_eq!(names(&one), names(&other));
            prop_assert_eq!(one.cut(), other.cut());
        }
    }
}
