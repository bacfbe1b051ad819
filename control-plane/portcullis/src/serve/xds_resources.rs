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
        let retained = retained.map(|((_, is_retired), one)| (one, self.made(one, *is_retired)));
        let new = change.made().map(|one| (one, self.made(one, false))).chain(retained);
        SnapshotChange {
            gone: gone.map(|one| (one.type_url.to_owned(), Arc::clone(&one.name))).collect(),
            new: new.map(|(one, resource)| (one.type_url.to_owned(), Arc::clone(&one.name), resource)).collect(),
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
            (one.type_url, Arc::clone(&one.name), self.made(one, is_retired))
        });
        let snapshot = self.snapshot.succeeded_by(all.into_iter().map(entry));
        self.is_followed = snapshot.resources().count() == count;
        snapshot
    }

    fn made(&self, one: &Arc<Translated>, is_retired: bool) -> Resource {
        xds_resource(one, is_retired, self.snapshot.get(one.type_url, &one.name))
    }
}

impl Retained<'_> {
    fn by_key(&self) -> HashMap<RetainedKey, Arc<Translated>> {
        let key = |one: &Arc<Translated>, is_retired| ((Arc::as_ptr(one).addr(), is_retired), Arc::clone(one));
        let tombstones = self.tombstones.iter().map(|one| key(one, false));
        tombstones.chain(self.retired.iter().map(|one| key(one, true))).collect()
    }
}

/// The resource to serve. `before`: the one that is served under its name.
fn xds_resource(one: &Arc<Translated>, is_retired: bool, before: Option<&Resource>) -> Resource {
    let part = |part: &translated::Part| Part {
        owner: Arc::clone(&part.owner),
        body: part.body.clone(),
        fallback: Some(part.fallback.clone()),
    };
    let mut resource = Resource::new(Bytes::from_owner(SharedBody(Arc::clone(one))));
    if one.type_url == type_urls::listener() {
        resource = resource.with_common_and_parts(one.common.clone(), before, one.parts.iter().map(part));
    }
    if one.on_demand {
        resource = resource.on_demand();
    }
    if one.is_optional() {
        resource = resource.optional();
    }
    if let Some(assignment) = &one.assignment {
        resource = resource.with_companion(type_urls::assignment(), Arc::clone(assignment));
    }
    if let Some(owner) = &one.owner {
        resource = resource.owned_by(Arc::clone(owner));
    }
    if is_retired { resource.lingering() } else { resource }
}

/// The bytes of a translated resource without what follows them, which is not copied.
struct SharedBody(Arc<Translated>);

impl AsRef<[u8]> for SharedBody {
    fn as_ref(&self) -> &[u8] {
        &self.0.value
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::group_change::KnownGroups;
    use super::*;

    fn resource(name: String, edition: u8, owner: &str) -> Arc<Translated> {
        Arc::new(Translated {
            type_url: if name.ends_with("routes") { type_urls::route_configuration() } else { type_urls::cluster() },
            name: name.into(),
            value: vec![edition],
            common: Bytes::new(),
            assignment: None,
            on_demand: false,
            owner: Some(owner.into()),
            parts: Vec::new(),
        })
    }

    fn group(object: u8, edition: u8) -> ResourceGroup {
        let owner = format!("o{object}");
        let one = |kind: &str| resource(format!("{owner}/{kind}"), edition, &owner);
        [one("routes"), one("pool"), one(if edition > 1 { "late" } else { "early" })].into()
    }

    /// For each object its edition, if it is served, and whether a resource of an earlier one is retained.
    type State = BTreeMap<u8, (Option<u8>, bool)>;

    proptest! {
        #[test]
        fn snapshot_does_not_depend_on_earlier_ones(
            states in proptest::collection::vec(
                proptest::collection::btree_map(0..4_u8, (proptest::option::of(0..4_u8), any::<bool>()), 0..4), 1..8),
        ) {
            let (mut followed, mut known) = (XdsResources::default(), KnownGroups::default());
            let mut made: BTreeMap<(u8, u8), ResourceGroup> = BTreeMap::new();
            let mut kept: BTreeMap<(u8, bool), Arc<Translated>> = BTreeMap::new();
            for state in states {
                let state: State = state;
                let mut groups = Vec::new();
                let (mut tombstones, mut retired) = (Vec::new(), Vec::new());
                for (object, (edition, retains)) in state {
                    let owner = format!("o{object}");
                    if let Some(edition) = edition {
                        groups.push(Arc::clone(made.entry((object, edition)).or_insert_with(|| group(object, edition))));
                    }
                    let is_served = edition.is_some();
                    let name = format!("{owner}/{}", if is_served { "old-pool" } else { "routes" });
                    let one = kept.entry((object, is_served)).or_insert_with(|| resource(name, 9, &owner));
                    match (retains, is_served) {
                        (true, true) => retired.push(Arc::clone(one)),
                        (true, false) => tombstones.push(Arc::clone(one)),
                        (false, _) => {}
                    }
                }
                let retained = Retained { tombstones: &tombstones, retired: &retired };
                followed.follow(&groups, &known.follow(&groups), retained);
                prop_assert!(followed.is_followed, "no name is there twice");
                let mut anew = XdsResources::default();
                anew.follow(&groups, &GroupChange::default(), retained);
                prop_assert_eq!(followed.snapshot(), anew.snapshot());
            }
        }
    }

    #[test]
    fn name_that_is_there_twice_is_not_lost_with_one_of_both() {
        let (mut followed, mut known) = (XdsResources::default(), KnownGroups::default());
        let groups = [group(1, 0)];
        let twin = [resource("o1/pool".to_owned(), 9, "o1")];
        let none = Retained { tombstones: &[], retired: &[] };
        for retained in [none, Retained { tombstones: &twin, retired: &[] }, none] {
            followed.follow(&groups, &known.follow(&groups), retained);
            let served = followed.snapshot().get(type_urls::cluster(), "o1/pool").unwrap();
            let expected = retained.tombstones.first().map_or(0, |one| one.value[0]);
            assert_eq!(served.pieces().concat(), [expected]);
        }
    }
}
