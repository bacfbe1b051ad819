//! Edits of `UpstreamClusters` on their way from the source to translation, with a line for each instance and one for what belongs to
//! none. A round translates so many at most: an instance of which thousands of objects change leaves another one's edit waiting for the
//! round that runs, and for its own.
//!
//! An object whose newest version waits is there as it was before, or not yet. A watch that brings its event later would do the same:
//! each version is one that the object had, with the references that it had then. Only the newest version waits, once. Removals
//! do not wait: an object that was deleted and made anew under its name is not there until its round.
//!
//! Settings and instances decide about all objects, and may have been edited because objects were before: the ones that protect
//! themselves need no protection by the settings, the ones with another label are no selector's any more. Therefore nothing waits in
//! the round that takes other settings or instances.
//!
//! - [`EditQueue`]: which versions are translated next. Start here.
//! - [`tenant_queue`]: the order.

mod tenant_queue;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use portcullis_instances::MemberHolder;
use portcullis_sources::{NoticedAt, ObjectSet, Place};
use serde_json::Value;

use self::tenant_queue::TenantQueue;
use super::references::{Resolved, ResolvedCluster};
use super::retention::is_same_object;

/// Weight of the edits of one round. An object of a usual size has one.
const ROUND: u64 = 128;

/// JSON values of a document that make one more of its weight.
const VALUES_OF_WEIGHT: u64 = 1_000;

/// An object by its name, and by its position among those of the same name, of which files may hold several.
type EditKey = (String, usize);

/// The edits that wait, and the versions from before.
#[derive(Default)]
pub(super) struct EditQueue {
    queue: TenantQueue<MemberHolder, EditKey>,
    /// When the edit of each one that waits was noticed.
    noticed: BTreeMap<EditKey, Instant>,
    /// The versions that were translated last, in their order; `None` before the first ones.
    versions: Option<Vec<ObjectVersion>>,
    /// The settings and instances with which they were.
    common: CommonObjects,
}

/// The objects that decide about all others.
#[derive(Default)]
struct CommonObjects {
    settings: Vec<Value>,
    instance_settings: Vec<Arc<Value>>,
    instances: Vec<Arc<Value>>,
}

/// A version of an object.
#[derive(Clone)]
struct ObjectVersion {
    written: Arc<Value>,
    place: Option<Place>,
    resolved: ResolvedCluster,
}

impl EditQueue {
    /// The set of objects to translate next: the newest one, with the versions from before in place of edits that wait; `None` if none
    /// does. Without an owner of objects (`owner`), and with other settings or instances than before, none does.
    pub(super) fn take(
        &mut self,
        (objects, resolved): (&ObjectSet, Resolved),
        owner: Option<impl Fn(&Value) -> MemberHolder>,
        now: Instant,
    ) -> (Option<ObjectSet>, Resolved) {
        let newest = versions(objects, resolved);
        let is_other_common = self.follow_common(objects);
        let owner = owner.filter(|_| !is_other_common);
        let (Some(before), Some(owner)) = (self.versions.take(), owner) else { return self.take_all(newest) };
        let edits = Edits::between(&before, &newest);
        if edits.dirty.is_empty() {
            return self.take_all(newest);
        }
        self.follow(&edits, &newest, owner, objects.noticed.0.unwrap_or(now));
        let version = |key: &EditKey| newest.get(*edits.dirty.get(key)?);
        let weight = |key: &EditKey| version(key).map_or(1, ObjectVersion::weight);
        let taken: HashSet<EditKey> = self.queue.take(ROUND, weight).into_iter().collect();
        let oldest = taken.iter().filter_map(|key| self.noticed.remove(key)).min();
        if self.queue.is_empty() {
            return self.take_all(newest);
        }
        let waiting = edits.waiting(&taken);
        let next = newest.into_iter().enumerate().filter_map(|(at, version)| match waiting.get(&at) {
            Some(known) => before.get((*known)?).cloned(),
            None => Some(version),
        });
        let next: Vec<ObjectVersion> = next.collect();
        let mut set = objects.clone();
        set.clusters = next.iter().map(|one| Arc::clone(&one.written)).collect();
        set.cluster_places = next.iter().filter_map(|one| one.place.clone()).collect();
        set.noticed = NoticedAt(oldest.or(objects.noticed.0));
        let resolved = next.iter().map(|one| one.resolved.clone()).collect();
        self.versions = Some(next);
        (Some(set), resolved)
    }

    /// The number of edits that wait, by the owner of their objects.
    pub(super) fn lengths(&self) -> BTreeMap<MemberHolder, usize> {
        self.queue.lengths().map(|(owner, length)| (owner.clone(), length)).collect()
    }

