use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use ring::digest::{SHA256, digest};
use serde_json::Value;

use crate::documents::parse;
use crate::{Document, FileDiagnosis, MAX_FILE, ObjectSet, Position};

/// What is known of one file.
#[derive(Clone, Debug, Default, PartialEq)]
struct FileState {
    /// Of the content that was read last.
    hash: Option<Vec<u8>>,
    /// The last that could be read.
    documents: Vec<Document>,
    error: Option<(String, Option<Position>)>,
}

/// What is known of a directory: for each file the last good documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Files {
    by_name: BTreeMap<String, FileState>,
    error: Option<String>,
}

impl Files {
    /// Reads the directory again. What cannot be read keeps what it had.
    #[cfg(test)]
    pub(crate) fn reread(&self, directory: &Path) -> Self {
        self.reread_only(directory, None)
    }

    /// Reads the directory again, or only one file of it, which is then expected to be there.
    pub(crate) fn reread_only(&self, directory: &Path, only: Option<&str>) -> Self {
        let names = only.map_or_else(|| list(directory), |name| Ok(vec![name.to_owned()]));
        match names {
            Ok(names) => {
                let by_name = names.into_iter().map(|name| {
                    let state = self.reread_file(directory, &name);
                    (name, state)
                });
                Self { by_name: by_name.collect(), error: None }
            }
            Err(error) => Self { by_name: self.by_name.clone(), error: Some(error.kind().to_string()) },
        }
    }

    fn reread_file(&self, directory: &Path, name: &str) -> FileState {
        let before = self.by_name.get(name).cloned().unwrap_or_default();
        let bytes = match read(&directory.join(name)) {
            Ok(bytes) => bytes,
            Err(error) => {
                return FileState { hash: None, error: Some((format!("cannot be read: {error}"), None)), ..before };
            }
        };
        let hash = Some(digest(&SHA256, &bytes).as_ref().to_vec());
        if hash == before.hash {
            return before;
        }
        match parse(&bytes) {
            Ok(documents) => {
                FileState { hash, documents: documents.into_iter().map(Document::from).collect(), error: None }
            }
            Err(error) => FileState { hash, error: Some((error.to_string(), error.at())), ..before },
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

    /// All documents, in the order of the files' names.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &Value> {
        self.by_name.values().flat_map(|state| &state.documents).map(|document| document.value.as_ref())
    }

    /// All objects, in the order of the files' names.
    pub(crate) fn objects(&self) -> ObjectSet {
        let mut set = ObjectSet::default();
        let mut refuse = |file: &str, at: Option<Position>, message: String| {
            set.diagnoses.push(FileDiagnosis { file: file.to_owned(), at, message, refused: true });
        };
        if let Some(error) = &self.error {
            refuse(".", None, format!("the directory cannot be read, its last good content stays in use: {error}"));
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
        set
    }
}

/// Files that configure. Names that start with a dot are a volume's own (`..data`) or an editor's.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        let configures = [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)) && !name.starts_with('.');
        // Follows links: a mounted volume holds nothing else.
        if configures && fs::metadata(directory.join(&name)).map_or(true, |found| found.is_file()) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).map_or(true, |length| length > MAX_FILE) {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {name: a.test}\n";

    fn names(set: &ObjectSet) -> Vec<&str> {
        set.clusters.iter().filter_map(|cluster| cluster.pointer("/metadata/name")?.as_str()).collect()
    }

    #[test]
    fn a_broken_file_keeps_its_last_good_objects_and_is_told() {
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
        fs::remove_file(&file).unwrap();
        assert_eq!(names(&mended.reread(dir.path()).objects()), [""; 0]);
        drop(dir);
        let gone = mended.reread(Path::new("/nowhere/at/all"));
        assert_eq!(names(&gone.objects()), ["b.test"]);
        assert!(gone.error().is_some());
    }

    #[test]
    fn only_configuration_files_are_read_and_foreign_kinds_are_told() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("b.json"), r#"{"apiVersion":"v1","kind":"Secret"}"#).unwrap();
        fs::write(dir.path().join("a.yml"), A).unwrap();
        fs::write(dir.path().join("c.yaml"), A.replace("v1alpha1", "v9")).unwrap();
        for ignored in ["README.md", ".hidden.yaml", "a.yaml~"] {
            fs::write(dir.path().join(ignored), "[").unwrap();
        }
        fs::create_dir(dir.path().join("dir.yaml")).unwrap();
        let set = Files::default().reread(dir.path()).objects();
        assert_eq!(names(&set), ["a.test"]);
        let told: Vec<_> = set.diagnoses.iter().map(|told| (told.file.as_str(), told.refused)).collect();
        assert_eq!(told, [("b.json", false), ("c.yaml", true)]);
    }
}
