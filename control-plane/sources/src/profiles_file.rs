//! Profiles by a file on the control plane's own host, whatever the source says: they can be switched while the source is away.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::PROFILE_ANNOTATION;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::directory::{Watched, watcher};
use crate::events::ChangeEvents;
use crate::object_set::{FileDiagnosis, NoticedAt, ObjectSet};

/// The interval of reading the file without a notification.
const POLL: Duration = Duration::from_secs(1);
/// Most bytes of the file.
const MAX: u64 = 1 << 20;

/// The name of the profile of each `UpstreamCluster` that the file names; an empty one is that of the spec.
pub type ProfileNames = BTreeMap<String, String>;

/// Why a file of profiles cannot be used. The operator has to act.
#[derive(Debug, thiserror::Error)]
pub enum ProfilesFileError {
    /// It may not be read, or is too large.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no object of JSON whose members are texts.
    #[error("{path} is not JSON with the name of a profile for each UpstreamCluster")]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// It may not be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Reads a file of profiles. One that does not exist names none.
///
/// # Errors
/// A file that cannot be read.
pub fn read_profiles(path: &Path) -> Result<ProfileNames, ProfilesFileError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX + 1).read_to_end(&mut bytes));
    let read = read.and_then(|length| match u64::try_from(length) {
        Ok(length) if length <= MAX => Ok(()),
        _ => Err(io::Error::other("it is larger than 1 MiB")),
    });
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ProfileNames::new()),
        Err(source) => return Err(ProfilesFileError::Read { path: path.to_owned(), source }),
        Ok(()) => {}
    }
    serde_json::from_slice(&bytes).map_err(|source| ProfilesFileError::Format { path: path.to_owned(), source })
}

/// Replaces a file of profiles, in one step.
///
/// # Errors
/// A directory that may not be written.
pub fn write_profiles(path: &Path, names: &ProfileNames) -> Result<(), ProfilesFileError> {
    let mut text = serde_json::to_string_pretty(names).unwrap_or_default();
    text.push('\n');
    let mut coming = path.as_os_str().to_owned();
    coming.push(".new");
    let write = || {
        let mut file = File::create(&coming)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&coming, path)
    };
    write().map_err(|source| ProfilesFileError::Write { path: path.to_owned(), source })
}

/// Puts the profiles of a file in the place of those that the objects' annotations name, and yields a set whenever the source
/// or the file has something newer. A file that cannot be read keeps the profiles of its last content, and leads to a diagnosis.
/// Needs a tokio runtime.
pub fn with_profiles(mut objects: watch::Receiver<Arc<ObjectSet>>, path: PathBuf) -> watch::Receiver<Arc<ObjectSet>> {
    let events = ChangeEvents::default();
    let watched = watcher(&Watched::file_or_directory(&path), events.clone());
    let mut file = Content::default();
    file.read(&path);
    let first = file.put_into(&objects.borrow_and_update(), &path, NoticedAt::default());
    let (sender, receiver) = watch::channel(Arc::new(first));
    tokio::spawn(async move {
        let _watched = watched;
        loop {
            let mut noticed = NoticedAt::default();
            tokio::select! {
                changed = objects.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
                () = changes(&events) => {
                    noticed = NoticedAt(Some(Instant::now()));
                    if !file.read(&path) {
                        continue;
                    }
                }
            }
            let set = file.put_into(&objects.borrow_and_update(), &path, noticed);
            sender.send_replace(Arc::new(set));
        }
    });
    receiver
}

/// Waits for a change near the file, or for the next time to look.
async fn changes(events: &ChangeEvents) {
    tokio::select! {
        () = events.settled() => {}
        () = tokio::time::sleep(POLL) => {}
    }
    events.take(Instant::now());
}

/// The content of the file.
#[derive(Debug, Default, PartialEq)]
struct Content {
    names: ProfileNames,
    error: Option<String>,
}

impl Content {
    /// Reads the file again; whether anything is new.
    fn read(&mut self, path: &Path) -> bool {
        let (names, error) = match read_profiles(path) {
            Ok(names) => (names, None),
            Err(error) => (self.names.clone(), Some(error.to_string())),
        };
        let newer = Self { names, error };
        let is_new = newer != *self;
        *self = newer;
        is_new
    }

