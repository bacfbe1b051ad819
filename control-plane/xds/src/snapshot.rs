mod change;
mod resources_of_type;
mod sorted_chunks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::content_hash::ContentHash;
use crate::kind::{CDS, ResourceKind};
use crate::node::View;
use crate::resource::Resource;

pub(crate) use change::OwnerVersions;
pub use change::SnapshotChange;
use resources_of_type::ResourcesOfType;

/// Everything that Envoy may ask for at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    types: BTreeMap<String, Arc<ResourcesOfType>>,
    version: String,
    /// The same objects for nodes that understand them otherwise.
    views: BTreeMap<String, Arc<Snapshot>>,
}

impl Snapshot {
    /// The number of resources.
    pub(crate) fn len(&self) -> usize {
        self.types.values().map(|of_type| of_type.len()).sum()
    }

    /// A snapshot of `(type URL, name, resource)`. Of two with one type and name the later stays.
    pub fn new<T: AsRef<str>, N: AsRef<str> + Into<Arc<str>>>(
        resources: impl IntoIterator<Item = (T, N, Resource)>,
    ) -> Self {
        Self::default().succeeded_by(resources)
    }

    /// The snapshot of `(type URL, name, resource)` that comes after this one. It is the same as [`Snapshot::new`] makes,
    /// and costs less where little changed, least if they come sorted by type and name.
    #[must_use]
    pub fn succeeded_by<T: AsRef<str>, N: AsRef<str> + Into<Arc<str>>>(
        &self,
        resources: impl IntoIterator<Item = (T, N, Resource)>,
    ) -> Self {
        let mut resources: Vec<_> = resources.into_iter().collect();
        // Stable, so that of two with one name the later one comes last.
        resources.sort_by(|one, other| (one.0.as_ref(), one.1.as_ref()).cmp(&(other.0.as_ref(), other.1.as_ref())));
        let mut types = BTreeMap::new();
        while let Some((last, ..)) = resources.last() {
            let start = resources.partition_point(|(type_url, ..)| type_url.as_ref() < last.as_ref());
            let type_url = last.as_ref().to_owned();
            let of_type = resources.split_off(start);
            let before = self.types.get(&type_url).filter(|before| before.holds(&of_type));
            let one = before.cloned().unwrap_or_else(|| {
                let named = of_type.into_iter().map(|(_, name, resource)| (name.into(), resource));
                Arc::new(ResourcesOfType::new(named.collect()))
            });
            types.insert(type_url, one);
        }
        let version = whole_version(&types);
        Self { types, version, views: BTreeMap::new() }
    }

    /// The same with views for nodes that understand the same objects otherwise, or belong to other objects. Each view has the
    /// version of its own resources.
    #[must_use]
    pub fn with_views(mut self, views: impl IntoIterator<Item = (String, Snapshot)>) -> Self {
        self.views = views.into_iter().map(|(name, view)| (name, Arc::new(view))).collect();
        self
    }

    /// Whether it has the same resources, whatever its views have. Fast where both share them.
    pub(crate) fn has_same_resources(&self, other: &Self) -> bool {
        self.version == other.version && self.types == other.types
    }

    /// The views, by name.
    pub fn views(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.views.iter().map(|(name, view)| (name.as_str(), view.as_ref()))
    }

    /// The snapshot for nodes of a view; `None` if that view is not made yet.
    pub fn view(&self, view: &View) -> Option<&Self> {
        match &view.0 {
            None => Some(self),
            Some(name) => self.views.get(name).map(Arc::as_ref),
        }
    }

    /// As [`Snapshot::view`].
    pub(crate) fn shared_view(self: &Arc<Self>, view: &View) -> Option<Arc<Self>> {
        match &view.0 {
            None => Some(Arc::clone(self)),
            Some(name) => self.views.get(name).cloned(),
        }
    }

    /// A hash of all resources, without those of views.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// A hash of all resources and of the views of these names: [`Snapshot::version`] if there is none.
    pub fn version_with_views(&self, is_meant: impl Fn(&str) -> bool) -> String {
        let mut views = self.views.iter().filter(|(name, _)| is_meant(name)).peekable();
        if views.peek().is_none() {
            return self.version.clone();
        }
        let mut hash = ContentHash::default();
        hash.add(&self.version);
        for (name, view) in views {
            hash.add(name);
            hash.add(&view.version);
        }
        hash.finish()
    }

    /// A hash of one type's resources; empty if there are none.
    pub fn type_version(&self, type_url: &str) -> &str {
        self.types.get(type_url).map_or("", |one| one.version.as_str())
    }

    /// Whether it has the same resources as another one.
    pub(crate) fn has_resources_of(&self, other: &Self) -> bool {
        let is_same = |(type_url, of_type): (&String, &Arc<ResourcesOfType>)| {
            other.types.get(type_url).is_some_and(|other| other.version == of_type.version)
        };
        self.types.len() == other.types.len() && self.types.iter().all(is_same)
    }

