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
//! - [`versions`]: how the newest versions differ from those that were translated last.
//! - [`tenant_queue`]: the order.

mod tenant_queue;
#[cfg(test)]
mod tests;
mod versions;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use portcullis_instances::MemberHolder;
use portcullis_sources::{NoticedAt, ObjectSet};
use serde_json::Value;

use self::tenant_queue::{RoundBudget, TenantQueue};
use self::versions::{EditKey, Edits, NewestVersions, ObjectVersion, succeeded};
use super::references::Resolved;

/// The edits of one round, by the number of objects. A round has work for all of these, whatever is edited, and takes about as much time
/// for its edits: one tenant's edit waits for a round of others for twice that work at most, and a bulk edit takes twice its own time.
fn budget(objects: usize) -> RoundBudget {
    let most = u64::try_from(objects / OBJECTS_OF_WEIGHT).unwrap_or(u64::MAX).clamp(LEAST_ROUND, ROUND);
    // A tenant with an edit in each round leaves others as much of it.
    RoundBudget { least: most / 4, most }
}

/// Objects for which a round has as much work as for the edit of one, if that is of a usual size.
const OBJECTS_OF_WEIGHT: usize = 64;
/// Most edits of a round: their weight, which is one for an object of a usual size.
const ROUND: u64 = 128;
/// The same among few objects.
const LEAST_ROUND: u64 = 2;

/// The edits that wait, and the versions from before.
#[derive(Default)]
pub(super) struct EditQueue {
    queue: TenantQueue<MemberHolder, EditKey>,
    /// When the edit of each one that waits was noticed.
    noticed: BTreeMap<EditKey, Instant>,
    /// The versions that were translated last, in their order; `None` before the first ones, and where no edit of the next round waits.
    versions: Option<Vec<ObjectVersion>>,
    /// Whether there were first ones.
    is_begun: bool,
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

impl EditQueue {
    /// The set of objects to translate next: the newest one, with the versions from before in place of edits that wait; `None` if none
    /// does. Without an owner of objects (`owner`), and with other settings or instances than before, none does.
    pub(super) fn take(
        &mut self,
        (objects, resolved): (&ObjectSet, Resolved),
        owner: Option<impl Fn(&Value) -> MemberHolder>,
        now: Instant,
    ) -> (Option<ObjectSet>, Resolved) {
        let newest = NewestVersions { objects, resolved: &resolved };
        let is_other_common = self.follow_common(objects);
        // The round after the first one, or after that of the first instances, may have owners.
        let may_have_owners = !objects.instances.is_empty() || !self.is_begun;
        let is_kept = owner.is_some() || may_have_owners;
        self.is_begun = true;
        let owner = owner.filter(|_| !is_other_common);
        let (Some(before), Some(owner)) = (self.versions.take(), owner) else {
            self.clear();
            self.versions = is_kept.then(|| newest.all());
            return (None, resolved);
        };
        let (edits, others) = Edits::between(&before, newest);
        self.follow(&edits, newest, owner, objects.noticed.0.unwrap_or(now));
        let weight = |key: &EditKey| edits.dirty.get(key).map_or(1, |at| newest.weight(*at));
        let taken: HashSet<EditKey> = self.queue.take(&budget(newest.len()), weight).into_iter().collect();
        let oldest = taken.iter().filter_map(|key| self.noticed.remove(key)).min();
        if self.queue.is_empty() {
            self.clear();
            self.versions = Some(succeeded(before, newest, others, &HashMap::new()));
            return (None, resolved);
        }
        let next = succeeded(before, newest, others, &edits.waiting(&taken));
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

    fn clear(&mut self) {
        self.queue.clear();
        self.noticed.clear();
    }

    fn follow(
        &mut self,
        edits: &Edits,
        newest: NewestVersions<'_>,
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
            let Some(document) = newest.document(at) else { continue };
            self.noticed.entry(key.clone()).or_insert(noticed);
            self.queue.add(key.clone(), || owner(document));
        }
    }
}
