//! The hash of what is served of each object, to Envoys of no instance or of one. It is computed again for owners of what is otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_xds::{ChangedNames, Snapshot, View};

use super::instance_views::is_lasting_view;

/// The hashes of the snapshot that was followed last.
#[derive(Default)]
pub(super) struct ServedVersions {
    snapshot: Option<Arc<Snapshot>>,
    /// By owner, and by the view of an instance that has the owner's resources; `None`, which is first, is the snapshot without views.
    by_owner: BTreeMap<(String, Option<String>), String>,
}

impl ServedVersions {
    /// The hash of an object that is served.
    pub(super) fn version(&self, owner: &str) -> Option<&str> {
        let first = self.by_owner.range((owner.to_owned(), None)..).next();
        first.filter(|((one, _), _)| one == owner).map(|(_, version)| version.as_str())
    }

    /// Follows the newest snapshot. Returns the owners of what is otherwise, whichever Envoys it is for.
    pub(super) fn follow(&mut self, snapshot: Option<&Arc<Snapshot>>) -> ChangedNames {
        let before = std::mem::replace(&mut self.snapshot, snapshot.cloned());
        let mut changed = ChangedNames::default();
        match (&before, snapshot) {
            (None, None) => return changed,
            (Some(before), Some(after)) if Arc::ptr_eq(before, after) => return changed,
            (Some(_), Some(_)) => {}
            (None, Some(_)) | (Some(_), None) => changed.add_all(),
        }
        let none = Snapshot::default();
        let (before, after) = (before.as_deref().unwrap_or(&none), snapshot.map_or(&none, AsRef::as_ref));
        let views: BTreeSet<&str> = before.views().chain(after.views()).map(|(name, _)| name).collect();
        for view in std::iter::once(None).chain(views.into_iter().map(Some)) {
            let key = View(view.map(str::to_owned));
            let (before, after) = (before.view(&key).unwrap_or(&none), after.view(&key).unwrap_or(&none));
            for owner in before.changed_owners(after) {
                changed.add(owner);
                if view.is_none_or(is_lasting_view) {
                    self.set(owner, &key, after.version_of(owner));
                }
            }
        }
        changed
    }

    fn set(&mut self, owner: &str, view: &View, version: Option<String>) {
        let key = (owner.to_owned(), view.0.clone());
        match version {
            Some(version) => drop(self.by_owner.insert(key, version)),
            None => drop(self.by_owner.remove(&key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use portcullis_xds::Resource;
    use proptest::prelude::*;

    use super::*;

    /// The content of each owner's resource in each view; 0 is none.
    type Contents = [[u8; 3]; 4];

    /// A lasting view of each of two instances, and one of a build of the filter.
    const VIEWS: [&str; 3] = ["instance/a", "instance/a/wasm", "instance/b"];

    fn snapshot([base, views @ ..]: &Contents) -> Snapshot {
        let of = |contents: &[u8; 3]| {
            let there = contents.iter().enumerate().filter(|(_, content)| **content > 0);
            let one = |(owner, content): (usize, &u8)| {
                let resource = Resource::new(vec![*content]).owned_by(format!("o{owner}"));
                ("t".to_owned(), format!("n{owner}"), resource)
            };
            Snapshot::new(there.map(one))
        };
        of(base).with_views(VIEWS.iter().zip(views).map(|(name, contents)| ((*name).to_owned(), of(contents))))
    }

    proptest! {
        #[test]
        fn versions_are_those_of_the_newest_snapshot(all in proptest::collection::vec(any::<[[u8; 3]; 4]>(), 1..6)) {
            let mut versions = ServedVersions::default();
            let mut before: Option<Contents> = None;
            for contents in all {
                let contents: Contents = contents.map(|of_view| of_view.map(|content| content % 3));
                let snapshot = Arc::new(snapshot(&contents));
                let changed = versions.follow(Some(&snapshot));
                for owner in 0..3 {
                    let name = format!("o{owner}");
                    let lasting = snapshot.views().filter(|(name, _)| is_lasting_view(name));
                    let of_instance = lasting.filter_map(|(_, view)| view.version_of(&name)).next();
                    let expected = snapshot.version_of(&name).or(of_instance);
                    prop_assert_eq!(versions.version(&name).map(str::to_owned), expected);
                    let of = |contents: &Contents| contents.map(|of_view| of_view[owner]);
                    prop_assert_eq!(changed.has(&name), before.as_ref().map(of) != Some(of(&contents)));
                }
                before = Some(contents);
            }
        }
    }
}
