use std::collections::BTreeMap;

use crate::Resource;
use crate::hash::Hash;

/// Everything that Envoy may ask for at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    types: BTreeMap<String, BTreeMap<String, Resource>>,
    versions: BTreeMap<String, String>,
    /// By owner: type and name.
    owned: BTreeMap<String, Vec<(String, String)>>,
    /// By type: names of resources that are made of parts.
    composed: BTreeMap<String, Vec<String>>,
    version: String,
}

impl Snapshot {
    /// A snapshot of `(type URL, name, resource)`. Of two with one type and name the later stays.
    pub fn new(resources: impl IntoIterator<Item = (String, String, Resource)>) -> Self {
        let mut types: BTreeMap<String, BTreeMap<String, Resource>> = BTreeMap::new();
        for (type_url, name, resource) in resources {
            types.entry(type_url).or_default().insert(name, resource);
        }
        let mut whole = Hash::default();
        let mut versions = BTreeMap::new();
        let mut owned: BTreeMap<String, Vec<_>> = BTreeMap::new();
        let mut composed: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (type_url, resources) in &types {
            let mut hash = Hash::default();
            for (name, resource) in resources {
                hash.add(name);
                hash.add(resource.version());
                for owner in resource.owner().into_iter().chain(resource.part_owners()) {
                    owned.entry(owner.to_owned()).or_default().push((type_url.clone(), name.clone()));
                }
                if resource.part_owners().next().is_some() {
                    composed.entry(type_url.clone()).or_default().push(name.clone());
                }
            }
            let version = hash.finish();
            whole.add(type_url);
            whole.add(&version);
            versions.insert(type_url.clone(), version);
        }
        Self { types, versions, owned, composed, version: whole.finish() }
    }

    /// A hash of everything.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// A hash of one type's resources; empty if there are none.
    pub fn type_version(&self, type_url: &str) -> &str {
        self.versions.get(type_url).map_or("", String::as_str)
    }

    /// One resource.
    pub fn get(&self, type_url: &str, name: &str) -> Option<&Resource> {
        self.types.get(type_url)?.get(name)
    }

    /// The names of one type's resources.
    pub fn names<'a>(&'a self, type_url: &str) -> impl Iterator<Item = &'a String> + use<'a> {
        self.types.get(type_url).into_iter().flat_map(BTreeMap::keys)
    }

    /// The resources of a type that are made of parts.
    pub(crate) fn composed<'a>(&'a self, type_url: &'a str) -> impl Iterator<Item = (&'a str, &'a Resource)> {
        let names = self.composed.get(type_url).into_iter().flatten();
        names.filter_map(move |name| Some((name.as_str(), self.get(type_url, name)?)))
    }

    /// Type and name of every resource that belongs to an owner, as a whole or a part of it.
    pub fn owned_by<'a>(&'a self, owner: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.owned.get(owner).into_iter().flatten().map(|(type_url, name)| (type_url.as_str(), name.as_str()))
    }
}
