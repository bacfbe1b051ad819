use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use portcullis_api::{ObjectKind, kind_of, pack_policies};
use ring::digest::{SHA256, digest};
use serde_json::Value;

use crate::documents::{LocatedDocument, parse};
use crate::events::{ChangedPaths, FileFingerprint};
use crate::object_set::{DIRECTORY_ITSELF, Document, FileDiagnosis, ObjectSet};
use crate::position::Position;

/// Most bytes of a file.
pub const MAX_FILE: u64 = 16 * 1024 * 1024;

/// The state of one file.
#[derive(Clone, Debug, Default)]
struct FileState {
    /// By which it is known that the content is still the one that was read last.
    stamp: Option<FileFingerprint>,
    /// Of the content that was read last.
    hash: Option<Vec<u8>>,
    /// The last that could be read.
    documents: Vec<Document>,
    error: Option<(String, Option<Position>)>,
}

impl Eq for FileState {}

impl PartialEq for FileState {
    /// Another file with the same content is no news.
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.documents == other.documents && self.error == other.error
    }
}

/// The state of a directory: for each file the last good documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Files {
    by_name: BTreeMap<String, Arc<FileState>>,
    error: Option<String>,
}

impl Files {
    /// Reads the directory again. A file that cannot be read keeps its documents.
    #[cfg(test)]
    pub(crate) fn reread(&self, directory: &Path) -> Self {
        self.reread_only(directory, None, &ChangedPaths::default())
    }

    /// Reads the directory again, or only one file of it, which is then expected to be there. Files that did not change are
    /// not read, nor those that are being written. Of files at other paths than the changed ones only links are looked at: what they
    /// lead to may have changed elsewhere.
    pub(crate) fn reread_only(&self, directory: &Path, only: Option<&str>, changed: &ChangedPaths) -> Self {
        let named = |name: &str| Ok(vec![ListedFile { name: name.to_owned(), is_plain: false }]);
        let names = only.map_or_else(|| list_files(directory), named);
        let is_settled = |path: &PathBuf| changed.paths.as_ref().is_some_and(|paths| !paths.contains(path));
        match names {
            // A volume that is not there leaves an empty directory behind. An operator who removes all objects leaves a file.
            Ok(names) if names.is_empty() && !self.by_name.is_empty() => {
                Self { by_name: self.by_name.clone(), error: Some("no file is left in it".to_owned()) }
            }
            Ok(names) => {
                let by_name = names.into_iter().map(|ListedFile { name, is_plain }| {
                    let known = self.by_name.get(&name);
                    let path = directory.join(&name);
                    if let Some(known) = known.filter(|known| is_plain && known.error.is_none() && is_settled(&path)) {
                        return (name, Arc::clone(known));
                    }
                    let before = known.cloned().unwrap_or_default();
                    let is_left = changed.writing.contains(&path)
                        || FileFingerprint::of_path(&path).is_some_and(|now| before.is_at(&now));
                    let state = if is_left { before } else { reread_file(&before, &path) };
                    (name, state)
                });
                Self { by_name: by_name.collect(), error: None }
            }
            Err(error) => Self { by_name: self.by_name.clone(), error: Some(error.kind().to_string()) },
        }
    }

    /// The reason why the directory itself cannot be read.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The reason why a file cannot be read.
    pub(crate) fn error_of(&self, name: &str) -> Option<&str> {
        self.by_name.get(name)?.error.as_ref().map(|(reason, _)| reason.as_str())
    }

