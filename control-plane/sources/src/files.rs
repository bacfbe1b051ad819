use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::events::ChangedPaths;
use crate::file_state::FileState;
use crate::listing::{ListedFile, configures, find_file, list_files};
use crate::object_set::{DIRECTORY_ITSELF, FileDiagnosis, ObjectSet};
use crate::position::Position;

/// The state of a directory: for each file the last good documents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    by_name: BTreeMap<Arc<str>, Arc<FileState>>,
    /// The names that are looked at whatever has changed: of links, as files that they lead to may change elsewhere, and of files that
    /// could not be read.
    unsure: BTreeSet<Arc<str>>,
    /// The reason why the directory cannot be read.
    error: Option<String>,
    /// Of the directory that was read. The path may be a link, and lead to another one later.
    identity: Option<DirectoryIdentity>,
}

/// Device and inode.
type DirectoryIdentity = (u64, u64);

/// The result of a reading: how files differ from before.
#[derive(Debug, Default)]
pub(crate) struct FileChanges {
    /// The files of another content, by name: their states before and now. One that is not there has no documents.
    pub(crate) files: BTreeMap<Arc<str>, (Arc<FileState>, Arc<FileState>)>,
    /// Whether the directory cannot be read for another reason than before, or can again.
    pub(crate) is_other_error: bool,
    /// Whether another directory has to be watched than before: the one that was watched may be gone for ever, or the link leads
    /// elsewhere.
    pub(crate) is_elsewhere: bool,
}

impl FileChanges {
    /// Whether objects or diagnoses may be other ones.
    pub(crate) fn are_some(&self) -> bool {
        self.is_other_error || !self.files.is_empty()
    }

    /// The paths of the files that documents of changed files referred to before.
    pub(crate) fn referenced_before(&self) -> impl Iterator<Item = &String> {
        self.files.values().flat_map(|(before, _)| before.referenced_files())
    }

    /// The same of these files' documents as they are now.
    pub(crate) fn referenced_now(&self) -> impl Iterator<Item = &String> {
        self.files.values().flat_map(|(_, now)| now.referenced_files())
    }
}

impl Files {
    /// Reads the directory again, or only one file of it, which is then expected to be there. Files that did not change are not read,
    /// nor those that are being written. If the paths of changes are known, these names alone are looked at, and links. A file that
    /// cannot be read keeps its documents.
    pub(crate) fn reread(&mut self, directory: &Path, only: Option<&str>, changed: &ChangedPaths) -> FileChanges {
        // Taken before the content: if it is replaced meanwhile, that is seen the next time.
        let identity = identity(directory);
        let (before, error) = (self.identity, self.error.take());
        let mut changes = FileChanges::default();
        let found = match only {
            Some(name) => Some(vec![ListedFile::expected(name)]),
            // Notifications were of the directory that was there before.
            None if error.is_some() || identity != before => None,
            // If the directory has gone meanwhile, so have all its files.
            None => self.find_changed(directory, changed).filter(|_| self::identity(directory) == identity),
        };
        match found.map_or_else(|| self.list(directory), Ok) {
            Ok(files) => files.iter().for_each(|file| self.look(directory, file, &changed.writing, &mut changes)),
            Err(reason) => self.error = Some(reason),
        }
        let is_back = error.is_some() && self.error.is_none();
        changes.is_other_error = error != self.error;
        changes.is_elsewhere = is_back || (identity.is_some() && identity != before);
        self.identity = identity;
        changes
    }