    /// The number of resources of a kind, as [`crate::XdsMetrics`] calls it.
    pub fn count(&self, kind: &str) -> usize {
        let of_kind = self.types.iter().filter(|(type_url, _)| ResourceKind::of(type_url).label() == kind);
        of_kind.map(|(_, one)| one.len()).sum()
    }

    /// One resource.
    pub fn get(&self, type_url: &str, name: &str) -> Option<&Resource> {
        self.types.get(type_url)?.get(name)
    }

    /// Whether some node may report about a cluster of that name, or of one with `@` and more behind that name: nodes report
    /// the names of their statistics, which end before `@`.
    pub fn has_cluster(&self, name: &str) -> bool {
        self.clusters_named(name).next().is_some()
    }

    /// The clusters about which nodes report under a name.
    pub fn clusters_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Resource> + use<'a> {
        let marked = format!("{name}@");
        let all = self.types.get(CDS);
        let whole = all.and_then(|all| all.get(name));
        let from = all.map(|all| all.from(&marked));
        let generations = from.into_iter().flatten().take_while(move |(other, _)| other.starts_with(&marked));
        whole.into_iter().chain(generations.map(|(_, resource)| resource))
    }

    /// The snapshots of these views, as far as there are any; of all views if there are no certain ones.
    pub(crate) fn within<'a>(&'a self, views: Option<&'a [View]>) -> impl Iterator<Item = &'a Self> {
        let (all, some) = match views {
            None => (Some(std::iter::once(self).chain(self.views.values().map(Arc::as_ref))), None),
            Some(views) => (None, Some(views.iter().filter_map(move |view| self.view(view)))),
        };
        all.into_iter().flatten().chain(some.into_iter().flatten())
    }

    /// Everything: type URL, name and resource.
    pub fn resources(&self) -> impl Iterator<Item = (&str, &str, &Resource)> {
        self.types.iter().flat_map(|(type_url, one)| {
            one.iter().map(move |(name, resource)| (type_url.as_str(), name.as_ref(), resource))
        })
    }

    /// The names of those resources of one type of which only the version is known.
    pub(crate) fn version_only<'a>(&'a self, type_url: &str) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        self.types.get(type_url).into_iter().flat_map(|one| one.version_only())
    }

    /// The names of one type's resources.
    pub fn names<'a>(&'a self, type_url: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.shared_names(type_url).map(AsRef::as_ref)
    }

    /// The same, to be kept.
    pub(crate) fn shared_names<'a>(&'a self, type_url: &str) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        self.types.get(type_url).into_iter().flat_map(|one| one.iter().map(|(name, _)| name))
    }

    /// A name, to be kept: the same allocation as here, if there is a resource of that name.
    pub(crate) fn shared_name(&self, type_url: &str, name: &str) -> Arc<str> {
        let known = self.types.get(type_url).and_then(|one| one.entry(name));
        known.map_or_else(|| name.into(), |(known, _)| Arc::clone(known))
    }

    /// Every type of which there are resources.
    pub(crate) fn types(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }

    /// The resources of one type, by name.
    pub(crate) fn of_type<'a>(
        &'a self,
        type_url: &str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Resource)> + use<'a> {
        self.types.get(type_url).into_iter().flat_map(|one| one.iter().map(|(name, resource)| (name, resource)))
    }

    /// The resources of a type that are made of parts.
    pub(crate) fn composed<'a>(&'a self, type_url: &'a str) -> impl Iterator<Item = (&'a str, &'a Resource)> {
        let names = self.types.get(type_url).into_iter().flat_map(|one| one.composed());
        names.filter_map(move |name| Some((name.as_ref(), self.get(type_url, name)?)))
    }

    /// Every owner of something.
    pub fn owners(&self) -> BTreeSet<&str> {
        self.types.values().flat_map(|one| one.owners()).collect()
    }

    /// Whether something belongs to an owner.
    pub(crate) fn has_owner(&self, owner: &str) -> bool {
        self.types.values().any(|one| one.owned_by(owner).next().is_some())
    }

    /// Type and name of every resource that belongs to an owner, as a whole or a part of it.
    pub fn owned_by<'a>(&'a self, owner: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let of_type = |(type_url, one): (&'a String, &'a Arc<ResourcesOfType>)| {
            one.owned_by(owner).map(move |name| (type_url.as_str(), name))
        };
        self.types.iter().flat_map(of_type).collect::<Vec<_>>().into_iter()
    }

    /// A hash of an owner's resources and of its parts of others, equal wherever they are equal; `None` if the snapshot
    /// holds none of them. Those that linger do not count: they depend on what the object was before, and when.
    pub fn version_of(&self, owner: &str) -> Option<String> {
        let mut hash = ContentHash::default();
        let mut is_there = false;
        for (type_url, name) in self.owned_by(owner) {
            let Some(resource) = self.get(type_url, name).filter(|resource| !resource.lingers()) else { continue };
            let version = match resource.owner() {
                Some(one) if one == owner => Some(resource.version()),
                _ => resource.part_version(owner),
            };
            let Some(version) = version else { continue };
            for part in [type_url, name, version] {
                hash.add(part);
            }
            is_there = true;
        }
        is_there.then(|| hash.finish())
    }

    /// The names of one type that are other resources in `newer`, or are in one of the two only.
    pub fn changes<'a>(&'a self, newer: &'a Self, type_url: &str) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        let (before, after) = (self.types.get(type_url), newer.types.get(type_url));
        let both = before.zip(after).filter(|(before, after)| !Arc::ptr_eq(before, after));
        let changed = both.into_iter().flat_map(|(before, after)| before.changes(after));
        let alone = before.xor(after).into_iter().flat_map(|one| one.iter().map(|(name, _)| name));
        changed.chain(alone)
    }
}

