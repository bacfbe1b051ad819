//! The versions of objects that were translated last, and how the newest ones differ.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use portcullis_sources::{ObjectSet, Place};
use serde_json::Value;

use super::super::references::{Resolved, ResolvedCluster};
use super::super::retention::is_same_object;

/// An object by its name, and by its position among those of the same name, of which files may hold several.
pub(super) type EditKey = (String, usize);

/// JSON values of a document that make one more of its weight.
const VALUES_OF_WEIGHT: u64 = 1_000;

/// A version of an object.
#[derive(Clone)]
pub(super) struct ObjectVersion {
    pub(super) written: Arc<Value>,
    pub(super) place: Option<Place>,
    pub(super) resolved: ResolvedCluster,
    /// Its position among those of its name.
    number: usize,
}

/// The newest version of each object of a set.
#[derive(Clone, Copy)]
pub(super) struct NewestVersions<'a> {
    pub(super) objects: &'a ObjectSet,
    pub(super) resolved: &'a Resolved,
}

/// The difference between the versions of before and the newest ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edits {
    /// The objects that are new or other ones, by their positions in the newer set.
    pub(super) dirty: HashMap<EditKey, usize>,
    /// The positions in the older set of those that were there. Another object of the same name was not: its removal does not wait.
    known: HashMap<usize, usize>,
    /// The objects that are other ones than those that were there under their names.
    pub(super) replaced: HashSet<EditKey>,
}

impl<'a> NewestVersions<'a> {
    pub(super) fn len(self) -> usize {
        self.objects.clusters.len()
    }

    /// All of them, in the set's order.
    pub(super) fn all(self) -> Vec<ObjectVersion> {
        self.but_for(&HashMap::new(), &[])
    }

    /// The same with versions from before at the positions that wait, or none.
    fn but_for(self, waiting: &HashMap<usize, Option<usize>>, before: &[ObjectVersion]) -> Vec<ObjectVersion> {
        let one = |at: usize| match waiting.get(&at) {
            Some(known) => before.get((*known)?).cloned(),
            None => self.version(at, 0),
        };
        let mut all: Vec<ObjectVersion> = (0..self.len()).filter_map(one).collect();
        let numbers: Vec<usize> = keys(all.iter().map(|one| name(&one.written))).map(|(_, number)| number).collect();
        for (one, number) in all.iter_mut().zip(numbers) {
            one.number = number;
        }
        all
    }

    fn version(self, at: usize, number: usize) -> Option<ObjectVersion> {
        let (written, place) = (Arc::clone(self.written(at)?), self.place(at).cloned());
        Some(ObjectVersion { written, place, resolved: self.resolved.cluster(at)?, number })
    }

    fn written(self, at: usize) -> Option<&'a Arc<Value>> {
        self.objects.clusters.get(at)
    }

    fn place(self, at: usize) -> Option<&'a Place> {
        self.objects.cluster_places.get(at)
    }

    /// With its references resolved.
    pub(super) fn document(self, at: usize) -> Option<&'a Arc<Value>> {
        self.resolved.documents.get(at)
    }

    /// The weight of an edit: by its size, which translation's time grows with.
    pub(super) fn weight(self, at: usize) -> u64 {
        let values = self.document(at).map(|document| values(document)).unwrap_or_default();
        values.checked_div(VALUES_OF_WEIGHT).unwrap_or_default().saturating_add(1)
    }
}

