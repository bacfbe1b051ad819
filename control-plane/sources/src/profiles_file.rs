//! Profiles by a file on the control plane's own host, whatever the source says: they can be switched while the source is away.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
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
/// The diagnosis without a file: if there was one, clusters that it had closed are open.
const MISSING: &str = "does not exist: the annotations of objects name the profiles that are in effect, and what a file that was \
                       lost had closed is open";
/// The mode of a new file: it holds no secret.
const READ_BY_ALL: u32 = 0o644;

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

/// Changes a file of profiles, in one step, and keeps its owner and mode: the control plane has to read it. One that is new may
/// be read by all. Commands that change the same file do so one after the other.
///
/// # Errors
/// A file that cannot be read, or a directory that may not be written.
pub fn change_profiles(path: &Path, change: impl FnOnce(&mut ProfileNames)) -> Result<(), ProfilesFileError> {
    let failed = |source| ProfilesFileError::Write { path: path.to_owned(), source };
    let lock = File::options().create(true).append(true).open(beside(path, ".lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut names = read_profiles(path)?;
    change(&mut names);
    let mut text = serde_json::to_string_pretty(&names).unwrap_or_default();
    text.push('\n');
    let write = || {
        let coming = beside(path, ".new");
        let mut file = File::create(&coming)?;
        file.write_all(text.as_bytes())?;
        match std::fs::metadata(path) {
            Ok(before) => {
                // Only root may give a file away; others are its owner already.
                let _ = fchown(&file, Some(before.uid()), Some(before.gid()));
                file.set_permissions(before.permissions())?;
            }
            Err(_) => file.set_permissions(Permissions::from_mode(READ_BY_ALL))?,
        }
        file.sync_all()?;
        std::fs::rename(&coming, path)
    };
    write().map_err(failed)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(suffix);
    PathBuf::from(beside)
}

/// Puts the profiles of a file in the place of those that the objects' annotations name, and yields a set whenever the source
/// or the file has something newer. There is no set before the file was read or does not exist. One that cannot be read any more,
/// or is gone, keeps the profiles of its last content, and leads to a diagnosis. Needs a tokio runtime.
pub async fn with_profiles(
    mut objects: watch::Receiver<Arc<ObjectSet>>,
    path: PathBuf,
) -> watch::Receiver<Arc<ObjectSet>> {
    let events = ChangeEvents::default();
    let watched = watcher(&Watched::file_or_directory(&path), events.clone());
    let mut file = Content::default();
    while let Err(error) = file.begin(&path) {
        tracing::error!(%error, "no object is served by its newest version before the profiles can be read");
        tokio::time::sleep(POLL).await;
    }
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
    /// Whether there is no file: none yet, or one that was lost while no control plane looked.
    is_missing: bool,
}

impl Content {
    /// Reads the file for the first time.
    fn begin(&mut self, path: &Path) -> Result<(), ProfilesFileError> {
        self.is_missing = !path.exists();
        if self.is_missing {
            tracing::warn!(path = %path.display(), "{MISSING}");
        }
        self.names = read_profiles(path)?;
        Ok(())
    }

    /// Reads the file again; whether anything is new.
    fn read(&mut self, path: &Path) -> bool {
        let is_gone = || !self.names.is_empty() && !path.exists();
        let (names, error) = match read_profiles(path) {
            Ok(_) if is_gone() => (self.names.clone(), Some(format!("{} is gone", path.display()))),
            Ok(names) => (names, None),
            Err(error) => (self.names.clone(), Some(error.to_string())),
        };
        let is_missing = error.is_none() && !path.exists();
        let newer = Self { names, error, is_missing };
        let is_new = newer != *self;
        if self.error.is_some() && newer.error.is_none() {
            for (name, profile) in self.names.iter().filter(|(name, _)| !newer.names.contains_key(*name)) {
                tracing::warn!(path = %path.display(), name, profile, "the file is there again without this profile, which ends");
            }
        }
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
        if self.is_missing {
            diagnose(MISSING.to_owned(), false);
        }
        let mut overridden = Vec::new();
        let mut missing: BTreeSet<&str> = self.names.keys().map(String::as_str).collect();
        for object in &mut set.clusters {
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let Some((name, profile)) = self.names.get_key_value(name) else { continue };
            missing.remove(name.as_str());
            let before = annotated(object);
            if !before.is_empty() && before != *profile {
                overridden.push((name.clone(), before));
            }
            annotate(Arc::make_mut(object), profile);
        }
        for (name, before) in overridden {
            diagnose(format!("decides about {name}, and not its annotation, which names {before}"), false);
        }
        for name in missing {
            diagnose(format!("names {name}, which is no UpstreamCluster"), false);
        }
        set
    }
}

fn annotated(object: &Value) -> String {
    let annotation = object.pointer("/metadata/annotations").and_then(|all| all.get(PROFILE_ANNOTATION));
    annotation.and_then(Value::as_str).unwrap_or_default().trim().to_owned()
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
        Content { names, ..Content::default() }
    }

    fn write(path: &Path, all: &[(&str, &str)]) {
        change_profiles(path, |names| *names = content(all).names).unwrap();
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
        let named: Vec<_> = set.diagnoses.iter().map(|one| (one.message.as_str(), one.refused)).collect();
        let overridden = "decides about b.test, and not its annotation, which names frozen";
        assert_eq!(named, [(overridden, false), ("names x.test, which is no UpstreamCluster", false)]);
        assert!(Arc::ptr_eq(&set.clusters[2], &before.clusters[2]));
        let claims = |set: &ObjectSet| format!("{:?}", claims_of(&set.clusters[0]));
        assert_eq!(claims(&set), claims(&before));
    }

    #[test]
    fn file_that_cannot_be_read_keeps_its_profiles() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profiles.json");
        let mut file = Content::default();
        file.begin(&path).unwrap();
        assert!(!file.read(&path) && file.names.is_empty(), "a file that does not exist names none");
        let set = file.put_into(&ObjectSet::default(), &path, NoticedAt::default());
        let diagnoses: Vec<_> = set.diagnoses.iter().map(|one| (one.message.as_str(), one.refused)).collect();
        assert_eq!(diagnoses, [(MISSING, false)]);
        write(&path, &[("a.test", "frozen")]);
        assert!(file.read(&path) && !file.read(&path));
        std::fs::write(&path, "{").unwrap();
        assert!(file.read(&path));
        let set = ObjectSet { clusters: vec![object("a.test", &json!({}))], ..ObjectSet::default() };
        let set = file.put_into(&set, &path, NoticedAt::default());
        assert_eq!((profiles(&set), set.diagnoses[0].refused), (vec!["frozen".to_owned()], true));
        std::fs::remove_file(&path).unwrap();
        assert!(file.read(&path) && file.names.len() == 1, "a file that is gone opens nothing");
        write(&path, &[]);
        assert!(file.read(&path) && file.names.is_empty());
    }

    #[test]
    fn file_stays_readable_and_loses_no_line_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profiles.json");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        write(&path, &[]);
        assert_eq!(mode(), 0o644);
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    change_profiles(path, |names| drop(names.insert(format!("{number}.test"), "frozen".to_owned())))
                });
            }
        });
        assert_eq!((read_profiles(&path).unwrap().len(), mode()), (8, 0o640));
    }

    #[tokio::test]
    async fn unreadable_file_yields_no_set_at_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profiles.json");
        std::fs::write(&path, "{").unwrap();
        let (_objects, of_objects) = watch::channel(Arc::<ObjectSet>::default());
        let waits = with_profiles(of_objects.clone(), path.clone());
        assert!(tokio::time::timeout(POLL / 4, waits).await.is_err());
        std::fs::write(&path, "{}").unwrap();
        with_profiles(of_objects, path).await;
    }

    #[tokio::test]
    async fn edits_of_source_and_file_are_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profiles.json");
        let (objects, of_objects) = watch::channel(Arc::<ObjectSet>::default());
        let mut sets = with_profiles(of_objects, path.clone()).await;
        let set = ObjectSet { clusters: vec![object("a.test", &json!({}))], ..ObjectSet::default() };
        objects.send_replace(Arc::new(set));
        sets.wait_for(|set| set.clusters.len() == 1).await.unwrap();
        for profile in ["frozen", "heartbeats"] {
            write(&path, &[("a.test", profile)]);
            sets.wait_for(|set| profiles(set) == [profile]).await.unwrap();
        }
        write(&path, &[]);
        sets.wait_for(|set| profiles(set) == [""]).await.unwrap();
    }
}