    /// The objects whose edits wait, by name.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &String> {
        self.noticed.keys().map(|(name, _)| name)
    }

    /// Whether edits wait for another round.
    pub(super) fn is_behind(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes the settings and instances of a set. Returns whether they are other ones.
    fn follow_common(&mut self, objects: &ObjectSet) -> bool {
        let ObjectSet { settings, instance_settings, instances, .. } = objects;
        let common = &self.common;
        let is_same = common.settings == *settings
            && common.instance_settings == *instance_settings
            && common.instances == *instances;
        if !is_same {
            let (settings, instance_settings) = (settings.clone(), instance_settings.clone());
            self.common = CommonObjects { settings, instance_settings, instances: instances.clone() };
        }
        !is_same
    }

    fn take_all(&mut self, newest: Vec<ObjectVersion>) -> (Option<ObjectSet>, Resolved) {
        self.queue.clear();
        self.noticed.clear();
        let resolved = newest.iter().map(|one| one.resolved.clone()).collect();
        self.versions = Some(newest);
        (None, resolved)
    }

    fn follow(
        &mut self,
        edits: &Edits,
        newest: &[ObjectVersion],
        owner: impl Fn(&Value) -> MemberHolder,
        noticed: Instant,
    ) {
        // One that was made anew may be another tenant's.
        self.queue.retain(|key| edits.dirty.contains_key(key) && !edits.replaced.contains(key));
        self.noticed.retain(|key, _| edits.dirty.contains_key(key));
        // In the order of the set, so that the same edits lead to the same rounds.
        let mut dirty: Vec<(&EditKey, usize)> = edits.dirty.iter().map(|(key, at)| (key, *at)).collect();
        dirty.sort_unstable_by_key(|(_, at)| *at);
        for (key, at) in dirty {
            let Some(version) = newest.get(at) else { continue };
            self.noticed.entry(key.clone()).or_insert(noticed);
            self.queue.add(key.clone(), || owner(&version.resolved.document));
        }
    }
}

/// The difference between two sets.
struct Edits {
    /// The objects that are new or other ones, by their positions in the newer set.
    dirty: HashMap<EditKey, usize>,
    /// The positions in the older set of those that were there. Another object of the same name was not: its removal does not wait.
    known: HashMap<usize, usize>,
    /// The objects that are other ones than those that were there under their names.
    replaced: HashSet<EditKey>,
}

impl Edits {
    fn between(before: &[ObjectVersion], newest: &[ObjectVersion]) -> Self {
        let mut edits = Self { dirty: HashMap::new(), known: HashMap::new(), replaced: HashSet::new() };
        let is_same =
            before.len() == newest.len() && before.iter().zip(newest).all(|(one, other)| one.is_shared_with(other));
        if is_same {
            return edits;
        }
        let of_before: HashMap<(&str, usize), usize> = keys(before).zip(0..).collect();
        for (at, ((name, number), version)) in keys(newest).zip(newest).enumerate() {
            let known = of_before.get(&(name, number)).copied();
            let older = known.and_then(|known| before.get(known));
            if older.is_some_and(|older| older.is_same(version)) {
                continue;
            }
            edits.dirty.insert((name.to_owned(), number), at);
            let is_there = older.is_some_and(|older| is_same_object(&older.written, &version.written));
            if older.is_some() && !is_there {
                edits.replaced.insert((name.to_owned(), number));
            }
            edits.known.extend(known.filter(|_| is_there).map(|known| (at, known)));
        }
        edits
    }

    /// The positions in the newer set of what waits, with those in the older one.
    fn waiting(&self, taken: &HashSet<EditKey>) -> HashMap<usize, Option<usize>> {
        let waiting = self.dirty.iter().filter(|(key, _)| !taken.contains(*key));
        waiting.map(|(_, at)| (*at, self.known.get(at).copied())).collect()
    }
}

/// The keys of versions, in their order.
fn keys(versions: &[ObjectVersion]) -> impl Iterator<Item = (&str, usize)> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    versions.iter().map(move |version| {
        let name = version.written.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let number = numbers.entry(name).or_default();
        *number = number.saturating_add(1);
        (name, *number)
    })
}

fn versions(objects: &ObjectSet, resolved: Resolved) -> Vec<ObjectVersion> {
    let places = objects.cluster_places.iter().cloned().map(Some).chain(std::iter::repeat(None));
    let all = objects.clusters.iter().zip(places).zip(resolved.into_clusters());
    all.map(|((written, place), resolved)| ObjectVersion { written: Arc::clone(written), place, resolved }).collect()
}

impl ObjectVersion {
    fn is_shared_with(&self, other: &Self) -> bool {
        let (own, others) = (&self.resolved, &other.resolved);
        Arc::ptr_eq(&self.written, &other.written) && Arc::ptr_eq(&own.document, &others.document)
    }

    /// Whether nothing is to be translated anew.
    fn is_same(&self, other: &Self) -> bool {
        self.is_shared_with(other)
            || (self.written == other.written && self.resolved.document == other.resolved.document)
    }

    /// By its size, which translation's time grows with.
    fn weight(&self) -> u64 {
        values(&self.resolved.document).checked_div(VALUES_OF_WEIGHT).unwrap_or_default().saturating_add(1)
    }
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