impl ObjectVersion {
    /// Whether it is certainly the newest one, with its place.
    fn is_newest(&self, newest: NewestVersions<'_>, at: usize) -> bool {
        let is_same = |one: &Place, other: &Place| Arc::ptr_eq(&one.spans, &other.spans) && one.file == other.file;
        let is_there = match (&self.place, newest.place(at)) {
            (Some(one), Some(other)) => is_same(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_there
            && newest.written(at).is_some_and(|written| Arc::ptr_eq(written, &self.written))
            && newest.resolved.is_shared_with(at, &self.resolved)
    }

    /// Whether nothing is to be translated anew.
    fn is_same(&self, newest: NewestVersions<'_>, at: usize) -> bool {
        newest.written(at) == Some(&self.written) && newest.document(at) == Some(&self.resolved.document)
    }
}

impl Edits {
    /// The edits since `before`, and the positions of all versions that are not certainly those of before; `None` if there are objects
    /// at other positions.
    pub(super) fn between(before: &[ObjectVersion], newest: NewestVersions<'_>) -> (Self, Option<Vec<usize>>) {
        let others = other_positions(before, newest);
        let edits = others.as_ref().map(|others| Self::by_position(before, newest, others));
        (edits.unwrap_or_else(|| Self::of_all(before, newest)), others)
    }

    /// Of sets whose objects have the same positions: those of the others have the same names.
    fn by_position(before: &[ObjectVersion], newest: NewestVersions<'_>, others: &[usize]) -> Self {
        let mut edits = Self::none();
        for at in others {
            let Some(older) = before.get(*at) else { continue };
            edits.add((name(&older.written), older.number), Some((*at, older)), (newest, *at));
        }
        edits
    }

    fn of_all(before: &[ObjectVersion], newest: NewestVersions<'_>) -> Self {
        let mut edits = Self::none();
        let names = before.iter().map(|one| name(&one.written));
        let of_before: HashMap<(&str, usize), usize> = keys(names).zip(0..).collect();
        for (at, key) in keys(newest.objects.clusters.iter().map(|one| name(one))).enumerate() {
            let known = of_before.get(&key).copied();
            let older = known.and_then(|known| Some((known, before.get(known)?)));
            edits.add(key, older, (newest, at));
        }
        edits
    }

    fn none() -> Self {
        Self { dirty: HashMap::new(), known: HashMap::new(), replaced: HashSet::new() }
    }

    /// Adds the newest version of an object, if it is an edit. `older`: the version from before and its position.
    fn add(
        &mut self,
        (name, number): (&str, usize),
        older: Option<(usize, &ObjectVersion)>,
        (newest, at): (NewestVersions<'_>, usize),
    ) {
        if older.is_some_and(|(_, older)| older.is_same(newest, at)) {
            return;
        }
        self.dirty.insert((name.to_owned(), number), at);
        let Some((known, older)) = older else { return };
        if newest.written(at).is_some_and(|written| is_same_object(&older.written, written)) {
            self.known.insert(at, known);
        } else {
            self.replaced.insert((name.to_owned(), number));
        }
    }

    /// The positions in the newer set of what waits, with those in the older one.
    pub(super) fn waiting(&self, taken: &HashSet<EditKey>) -> HashMap<usize, Option<usize>> {
        let waiting = self.dirty.iter().filter(|(key, _)| !taken.contains(*key));
        waiting.map(|(_, at)| (*at, self.known.get(at).copied())).collect()
    }
}

/// The versions to translate: the newest ones, with those from before in place of what waits. `others`: the positions of all versions
/// that are not certainly those of before, if the objects have the same positions.
pub(super) fn succeeded(
    mut before: Vec<ObjectVersion>,
    newest: NewestVersions<'_>,
    others: Option<Vec<usize>>,
    waiting: &HashMap<usize, Option<usize>>,
) -> Vec<ObjectVersion> {
    let is_any_gone = waiting.values().any(Option::is_none);
    let Some(others) = others.filter(|_| !is_any_gone) else { return newest.but_for(waiting, &before) };
    for at in others.into_iter().filter(|at| !waiting.contains_key(at)) {
        let Some(one) = before.get_mut(at) else { continue };
        if let Some(newer) = newest.version(at, one.number) {
            *one = newer;
        }
    }
    before
}

/// The positions of versions that are not certainly those of before; `None` if an object is at another position, or may be.
fn other_positions(before: &[ObjectVersion], newest: NewestVersions<'_>) -> Option<Vec<usize>> {
    if before.len() != newest.len() {
        return None;
    }
    let mut others = Vec::new();
    for (at, older) in before.iter().enumerate().filter(|(at, older)| !older.is_newest(newest, *at)) {
        if name(&older.written) != name(newest.written(at)?) {
            return None;
        }
        others.push(at);
    }
    Some(others)
}

/// The keys of objects with these names.
fn keys<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (&'a str, usize)> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    names.map(move |name| {
        let number = numbers.entry(name).or_default();
        *number = number.saturating_add(1);
        (name, *number)
    })
}

fn name(document: &Value) -> &str {
    let name = document.get("metadata").and_then(|metadata| metadata.get("name"));
    name.and_then(Value::as_str).unwrap_or_default()
}

/// The number of values in one. JSON that was read is 128 levels deep at most.
fn values(value: &Value) -> u64 {
    let inner = match value {
        Value::Array(all) => all.iter().map(values).fold(0, u64::saturating_add),
        Value::Object(all) => all.values().map(values).fold(0, u64::saturating_add),
        _ => 0,
    };
    inner.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A name, a UID and an edition.
    type OneObject = (usize, u8, u8);

    /// A UID and an edition, those after an edit, and whether the edit is taken.
    type BothVersions = ((u8, u8), (u8, u8), bool);

    fn set(objects: &[OneObject]) -> ObjectSet {
        let one = |(name, uid, edition): &OneObject| {
            Arc::new(json!({"metadata": {"name": format!("c{name}"), "uid": uid}, "edition": edition}))
        };
        ObjectSet { clusters: objects.iter().map(one).collect(), ..ObjectSet::default() }
    }

    fn shown(versions: &[ObjectVersion]) -> Vec<(&Value, usize)> {
        versions.iter().map(|one| (one.written.as_ref(), one.number)).collect()
    }

    #[test]
    fn edit_of_one_among_many_is_one_position() {
        let mut objects = set(&(0..1_000).map(|name| (name, 0, 0)).collect::<Vec<_>>());
        let before = NewestVersions { objects: &objects, resolved: &Resolved::of(&objects) }.all();
        objects.clusters[500] = Arc::clone(&set(&[(500, 0, 1)]).clusters[0]);
        let resolved = Resolved::of(&objects);
        let (edits, others) = Edits::between(&before, NewestVersions { objects: &objects, resolved: &resolved });
        assert_eq!((edits.dirty.len(), others), (1, Some(vec![500])));
    }

    proptest! {
        #[test]
        fn edits_by_position_are_those_of_all(
            names in proptest::collection::vec(0..4_usize, 0..8),
            versions in proptest::collection::vec(((0..2_u8, 0..2_u8), (0..2_u8, 0..2_u8), any::<bool>()), 8),
        ) {
            let of = |one: fn(&BothVersions) -> (u8, u8)| -> Vec<OneObject> {
                names.iter().zip(&versions).map(|(name, all)| (*name, one(all).0, one(all).1)).collect()
            };
            let (older, objects) = (set(&of(|all| all.0)), set(&of(|all| all.1)));
            let before = NewestVersions { objects: &older, resolved: &Resolved::of(&older) }.all();
            let resolved = Resolved::of(&objects);
            let newest = NewestVersions { objects: &objects, resolved: &resolved };
            let (edits, others) = Edits::between(&before, newest);
            prop_assert!(others.is_some());
            prop_assert_eq!(&edits, &Edits::of_all(&before, newest));
            let is_taken = |at: &usize| versions[*at].2;
            let taken = edits.dirty.iter().filter(|(_, at)| is_taken(at)).map(|(key, _)| key.clone()).collect();
            let waiting = edits.waiting(&taken);
            let by_position = succeeded(before.clone(), newest, others, &waiting);
            let of_all = succeeded(before, newest, None, &waiting);
            prop_assert_eq!(shown(&by_position), shown(&of_all));
        }
    }
}
