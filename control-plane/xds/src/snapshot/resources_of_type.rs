use std::collections::BTreeMap;
use std::sync::Arc;

use crate::content_hash::ContentHash;
use crate::resource::Resource;

/// The resources of one type. Snapshots that follow each other share what did not change. Names and owners are in memory once, for
/// snapshots and for streams: each resource has a name that is longer than all else that is known of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResourcesOfType {
    pub(super) resources: BTreeMap<Arc<str>, Resource>,
    owned: Arc<OwnedNames>,
    /// Names of what is made of parts.
    pub(super) composed: Vec<Arc<str>>,
    /// Names of those of which only the version is known.
    pub(super) version_only: Vec<Arc<str>>,
    pub(super) version: String,
}

/// Owners and the names of what is theirs, as a whole or a part of it: sorted.
#[derive(Debug, Default, PartialEq, Eq)]
struct OwnedNames(Vec<(Arc<str>, Arc<str>)>);

impl ResourcesOfType {
    pub(super) fn new(resources: BTreeMap<Arc<str>, Resource>) -> Self {
        let owned = Arc::new(OwnedNames::of(&resources));
        let names = |is_one: fn(&Resource) -> bool| {
            let names = resources.iter().filter(move |(_, resource)| is_one(resource));
            names.map(|(name, _)| Arc::clone(name)).collect()
        };
        let (composed, version_only) = (names(Resource::is_composed), names(Resource::is_version_only));
        let version = version_of_all(&resources);
        Self { resources, owned, composed, version_only, version }
    }

    /// The same with other content of resources that stay with their owners and in one piece.
    pub(super) fn with_content(&self, resources: BTreeMap<Arc<str>, Resource>) -> Self {
        let version = version_of_all(&resources);
        let (composed, version_only) = (self.composed.clone(), self.version_only.clone());
        Self { resources, owned: Arc::clone(&self.owned), composed, version_only, version }
    }

    /// Whether these are its resources, sorted by name.
    pub(super) fn holds<T, N: AsRef<str>>(&self, resources: &[(T, N, Resource)]) -> bool {
        let is_same = |((name, resource), (_, other_name, other)): ((&Arc<str>, &Resource), &(T, N, Resource))| {
            **name == *other_name.as_ref() && resource.is(other)
        };
        self.resources.len() == resources.len() && self.resources.iter().zip(resources).all(is_same)
    }

    /// Every owner of something, sorted; one that owns several several times.
    pub(super) fn owners(&self) -> impl Iterator<Item = &str> {
        self.owned.0.iter().map(|(owner, _)| owner.as_ref())
    }

    /// The names of what is an owner's, as a whole or a part of it.
    pub(super) fn owned_by(&self, owner: &str) -> impl Iterator<Item = &str> + use<'_> {
        let all = self.owned.0.as_slice();
        let (start, end) = (
            all.partition_point(|(other, _)| other.as_ref() < owner),
            all.partition_point(|(other, _)| other.as_ref() <= owner),
        );
        all.get(start..end).into_iter().flatten().map(|(_, name)| name.as_ref())
    }
}

impl OwnedNames {
    fn of(resources: &BTreeMap<Arc<str>, Resource>) -> Self {
        let owners = |resource: &'_ Resource| -> Vec<Arc<str>> {
            resource.shared_owner().into_iter().chain(resource.part_owners()).cloned().collect()
        };
        let owned = resources
            .iter()
            .flat_map(|(name, resource)| owners(resource).into_iter().map(|owner| (owner, Arc::clone(name))));
        let mut owned: Vec<_> = owned.collect();
        owned.sort();
        owned.shrink_to_fit();
        Self(owned)
    }
}

/// A hash of one type's resources.
fn version_of_all(resources: &BTreeMap<Arc<str>, Resource>) -> String {
    let mut hash = ContentHash::default();
    for (name, resource) in resources {
        hash.add(name);
        hash.add(resource.version());
        if resource.lingers() {
            hash.add("lingers");
        }
    }
    hash.finish()
}
