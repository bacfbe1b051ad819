//! Names with which a node's progress may be another one than before, and those of which it may lack something.

use std::sync::Arc;

use super::Subscription;
use crate::changed_names::ChangedNames;
use crate::resource::Resource;
use crate::snapshot::Snapshot;

impl Subscription {
    /// Takes a newer snapshot, which differs from the one before in these names.
    pub(in crate::delta) fn on_snapshot<'a>(&mut self, changed: impl Iterator<Item = &'a Arc<str>>) {
        for name in changed {
            self.touched.add(Arc::clone(name));
            self.due.insert(Arc::clone(name));
        }
    }

    /// The names with which the node's progress may be another one than when this was asked last: those that a request, an answer or
    /// a newer snapshot was about.
    pub(in crate::delta) fn take_touched(&mut self, snapshot: &Snapshot, type_url: &str) -> ChangedNames {
        let touched = std::mem::take(&mut self.touched);
        match &touched {
            ChangedNames::All => self.unproven.add_all(),
            // One that the snapshot does not have is touched again when it comes. Names are free to make, and are not kept.
            ChangedNames::Named(names) => {
                let served = names.iter().filter(|name| snapshot.get(type_url, name).is_some());
                served.for_each(|name| self.unproven.add(Arc::clone(name)));
            }
        }
        touched
    }

    /// The owners of resources whose removals were acknowledged since this was asked last. The served snapshot may have such a resource
    /// again that the stream's own one does not have yet.
    pub(in crate::delta) fn take_let_go(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.let_go)
    }

    /// Notes that the node has acknowledged every resource of the snapshot.
    pub(in crate::delta) fn note_everything(&mut self) {
        self.unproven = ChangedNames::default();
    }

    /// Whether the node has acknowledged every resource of the type, but for those on demand that it did not ask for. Asked after each
    /// event, when its names are taken.
    pub(in crate::delta) fn has_everything(&self, snapshot: &Snapshot, type_url: &str) -> bool {
        match &self.unproven {
            ChangedNames::Named(names) if self.is_open() => {
                let has_named = names.iter().all(|name| {
                    let resource = snapshot.get(type_url, name);
                    resource.is_none_or(|one| self.has_newest(name, one, self.known.get(name)))
                });
                debug_assert_eq!(has_named, self.has_all(snapshot, type_url));
                has_named
            }
            _ => self.has_all(snapshot, type_url),
        }
    }

    fn has_all(&self, snapshot: &Snapshot, type_url: &str) -> bool {
        let mut known = self.known.iter().peekable();
        snapshot.of_type(type_url).all(|(name, resource)| {
            while known.next_if(|(known, _)| *known < name).is_some() {}
            let version = known.next_if(|(known, _)| *known == name).map(|(_, version)| version);
            self.has_newest(name, resource, version)
        })
    }

    /// Whether the node has a resource in its newest version, or need not have it.
    pub(super) fn has_newest(&self, name: &str, resource: &Resource, known: Option<&Arc<str>>) -> bool {
        match known {
            Some(version) => **version == *resource.version() || self.composed.holds(name),
            None => resource.is_on_demand() && !self.is_expected(name, resource),
        }
    }
}