    /// The files that may have changed, as they are now; `None` if any may have, or none is left.
    fn find_changed(&self, directory: &Path, changed: &ChangedPaths) -> Option<Vec<ListedFile>> {
        // The directory may be watched by another path, too, below the root of references.
        let are_own = |paths: &BTreeSet<PathBuf>| paths.iter().all(|path| path.parent() == Some(directory));
        let paths = changed.paths.as_ref().filter(|paths| are_own(paths))?;
        let own = paths.iter().filter_map(|path| path.file_name()?.to_str()).filter(|name| configures(name));
        let names: BTreeSet<&str> = own.chain(self.unsure.iter().map(AsRef::as_ref)).collect();
        let found = names.iter().map(|name| find_file(directory, name)).collect::<io::Result<Vec<_>>>().ok()?;
        let is_left = || self.by_name.keys().any(|name| !names.contains::<str>(name));
        (found.iter().any(|file| file.is_file) || is_left()).then_some(found)
    }

    /// All files that are there now, and the names of those that are not any more.
    fn list(&self, directory: &Path) -> Result<Vec<ListedFile>, String> {
        let mut listed = list_files(directory).map_err(|error| error.kind().to_string())?;
        // A volume that is not there leaves an empty directory behind. An operator who removes all objects leaves a file.
        if !self.by_name.is_empty() && !listed.iter().any(|file| file.is_file) {
            return Err("no file is left in it".to_owned());
        }
        let names: BTreeSet<&str> = listed.iter().map(|file| file.name.as_str()).collect();
        let known: BTreeSet<&Arc<str>> = self.by_name.keys().chain(&self.unsure).collect();
        let gone = known.into_iter().filter(|name| !names.contains::<str>(name));
        let gone: Vec<ListedFile> = gone.map(|name| ListedFile::absent(name)).collect();
        listed.extend(gone);
        Ok(listed)
    }

    fn look(&mut self, directory: &Path, file: &ListedFile, writing: &BTreeSet<PathBuf>, changes: &mut FileChanges) {
        let known = self.by_name.get_key_value(file.name.as_str());
        let name = known.map_or_else(|| Arc::from(file.name.as_str()), |(name, _)| Arc::clone(name));
        let before = known.map(|(_, state)| Arc::clone(state)).unwrap_or_default();
        let now = if file.is_file {
            let now = Arc::clone(&before).looked_at(&directory.join(&file.name), writing);
            self.by_name.insert(Arc::clone(&name), Arc::clone(&now));
            now
        } else {
            self.by_name.remove(&name);
            Arc::default()
        };
        if file.is_link || now.error.is_some() {
            self.unsure.insert(Arc::clone(&name));
        } else {
            self.unsure.remove(&name);
        }
        if before != now {
            changes.files.insert(name, (before, now));
        }
    }

    /// Whether the directory at a path is the one that was read, and could be.
    pub(crate) fn is_of(&self, directory: &Path) -> bool {
        self.error.is_none() && self.identity.is_some() && identity(directory) == self.identity
    }

    /// The reason why the directory itself cannot be read.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The reason why a file cannot be read.
    pub(crate) fn error_of(&self, name: &str) -> Option<&str> {
        self.by_name.get(name)?.error.as_ref().map(|(reason, _)| reason.as_str())
    }

    /// A file by its name, and the name as it is shared.
    pub(crate) fn get(&self, name: &str) -> Option<(&Arc<str>, &FileState)> {
        self.by_name.get_key_value(name).map(|(name, state)| (name, state.as_ref()))
    }

    /// Whether a name is looked at whatever has changed.
    pub(crate) fn is_unsure(&self, name: &str) -> bool {
        self.unsure.contains(name)
    }

    /// The names of all files.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_name.keys()
    }

    /// All objects, in the order of the files' names.
    pub(crate) fn objects(&self) -> ObjectSet {
        let mut set = ObjectSet::default();
        let mut refuse = |file: &str, at: Option<Position>, message: String| {
            set.diagnoses.push(FileDiagnosis { file: file.to_owned(), at, message, refused: true });
        };
        if let Some(error) = &self.error {
            refuse(
                DIRECTORY_ITSELF,
                None,
                format!("the directory cannot be read, its last good content stays in use: {error}"),
            );
        }
        for (name, state) in &self.by_name {
            if let Some((error, at)) = &state.error {
                let kept = if state.documents.is_empty() { "" } else { "; its last good content stays in use" };
                refuse(name, *at, format!("{error}{kept}"));
            }
        }
        for (name, state) in &self.by_name {
            for document in &state.documents {
                set.add(name, document);
            }
        }
        set.refuse_policies();
        set
    }
}

