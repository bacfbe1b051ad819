//! The next snapshot, made of the last one and of what is other than before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ResourcesOfType, Snapshot, whole_version};
use crate::resource::Resource;

/// Resources that leave a snapshot and come to it. One that is replaced is among both.
#[derive(Debug, Default)]
pub struct SnapshotChange {
    /// Type URL and name.
    pub gone: Vec<(String, Arc<str>)>,
    /// Type URL, name and resource.
    pub new: Vec<(String, Arc<str>, Resource)>,
}

/// The names of one type that leave and come.
#[derive(Debug, Default)]
struct ChangeOfType {
    gone: BTreeSet<Arc<str>>,
    new: BTreeMap<Arc<str>, Resource>,
}

impl Snapshot {
    /// The snapshot after a change: the same as [`Snapshot::succeeded_by`] makes of all resources, at the cost of what
    /// changes. `None` if a name leaves that is not there, or comes twice or beside one that stays: the caller has to make the
    /// snapshot of all resources then.
    pub fn changed_by(&self, change: SnapshotChange) -> Option<Self> {
        let mut changes: BTreeMap<String, ChangeOfType> = BTreeMap::new();
        for (type_url, name) in change.gone {
            if !changes.entry(type_url).or_default().gone.insert(name) {
                return None;
            }
        }
        for (type_url, name, resource) in change.new {
            if changes.entry(type_url).or_default().new.insert(name, resource).is_some() {
                return None;
            }
        }
        let mut types = self.types.clone();
        for (type_url, of_type) in changes {
            let before = types.remove(&type_url).unwrap_or_default();
            let after = of_type.applied_to(&before)?;
            if !after.is_empty() {
                types.insert(type_url, after);
            }
        }
        let version = whole_version(&types);
        Some(Self { types, version, views: BTreeMap::new() })
    }

    /// The owners of what differs between this snapshot and a newer one.
    pub fn changed_owners<'a>(&'a self, newer: &'a Self) -> BTreeSet<&'a str> {
        let types: BTreeSet<&String> = self.types.keys().chain(newer.types.keys()).collect();
        let mut owners = BTreeSet::new();
        for type_url in types {
            for name in self.changes(newer, type_url) {
                match (self.get(type_url, name), newer.get(type_url, name)) {
                    (Some(before), Some(after)) => owners.extend(before.owners_of_difference(after)),
                    (before, after) => {
                        let one = before.into_iter().chain(after);
                        owners.extend(one.flat_map(Resource::owners).map(AsRef::as_ref));
                    }
                }
            }
        }
        owners
    }
}

impl ChangeOfType {
    /// `None` if the change is not one of these resources.
    fn applied_to(mut self, before: &Arc<ResourcesOfType>) -> Option<Arc<ResourcesOfType>> {
        let is_same = |(name, resource): &(&Arc<str>, &Resource)| {
            self.gone.contains(*name) && before.get(name).is_some_and(|known| known.is(resource))
        };
        let same: Vec<_> = self.new.iter().filter(is_same).map(|(name, _)| Arc::clone(name)).collect();
        for name in &same {
            self.gone.remove(name);
            self.new.remove(name);
        }
        if self.gone.is_empty() && self.new.is_empty() {
            return Some(Arc::clone(before));
        }
        before.changed_by(self.gone, self.new).map(Arc::new)
    }
}

/// The hash of what is served of each owner ([`Snapshot::version_of`]), computed again only for owners of what is other than
/// before.
#[derive(Debug, Default)]
pub(crate) struct OwnerVersions {
    snapshot: Option<Arc<Snapshot>>,
    by_owner: BTreeMap<String, String>,
}

impl OwnerVersions {
    /// Whether the hashes are those of this snapshot.
    pub(crate) fn is_of(&self, snapshot: &Arc<Snapshot>) -> bool {
        self.snapshot.as_ref().is_some_and(|known| Arc::ptr_eq(known, snapshot))
    }

