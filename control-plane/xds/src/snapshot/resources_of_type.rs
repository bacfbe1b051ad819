use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::sorted_chunks::{SortedChunks, SortedEntries};
use crate::content_hash::ContentHash;
use crate::resource::Resource;

/// The resources of one type. Snapshots that follow each other share what did not change. Names and owners are in memory once, for
/// snapshots and for streams: each resource has a name that is longer than all else that is known of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResourcesOfType {
    resources: SortedChunks<Arc<str>, Resource>,
    /// Owners and the names of what is theirs, as a whole or a part of it.
    owned: Arc<SortedChunks<OwnedName, ()>>,
    /// Names of what is made of parts.
    composed: Arc<[Arc<str>]>,
    /// Names of those of which only the version is known.
    version_only: Arc<[Arc<str>]>,
    pub(super) version: String,
}

/// An owner, and the name of what is its own as a whole or a part of it.
type OwnedName = (Arc<str>, Arc<str>);

impl ResourcesOfType {
    pub(super) fn new(resources: BTreeMap<Arc<str>, Resource>) -> Self {
        let owned: BTreeMap<_, _> = resources.iter().flat_map(owned_names).map(|one| (one, ())).collect();
        let names = |is_one: fn(&Resource) -> bool| {
            let names = resources.iter().filter(move |(_, resource)| is_one(resource));
            names.map(|(name, _)| Arc::clone(name)).collect()
        };
        let (composed, version_only) = (names(Resource::is_composed), names(Resource::is_version_only));
        let (resources, owned) = (SortedChunks::new(resources), Arc::new(SortedChunks::new(owned)));
        let version = resources.version(add_entry);
        Self { resources, owned, composed, version_only, version }
    }

    /// The resources after a change, at the cost of what changes. `None` if a name leaves that is not there, or comes beside one that
    /// stays.
    pub(super) fn changed_by(&self, gone: BTreeSet<Arc<str>>, new: BTreeMap<Arc<str>, Resource>) -> Option<Self> {
        let owned = self.owned_after(&gone, &new)?;
        let composed = self.names_after(&self.composed, &gone, &new, Resource::is_composed);
        let version_only = self.names_after(&self.version_only, &gone, &new, Resource::is_version_only);
        let resources = self.resources.changed_by(gone, new)?;
        let version = resources.version(add_entry);
        Some(Self { resources, owned, composed, version_only, version })
    }

    fn owned_after(
        &self,
        gone: &BTreeSet<Arc<str>>,
        new: &BTreeMap<Arc<str>, Resource>,
    ) -> Option<Arc<SortedChunks<OwnedName, ()>>> {
        let has_owners_of = |name: &Arc<str>, resource: &Resource| {
            let known = self.get(name).filter(|_| gone.contains(name));
            known.is_some_and(|known| known.owners().eq(resource.owners()))
        };
        let is_moved = |name: &Arc<str>| !new.get(name).is_some_and(|resource| has_owners_of(name, resource));
        let left = gone.iter().filter(|name| is_moved(name)).filter_map(|name| Some((name, self.get(name)?)));
        let left: BTreeSet<OwnedName> = left.flat_map(owned_names).collect();
        let come = new.iter().filter(|(name, _)| is_moved(name)).flat_map(owned_names);
        let come: BTreeMap<OwnedName, ()> = come.map(|one| (one, ())).collect();
        if left.is_empty() && come.is_empty() {
            return Some(Arc::clone(&self.owned));
        }
        self.owned.changed_by(left, come).map(Arc::new)
    }

    /// The names of one kind of resource after a change. `known`: those before.
    fn names_after(
        &self,
        known: &Arc<[Arc<str>]>,
        gone: &BTreeSet<Arc<str>>,
        new: &BTreeMap<Arc<str>, Resource>,
        is_one: fn(&Resource) -> bool,
    ) -> Arc<[Arc<str>]> {
        let was_one = |name: &&Arc<str>| self.get(name).is_some_and(is_one);
        let left: BTreeSet<_> = gone.iter().filter(was_one).collect();
        let come: BTreeSet<_> = new.iter().filter(|(_, resource)| is_one(resource)).map(|(name, _)| name).collect();
        if left == come {
            return Arc::clone(known);
        }
        let mut names: Vec<_> = known.iter().filter(|name| !left.contains(name)).chain(come).cloned().collect();
        names.sort();
        names.into()
    }