    fn put_into(&self, objects: &ObjectSet, path: &Path, noticed: NoticedAt) -> ObjectSet {
        let mut set = objects.clone();
        set.noticed = NoticedAt(set.noticed.0.max(noticed.0));
        let file = path.display().to_string();
        let mut diagnose = |message: String, refused| {
            set.diagnoses.push(FileDiagnosis { file: file.clone(), at: None, message, refused });
        };
        if let Some(error) = &self.error {
            diagnose(format!("{error}: the profiles that were read last are in effect"), true);
        }
        let mut missing: BTreeSet<&str> = self.names.keys().map(String::as_str).collect();
        for object in &mut set.clusters {
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let Some((name, profile)) = self.names.get_key_value(name) else { continue };
            missing.remove(name.as_str());
            annotate(Arc::make_mut(object), profile);
        }
        for name in missing {
            diagnose(format!("names {name}, which is no UpstreamCluster"), false);
        }
        set
    }
}

/// Names a profile in an object's annotation.
fn annotate(object: &mut Value, profile: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(PROFILE_ANNOTATION.to_owned(), Value::from(profile));
    }
}

#[cfg(test)]
mod tests {
    use portcullis_api::{claims_of, parse_cluster};
    use serde_json::json;

    use super::*;

    fn object(name: &str, annotations: &Value) -> Arc<Value> {
        Arc::new(json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
            "metadata": {"name": name, "annotations": annotations},
        }))
    }

    fn profiles(set: &ObjectSet) -> Vec<String> {
        let named = |one: &Arc<Value>| parse_cluster(one).unwrap().metadata.annotations.unwrap_or_default();
        set.clusters.iter().map(|one| named(one).get(PROFILE_ANNOTATION).cloned().unwrap_or_default()).collect()
    }

    fn content(names: &[(&str, &str)]) -> Content {
        let names = names.iter().map(|(name, profile)| ((*name).to_owned(), (*profile).to_owned())).collect();
        Content { names, error: None }
    }

    #[test]
    fn file_decides_over_the_annotation_and_touches_nothing_else() {
        let frozen = json!({PROFILE_ANNOTATION: "frozen"});
        let before = ObjectSet {
            clusters: vec![object("a.test", &json!(null)), object("b.test", &frozen), object("c.test", &frozen)],
            ..ObjectSet::default()
        };
        let file = content(&[("a.test", "heartbeats"), ("b.test", ""), ("x.test", "frozen")]);
        let set = file.put_into(&before, Path::new("p"), NoticedAt::default());
        assert_eq!(profiles(&set), ["heartbeats", "", "frozen"]);
        assert_eq!(set.diagnoses.len(), 1, "{:?}", set.diagnoses);
        assert!(set.diagnoses[0].message.contains("x.test") && !set.diagnoses[0].refused);
        assert!(Arc::ptr_eq(&set.clusters[2], &before.clusters[2]));
        let claims = |set: &ObjectSet| format!("{:?}", claims_of(&set.clusters[0]));
        assert_eq!(claims(&set), claims(&before));
    }

    #[test]
    fn file_that_cannot_be_read_keeps_its_profiles() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profiles.json");
        let mut file = Content::default();
        assert!(!file.read(&path), "a file that does not exist names none");
        write_profiles(&path, &content(&[("a.test", "frozen")]).names).unwrap();
        assert!(file.read(&path) && !file.read(&path));
        std::fs::write(&path, "{").unwrap();
        assert!(file.read(&path));
        let set = ObjectSet { clusters: vec![object("a.test", &json!({}))], ..ObjectSet::default() };
        let set = file.put_into(&set, &path, NoticedAt::default());
        assert_eq!((profiles(&set), set.diagnoses[0].refused), (vec!["frozen".to_owned()], true));
        std::fs::remove_file(&path).unwrap();
        assert!(file.read(&path) && file.names.is_empty());
    }

    #[tokio::test]
    async fn edits_of_source_and_file_are_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profiles.json");
        let (objects, of_objects) = watch::channel(Arc::<ObjectSet>::default());
        let mut sets = with_profiles(of_objects, path.clone());
        let set = ObjectSet { clusters: vec![object("a.test", &json!({}))], ..ObjectSet::default() };
        objects.send_replace(Arc::new(set));
        sets.wait_for(|set| set.clusters.len() == 1).await.unwrap();
        for profile in ["frozen", "heartbeats"] {
            write_profiles(&path, &content(&[("a.test", profile)]).names).unwrap();
            sets.wait_for(|set| profiles(set) == [profile]).await.unwrap();
        }
        std::fs::remove_file(&path).unwrap();
        sets.wait_for(|set| profiles(set) == [""]).await.unwrap();
    }
}