    /// The hashes of a snapshot, by owner. One that has nothing is not among them.
    pub(crate) fn of(&mut self, snapshot: &Arc<Snapshot>) -> &BTreeMap<String, String> {
        let before = self.snapshot.replace(Arc::clone(snapshot));
        match before {
            Some(before) if Arc::ptr_eq(&before, snapshot) => {}
            Some(before) => {
                for owner in before.changed_owners(snapshot) {
                    match snapshot.version_of(owner) {
                        Some(version) => self.by_owner.insert(owner.to_owned(), version),
                        None => self.by_owner.remove(owner),
                    };
                }
            }
            None => {
                let version = |owner: &str| Some((owner.to_owned(), snapshot.version_of(owner)?));
                self.by_owner = snapshot.owners().into_iter().filter_map(version).collect();
            }
        }
        &self.by_owner
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::resource::Part;

    type Entries = BTreeMap<(u8, u8), u8>;

    /// A resource of its own, or one with parts of two owners.
    fn resource(name: u8, body: u8) -> Resource {
        let resource = match name {
            0 => {
                let part =
                    |owner: &str, body| Part { owner: owner.into(), body: vec![vec![body].into()], fallback: None };
                Resource::new(vec![body / 4]).with_parts([part("o0", body % 2), part("o1", body / 2 % 2)])
            }
            _ => Resource::new(vec![body]).owned_by(format!("o{}", body % 3)),
        };
        if body == 7 { resource.lingering() } else { resource }
    }

    fn named(((kind, name), body): (&(u8, u8), &u8)) -> (String, String, Resource) {
        (format!("t{kind}"), format!("n{name}"), resource(*name, *body))
    }

    fn entries() -> impl Strategy<Value = Entries> {
        let few = proptest::collection::btree_map((0..3_u8, 0..4_u8), 0..8_u8, 0..9);
        // Several chunks of names.
        let many = proptest::collection::btree_map((0..2_u8, any::<u8>()), 0..8_u8, 0..300);
        prop_oneof![2 => few, 1 => many]
    }

    fn versions(snapshot: &Snapshot) -> BTreeMap<String, String> {
        let one = |owner: &str| Some((owner.to_owned(), snapshot.version_of(owner)?));
        snapshot.owners().into_iter().filter_map(one).collect()
    }

    proptest! {
        #[test]
        fn change_leads_to_the_snapshot_of_all_resources(all in proptest::collection::vec(entries(), 1..6)) {
            let mut kept = OwnerVersions::default();
            let mut before = Entries::new();
            let mut snapshot = Snapshot::default();
            for after in all {
                let gone = before.iter().filter(|(key, body)| after.get(*key) != Some(*body));
                let new = after.iter().filter(|(key, body)| before.get(*key) != Some(*body));
                let change = SnapshotChange {
                    gone: gone.map(|((kind, name), _)| (format!("t{kind}"), format!("n{name}").into())).collect(),
                    new: new.map(named).map(|(url, name, resource)| (url, name.into(), resource)).collect(),
                };
                snapshot = snapshot.changed_by(change).unwrap();
                prop_assert_eq!(&snapshot, &Snapshot::new(after.iter().map(named)));
                prop_assert_eq!(kept.of(&Arc::new(snapshot.clone())), &versions(&snapshot));
                before = after;
            }
        }
    }

    #[test]
    fn change_of_other_resources_is_none() {
        let one = |name: &str| ("t".to_owned(), Arc::<str>::from(name), Resource::new(vec![1]));
        let snapshot = Snapshot::new([one("a"), one("b")]);
        let gone = |name: &str| ("t".to_owned(), Arc::<str>::from(name));
        for (gone, new) in [
            (vec![gone("c")], vec![]),
            (vec![], vec![one("a")]),
            (vec![], vec![one("c"), one("c")]),
            (vec![gone("a"), gone("a")], vec![]),
        ] {
            assert_eq!(snapshot.changed_by(SnapshotChange { gone, new }), None);
        }
        let none = snapshot.changed_by(SnapshotChange { gone: vec![gone("a"), gone("b")], new: vec![] }).unwrap();
        assert_eq!(none, Snapshot::default().succeeded_by(Vec::<(String, String, Resource)>::new()));
        let same = snapshot.changed_by(SnapshotChange { gone: vec![gone("a")], new: vec![one("a")] }).unwrap();
        assert!(same.changes(&snapshot, "t").next().is_none() && same == snapshot);
    }
}