/// The directory that is at a path now.
fn identity(path: &Path) -> Option<DirectoryIdentity> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {name: a.test}\n";

    impl Files {
        /// Looks at all files.
        fn after(&self, directory: &Path) -> Self {
            let mut files = self.clone();
            files.reread(directory, None, &ChangedPaths::default());
            files
        }
    }

    fn names(set: &ObjectSet) -> Vec<&str> {
        set.clusters.iter().filter_map(|cluster| cluster.get("metadata")?.get("name")?.as_str()).collect()
    }

    #[test]
    fn broken_file_keeps_its_last_good_objects_and_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        fs::write(&file, A).unwrap();
        let good = Files::default().after(dir.path());
        assert_eq!(names(&good.objects()), ["a.test"]);
        fs::write(&file, "a: [").unwrap();
        let broken = good.after(dir.path());
        assert_eq!(names(&broken.objects()), ["a.test"]);
        assert!(broken.objects().diagnoses[0].refused);
        fs::write(&file, A.replace("a.test", "b.test")).unwrap();
        let mended = broken.after(dir.path());
        assert_eq!(names(&mended.objects()), ["b.test"]);
        assert_eq!(mended.objects().diagnoses, []);
        fs::write(dir.path().join("b.yaml"), A).unwrap();
        let both = mended.after(dir.path());
        assert_eq!(names(&both.objects()), ["b.test", "a.test"]);
        fs::remove_file(dir.path().join("b.yaml")).unwrap();
        assert_eq!(names(&both.after(dir.path()).objects()), ["b.test"]);
        fs::remove_file(&file).unwrap();
        let empty = mended.after(dir.path());
        assert_eq!(names(&empty.objects()), ["b.test"]);
        assert!(empty.objects().is_stale(), "an empty directory is one that is not there");
        drop(dir);
        let gone = mended.after(Path::new("/nowhere/at/all"));
        assert_eq!(names(&gone.objects()), ["b.test"]);
        assert!(gone.error().is_some());
    }

    #[test]
    fn configuration_files_are_read_and_foreign_kinds_listed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("b.json"), r#"{"apiVersion":"v1","kind":"Secret"}"#).unwrap();
        fs::write(dir.path().join("a.yml"), A).unwrap();
        fs::write(dir.path().join("c.yaml"), A.replace("v1alpha1", "v9")).unwrap();
        fs::write(dir.path().join("d.yaml"), A.replace("UpstreamCluster", "Cluster")).unwrap();
        for ignored in ["README.md", ".hidden.yaml", "a.yaml~"] {
            fs::write(dir.path().join(ignored), "[").unwrap();
        }
        fs::create_dir(dir.path().join("dir.yaml")).unwrap();
        let set = Files::default().after(dir.path()).objects();
        let found: Vec<_> = set.diagnoses.iter().map(|one| (one.file.as_str(), one.refused)).collect();
        assert_eq!(found, [("b.json", false), ("d.yaml", true)]);
        assert_eq!(names(&set), ["a.test", "a.test"], "another version of a kind of ours is refused by its check");
    }

    #[test]
    fn creation_time_in_a_file_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let text =
            "metadata: {name: a.test, uid: u, creationTimestamp: '2001-01-01T00:00:00Z'}\nstatus: {names: [b.test]}";
        fs::write(dir.path().join("a.yaml"), A.replace("metadata: {name: a.test}", text)).unwrap();
        let set = Files::default().after(dir.path()).objects();
        assert_eq!(set.clusters[0]["metadata"], serde_json::json!({"name": "a.test", "uid": "u"}));
        assert_eq!(set.clusters[0].get("status"), None);
    }
}