    /// The paths of the files that documents refer to.
    pub(crate) fn referenced_files(&self) -> BTreeSet<String> {
        let documents = self.by_name.values().flat_map(|state| &state.documents);
        documents.flat_map(|document| &document.referenced_files).cloned().collect()
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

impl FileState {
    fn is_at(&self, now: &FileFingerprint) -> bool {
        self.stamp.as_ref().is_some_and(|stamp| stamp.is_still(now))
    }
}

/// Reads a file again. A file that cannot be read keeps its documents.
fn reread_file(before: &Arc<FileState>, path: &Path) -> Arc<FileState> {
    let kept = FileState { stamp: None, ..before.as_ref().clone() };
    let (stamp, bytes) = match read_stamped(path) {
        Ok(read) => read,
        Err(error) => {
            return Arc::new(FileState { hash: None, error: Some((format!("cannot be read: {error}"), None)), ..kept });
        }
    };
    let hash = Some(digest(&SHA256, &bytes).as_ref().to_vec());
    if hash == before.hash {
        return Arc::new(FileState { stamp, ..kept });
    }
    Arc::new(match parse(&bytes) {
        Ok(documents) => {
            let documents = documents.into_iter().map(|located| Document::from(as_written(located)));
            FileState { stamp, hash, documents: documents.collect(), error: None }
        }
        Err(error) => FileState { stamp, hash, error: Some((error.to_string(), error.at())), ..kept },
    })
}

/// Takes out what only an API server can vouch for: in a file anybody could write that an object is older than others, or
/// had a name before them. Policies are packed, as they are most of what is kept.
fn as_written(mut located: LocatedDocument) -> LocatedDocument {
    if let Some(metadata) = located.value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
    }
    if let Some(document) = located.value.as_object_mut() {
        document.remove("status");
    }
    if matches!(kind_of(&located.value), ObjectKind::UpstreamCluster) {
        pack_policies(&mut located.value);
    }
    located
}

/// A file that configures.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ListedFile {
    name: String,
    /// Whether it is no link.
    is_plain: bool,
}

/// The names of files that configure, sorted.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<String>> {
    Ok(list_files(directory)?.into_iter().map(|file| file.name).collect())
}

/// Files that configure. Names that start with a dot are a volume's own (`..data`) or an editor's.
fn list_files(directory: &Path) -> io::Result<Vec<ListedFile>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type();
        let Ok(name) = entry.file_name().into_string() else { continue };
        let configures = [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)) && !name.starts_with('.');
        let is_plain = kind.is_ok_and(|kind| kind.is_file());
        // Follows links: a mounted volume holds nothing else.
        if configures && (is_plain || fs::metadata(directory.join(&name)).map_or(true, |found| found.is_file())) {
            names.push(ListedFile { name, is_plain });
        }
    }
    names.sort();
    Ok(names)
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_stamped(path).map(|(_, bytes)| bytes)
}

fn read_stamped(path: &Path) -> io::Result<(Option<FileFingerprint>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    // Taken before the content: what changes meanwhile is seen the next time.
    let stamp = file.metadata().ok().map(|found| FileFingerprint::read_now(&found));
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).map_or(true, |length| length > MAX_FILE) {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Ok((stamp, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {name: a.test}\n";

    fn names(set: &ObjectSet) -> Vec<&str> {
        set.clusters.iter().filter_map(|cluster| cluster.get("metadata")?.get("name")?.as_str()).collect()
    }

    #[test]
    fn broken_file_keeps_its_last_good_objects_and_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        fs::write(&file, A).unwrap();
        let good = Files::default().reread(dir.path());
        assert_eq!(names(&good.objects()), ["a.test"]);
        fs::write(&file, "a: [").unwrap();
        let broken = good.reread(dir.path());
        assert_eq!(names(&broken.objects()), ["a.test"]);
        assert!(broken.objects().diagnoses[0].refused);
        fs::write(&file, A.replace("a.test", "b.test")).unwrap();
        let mended = broken.reread(dir.path());
        assert_eq!(names(&mended.objects()), ["b.test"]);
        assert_eq!(mended.objects().diagnoses, []);
        fs::write(dir.path().join("b.yaml"), A).unwrap();
        let both = mended.reread(dir.path());
        assert_eq!(names(&both.objects()), ["b.test", "a.test"]);
        fs::remove_file(dir.path().join("b.yaml")).unwrap();
        assert_eq!(names(&both.reread(dir.path()).objects()), ["b.test"]);
        fs::remove_file(&file).unwrap();
        let empty = mended.reread(dir.path());
        assert_eq!(names(&empty.objects()), ["b.test"]);
        assert!(empty.objects().is_stale(), "an empty directory is one that is not there");
        drop(dir);
        let gone = mended.reread(Path::new("/nowhere/at/all"));
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
        let set = Files::default().reread(dir.path()).objects();
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
        let set = Files::default().reread(dir.path()).objects();
        assert_eq!(set.clusters[0]["metadata"], serde_json::json!({"name": "a.test", "uid": "u"}));
        assert_eq!(set.clusters[0].get("status"), None);
    }
}
