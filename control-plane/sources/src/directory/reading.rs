use std::sync::Arc;

use super::watched::{DirectoryError, Watched};
use crate::events::ChangedPaths;
use crate::files::{FileChanges, Files};
use crate::object_set::{NoticedAt, ObjectSet};
use crate::references::{ReferencesRead, put_in_settings};

/// Most changed files for which a set is patched: each costs time that grows with the set.
const MOST_PATCHED: usize = 64;

/// The result of the last reading.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) files: Files,
    pub(super) references: ReferencesRead,
    /// The set of all objects; `None` before the first reading.
    set: Option<Arc<ObjectSet>>,
}

/// How a reading differs from the one before.
pub(super) struct ReadingChange {
    /// The set, if it is another one.
    pub(super) set: Option<Arc<ObjectSet>>,
    /// Whether another directory has to be watched.
    pub(super) is_elsewhere: bool,
}

impl Reading {
    /// Reads everything for the first time. Blocks.
    pub(super) fn begin(&mut self, watched: &Watched) -> Arc<ObjectSet> {
        let change = self.reread(watched, &ChangedPaths::default(), NoticedAt::default());
        change.set.unwrap_or_default()
    }

    /// Reads again what changed, but for the files that are being written. Blocks.
    pub(super) fn reread(&mut self, watched: &Watched, changed: &ChangedPaths, noticed: NoticedAt) -> ReadingChange {
        let changes = self.files.reread(&watched.directory, watched.only.as_deref(), changed);
        let has_other_references = watched.root.as_ref().is_some_and(|root| {
            let is_all = watched.may_be_of_references(root, changed);
            self.references.reread(&changes, root, is_all)
        });
        let is_elsewhere = changes.is_elsewhere;
        if self.set.is_some() && !has_other_references && !changes.are_some() {
            return ReadingChange { set: None, is_elsewhere };
        }
        // References are put into settings: they are not what they were with other ones.
        let patched = self.set.as_ref().filter(|_| !has_other_references).and_then(|set| patched(set, &changes));
        let set = patched.unwrap_or_else(|| self.objects(watched));
        let set = Arc::new(ObjectSet { noticed, ..set });
        self.set = Some(Arc::clone(&set));
        ReadingChange { set: Some(set), is_elsewhere }
    }

    /// The set, put together of all files.
    pub(super) fn objects(&self, watched: &Watched) -> ObjectSet {
        let mut set = self.files.objects();
        if watched.root.is_some() {
            set.referenced_data = self.references.data();
        }
        put_in_settings(&mut set);
        set.divide_settings(watched.settings_name.as_deref());
        set
    }

    /// The reason why the directory, or the one file of it, cannot be read.
    pub(super) fn first_error(&self, watched: &Watched) -> Option<DirectoryError> {
        if let Some(reason) = self.files.error() {
            return Some(DirectoryError::Read { directory: watched.directory.clone(), reason: reason.to_owned() });
        }
        let name = watched.only.as_ref()?;
        let reason = self.files.error_of(name)?.to_owned();
        Some(DirectoryError::Read { directory: watched.directory.join(name), reason })
    }
}

/// A set with the `UpstreamCluster`s of changed files in the place of those before; `None` if more than these is another one.
fn patched(set: &ObjectSet, changes: &FileChanges) -> Option<ObjectSet> {
    let mut states = changes.files.values().flat_map(|(before, now)| [before, now]);
    let are_clusters = states.all(|state| state.error.is_none() && state.documents.iter().all(|one| one.is_cluster()));
    if changes.is_other_error || changes.files.len() > MOST_PATCHED || !are_clusters {
        return None;
    }
    let mut set = set.clone();
    for (name, (_, now)) in &changes.files {
        set.replace_clusters(name, &now.documents);
    }
    Some(set)
}