    /// Whether these are its resources, sorted by name.
    pub(super) fn holds<T, N: AsRef<str>>(&self, resources: &[(T, N, Resource)]) -> bool {
        let is_same = |((name, resource), (_, other_name, other)): (&(Arc<str>, Resource), &(T, N, Resource))| {
            **name == *other_name.as_ref() && resource.is(other)
        };
        self.len() == resources.len() && self.iter().zip(resources).all(is_same)
    }

    /// The number of resources.
    pub(super) fn len(&self) -> usize {
        self.resources.len()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// Names and resources, sorted by name.
    pub(super) fn iter(&self) -> SortedEntries<'_, Arc<str>, Resource> {
        self.resources.iter()
    }

    /// The same from a name on.
    pub(super) fn from(&self, name: &str) -> SortedEntries<'_, Arc<str>, Resource> {
        self.resources.from(|other| **other < *name)
    }

    /// The resource of a name.
    pub(super) fn get(&self, name: &str) -> Option<&Resource> {
        self.entry(name).map(|(_, resource)| resource)
    }

    /// The same with its name as it is kept.
    pub(super) fn entry(&self, name: &str) -> Option<&(Arc<str>, Resource)> {
        self.resources.get_by(|other| (**other).cmp(name))
    }

    /// Names of what is made of parts.
    pub(super) fn composed(&self) -> &[Arc<str>] {
        &self.composed
    }

    /// Names of those of which only the version is known.
    pub(super) fn version_only(&self) -> &[Arc<str>] {
        &self.version_only
    }

    /// Every owner of something, sorted; one that owns several several times.
    pub(super) fn owners(&self) -> impl Iterator<Item = &str> {
        self.owned.iter().map(|((owner, _), ())| owner.as_ref())
    }

    /// The names of what is an owner's, as a whole or a part of it.
    pub(super) fn owned_by(&self, owner: &str) -> impl Iterator<Item = &str> {
        let from = self.owned.from(|(other, _)| **other < *owner);
        from.take_while(move |((other, _), ())| **other == *owner).map(|((_, name), ())| name.as_ref())
    }

    /// The names that are other resources in `newer`, or are in one of the two only, sorted.
    pub(super) fn changes<'a>(&'a self, newer: &'a Self) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        let [before, after] = self.resources.unshared(&newer.resources);
        let mut before = before.into_iter().flatten().peekable();
        let mut after = after.into_iter().flatten().peekable();
        std::iter::from_fn(move || {
            loop {
                let order = match (before.peek(), after.peek()) {
                    (Some((gone, _)), Some((new, _))) if Arc::ptr_eq(gone, new) => Ordering::Equal,
                    (Some((gone, _)), Some((new, _))) => gone.cmp(new),
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (None, None) => return None,
                };
                match order {
                    Ordering::Less => return before.next().map(|(name, _)| name),
                    Ordering::Greater => return after.next().map(|(name, _)| name),
                    Ordering::Equal => {
                        let ((name, known), (_, resource)) = (before.next()?, after.next()?);
                        if !known.is(resource) {
                            return Some(name);
                        }
                    }
                }
            }
        })
    }
}

/// The owners of a resource, each with its name.
fn owned_names<'a>((name, resource): (&'a Arc<str>, &'a Resource)) -> impl Iterator<Item = OwnedName> + use<'a> {
    resource.owners().map(|owner| (Arc::clone(owner), Arc::clone(name)))
}

fn add_entry(hash: &mut ContentHash, (name, resource): &(Arc<str>, Resource)) {
    hash.add(name);
    hash.add(resource.version());
    hash.add(if resource.lingers() { "lingers" } else { "" });
}