/// A hash of everything.
fn whole_version(types: &BTreeMap<String, Arc<ResourcesOfType>>) -> String {
    let mut hash = ContentHash::default();
    for (type_url, one) in types {
        hash.add(type_url);
        hash.add(&one.version);
    }
    hash.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Entries = Vec<(u8, u8, u8)>;

    fn made(entries: &Entries) -> Vec<(String, String, Resource)> {
        let one = |(kind, name, body): &(u8, u8, u8)| {
            let resource = Resource::new(vec![*body]).owned_by(format!("o{}", body % 2));
            (format!("t{kind}"), format!("n{name}"), resource)
        };
        entries.iter().map(one).collect()
    }

    proptest! {
        #[test]
        fn successor_is_what_it_would_be_from_scratch(
            before in proptest::collection::vec((0..3_u8, 0..4_u8, 0..3_u8), 0..8),
            after in proptest::collection::vec((0..3_u8, 0..4_u8, 0..3_u8), 0..8),
        ) {
            let (before, scratch) = (Snapshot::new(made(&before)), Snapshot::new(made(&after)));
            let next = before.succeeded_by(made(&after));
            prop_assert_eq!(&next, &scratch);
            for url in ["t0", "t1", "t2"] {
                let mut changed: Vec<_> = before.changes(&next, url).cloned().collect();
                changed.sort();
                let names = before.shared_names(url).chain(next.shared_names(url));
                let mut other: Vec<_> = names.filter(|name| before.get(url, name) != next.get(url, name)).cloned().collect();
                other.sort();
                other.dedup();
                prop_assert_eq!(changed, other);
            }
        }
    }

    #[test]
    fn owners_version_is_that_of_its_own_resources() {
        let one = |kind: &str, name: &str, body: u8, owner: &str| {
            (kind.to_owned(), name.to_owned(), Resource::new(vec![body]).owned_by(owner))
        };
        let base = vec![one("t", "a", 1, "A"), one("u", "a", 2, "A"), one("t", "b", 3, "B")];
        let version =
            |resources: &[(String, String, Resource)], owner| Snapshot::new(resources.to_vec()).version_of(owner);
        let before = version(&base, "A");
        assert!(before.is_some());
        let mut reordered = base.clone();
        reordered.reverse();
        assert_eq!(version(&reordered, "A"), before);
        let mut others = base.clone();
        others[2] = one("t", "b", 4, "B");
        others.push(("t".to_owned(), "nobody's".to_owned(), Resource::new(vec![9])));
        assert_eq!(version(&others, "A"), before);
        assert_ne!(version(&others, "B"), version(&base, "B"));
        let mut edited = base.clone();
        edited[1] = one("u", "a", 5, "A");
        assert_ne!(version(&edited, "A"), before);
        let mut renamed = base.clone();
        renamed[1] = one("u", "c", 2, "A");
        assert_ne!(version(&renamed, "A"), before);
        assert_eq!(version(&base, "C"), None);
        let mut left = base.clone();
        left.push(("t".to_owned(), "left".to_owned(), Resource::new(vec![6]).owned_by("A").lingering()));
        assert_eq!(version(&left, "A"), before, "what lingers is what the object was, not what it is");
        let all = |resources: &[(String, String, Resource)]| Snapshot::new(resources.to_vec()).version().to_owned();
        let mut wanted = base.clone();
        wanted.push(("t".to_owned(), "left".to_owned(), Resource::new(vec![6]).owned_by("A")));
        assert_ne!(all(&left), all(&wanted));
        assert!(!Snapshot::new(left).succeeded_by(wanted.clone()).get("t", "left").unwrap().lingers());
        assert_ne!(version(&wanted, "A"), before);
        let with_chains = |chains: &[u8; 3]| {
            let parts = [("A", chains[1]), ("B", chains[2])].map(|(owner, chain)| crate::Part {
                owner: owner.into(),
                body: vec![vec![chain].into()],
                fallback: None,
            });
            let listener = Resource::new(vec![chains[0]]).with_parts(parts);
            base.iter().cloned().chain([("l".to_owned(), "all".to_owned(), listener)]).collect::<Vec<_>>()
        };
        let chained = version(&with_chains(&[1, 2, 3]), "A");
        assert_ne!(chained, before);
        assert_eq!(version(&with_chains(&[9, 2, 9]), "A"), chained, "what of the listener is others'");
        assert_ne!(version(&with_chains(&[1, 9, 3]), "A"), chained, "a chain of its own");
    }
}
