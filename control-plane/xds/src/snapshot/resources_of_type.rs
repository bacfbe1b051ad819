use std::collections::BTreeMap;
use std::sync::Arc;

use crate::content_hash::ContentHash;
use crate::resource::Resource;

/// The resources of one type. Snapshots that follow each other share what did not change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResourcesOfType {
    pub(super) resources: BTreeMap<String, Resource>,
    /// Names by owner.
    pub(super) owned: Arc<BTreeMap<String, Vec<String>>>,
    /// Names of what is made of parts.
    pub(super) composed: Vec<String>,
    /// Names of those of which only the version is known.
    pub(super) version_only: Vec<String>,
    pub(super) version: String,
}

impl ResourcesOfType {
    pub(super) fn new(resources: BTreeMap<String, Resource>) -> Self {
        let mut owned: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut composed = Vec::new();
        for (name, resource) in &resources {
            for owner in resource.owner().into_iter().chain(resource.part_owners()) {
                owned.entry(owner.to_owned()).or_default().push(name.clone());
            }
            if resource.is_composed() {
                composed.push(name.clone());
            }
        }
        let version_only =
            resources.iter().filter(|(_, resource)| resource.is_version_only()).map(|(name, _)| name.clone()).collect();
        let version = version_of_all(&resources);
        Self { resources, owned: Arc::new(owned), composed, version_only, version }
    }

    /// The same with other content of resources that stay with their owners and in one piece.
    pub(super) fn with_content(&self, resources: BTreeMap<String, Resource>) -> Self {
        let version = version_of_all(&resources);
        let (composed, version_only) = (self.composed.clone(), self.version_only.clone());
        Self { resources, owned: Arc::clone(&self.owned), composed, version_only, version }
    }

    /// Whether these are its resources, sorted by name.
    pub(super) fn holds<S: AsRef<str>>(&self, resources: &[(S, S, Resource)]) -> bool {
        let is_same = |((name, resource), (_, other_name, other)): ((&String, &Resource), &(S, S, Resource))| {
            name == other_name.as_ref() && resource.is(other)
        };
        self.resources.len() == resources.len() && self.resources.iter().zip(resources).all(is_same)
    }
}

/// A hash of one type's resources.
fn version_of_all(resources: &BTreeMap<String, Resource>) -> String {
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
