use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use portcullis_translate::{self as translated, Resource as Translated, ResourceGroup, type_urls};
use portcullis_xds::{Part, Resource, Snapshot, SnapshotChange};

use super::group_change::GroupChange;

/// The snapshot of translated resources and of what is retained beside them. An edit costs what it changes.
#[derive(Default)]
pub(super) struct XdsResources {
    snapshot: Snapshot,
    /// The retained resources in the snapshot.
    retained: HashMap<RetainedKey, Arc<Translated>>,
    /// Whether the snapshot is of the groups of the last translation. One from before this program started is not.
    is_followed: bool,
}

/// Resources that Envoy keeps beside those of the translation.
#[derive(Clone, Copy)]
pub(super) struct Retained<'a> {
    /// Routes without destinations in place of removed objects.
    pub(super) tombstones: &'a [Arc<Translated>],
    /// Resources that no route leads to any more.
    pub(super) retired: &'a [Arc<Translated>],
}

/// The address of a resource, and whether it is retired.
type RetainedKey = (usize, bool);

impl XdsResources {
    /// Goes on from the snapshot that was served before this program started.
    pub(super) fn resume(snapshot: Snapshot) -> Self {
        Self { snapshot, ..Self::default() }
    }

    /// The snapshot.
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Takes the groups of a newer translation, and what is retained with them.
    pub(super) fn follow(&mut self, groups: &[ResourceGroup], change: &GroupChange, retained: Retained<'_>) {
        let before = std::mem::replace(&mut self.retained, retained.by_key());
        let changed = if self.is_followed { self.snapshot.changed_by(self.change(change, &before)) } else { None };
        self.snapshot = match changed {
            Some(changed) => changed,
            None => self.made_of_all(groups, retained),
        };
    }

    fn change(&self, change: &GroupChange, before: &HashMap<RetainedKey, Arc<Translated>>) -> SnapshotChange {
        let gone = before.iter().filter(|(key, _)| !self.retained.contains_key(key)).map(|(_, one)| one);
        let gone = change.gone().chain(gone);
        let retained = self.retained.iter().filter(|(key, _)| !before.contains_key(key));
        let retained = retained.map(|((_, is_retired), one)| (one, xds_resource(one, *is_retired)));
        let new = change.new().map(|one| (one, xds_resource(one, false))).chain(retained);
        SnapshotChange {
            gone: gone.map(|one| (one.type_url.clone(), one.name.clone())).collect(),
            new: new.map(|(one, resource)| (one.type_url.clone(), one.name.clone(), resource)).collect(),
        }
    }

    /// Of two resources with one type and name the later one is served. The next snapshot is then made of all again: the other may
    /// be there alone.
    fn made_of_all(&mut self, groups: &[ResourceGroup], retained: Retained<'_>) -> Snapshot {
        let translated = groups.iter().flat_map(|group| group.iter());
        let mut all: Vec<_> = translated.map(|one| (one, false)).collect();
        all.extend(retained.tombstones.iter().map(|one| (one, false)));
        all.extend(retained.retired.iter().map(|one| (one, true)));
        let (count, entry) = (all.len(), |(one, is_retired): (&Arc<Translated>, bool)| {
            (one.type_url.clone(), one.name.clone(), xds_resource(one, is_retired))
        });
        let snapshot = self.snapshot.succeeded_by(all.into_iter().map(entry));
        self.is_followed = snapshot.resources().count() == count;
        snapshot
    }
}

impl Retained<'_> {
    fn by_key(&self) -> HashMap<RetainedKey, Arc<Translated>> {
        let key = |one: &Arc<Translated>, is_retired| ((Arc::as_ptr(one).addr(), is_retired), Arc::clone(one));
        let tombstones = self.tombstones.iter().map(|one| key(one, false));
        tombstones.chain(self.retired.iter().map(|one| key(one, true))).collect()
    }
}

fn xds_resource(one: &Arc<Translated>, is_retired: bool) -> Resource {
    let part = |part: &translated::Part| Part {
        owner: part.owner.clone(),
        range: part.start..part.end,
        fallback: Some(part.fallback.clone().into()),
    };
    let mut resource = Resource::new(Bytes::from_owner(SharedBody(Arc::clone(one))));
    if one.type_url == type_urls::listener() {
        resource = resource.with_parts(one.parts.iter().map(part));
    }
    if one.on_demand {
        resource = resource.on_demand();
    }
    if one.is_optional() {
        resource = resource.optional();
    }
    if let Some(assignment) = &one.assignment {
        resource = resource.with_companion(type_urls::assignment(), assignment);
    }
    if let Some(owner) = &one.owner {
        resource = resource.owned_by(owner);
    }
    if is_retired { resource.lingering() } else { resource }
}

/// The bytes of a translated resource, which are not copied.
struct SharedBody(Arc<Translated>);

impl AsRef<[u8]> for SharedBody {
    fn as_ref(&self) -> &[u8] {
        &self.0.value
    }
}
