use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use portcullis_api::ReferencedData;
use tokio::sync::watch;

use crate::events::{ChangeEvents, ChangedPaths};
use crate::files::Files;
use crate::object_set::{NoticedAt, ObjectSet};
use crate::references::Root;
use crate::references::{put_in_settings, referenced_data};

/// The interval of reading the directory without a notification: notifications get lost, and do not exist on some mounts.
const POLL: Duration = Duration::from_secs(5);

/// Why a directory cannot be read. The operator has to act; trying again helps only if the cause goes.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It is no directory, or may not be read.
    #[error("cannot read the directory {directory}: {reason}")]
    Read {
        /// The directory.
        directory: PathBuf,
        /// Why.
        reason: String,
    },
    /// The reader was stopped.
    #[error("the reader of the directory stopped")]
    Stopped(#[source] io::Error),
}

/// The path to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    directory: PathBuf,
    /// The one file of it that is read.
    only: Option<String>,
    root: Option<Root>,
    /// The name of the `GatewaySettings` of all gateways, if others may be beside them.
    settings_name: Option<String>,
}

impl Watched {
    /// All files of a directory.
    pub fn directory(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        // Notifications have absolute paths. Links stay as they are, because they may lead elsewhere later.
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        Self { directory, only: None, root: None, settings_name: None }
    }

    /// One file, or all files of a directory.
    pub fn file_or_directory(path: &Path) -> Self {
        let name = path.file_name().and_then(OsStr::to_str);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match name {
            Some(name) if !path.is_dir() => {
                let directory = parent.unwrap_or(Path::new("."));
                Self { only: Some(name.to_owned()), ..Self::directory(directory) }
            }
            _ => Self::directory(path),
        }
    }

    /// Lets the documents refer to files below a directory.
    #[must_use]
    pub fn references(self, root: Option<Root>) -> Self {
        Self { root, ..self }
    }

    /// Takes the `GatewaySettings` of a name for those of all gateways; without it the one that is there.
    #[must_use]
    pub fn settings_name(self, name: Option<String>) -> Self {
        Self { settings_name: name, ..self }
    }

    fn objects(&self, reading: &Reading) -> ObjectSet {
        let mut set = reading.objects();
        set.divide_settings(self.settings_name.as_deref());
        set
    }

    /// Reads again what changed, but for the files that are being written.
    fn reread(&self, before: &Reading, changed: &ChangedPaths) -> Reading {
        // Taken before the content: if it is replaced meanwhile, that is seen the next time.
        let identity = identity(&self.directory);
        let anew = ChangedPaths::default();
        // The notifications were of another directory.
        let changed = if identity == before.identity { changed } else { &anew };
        let files = before.files.reread_only(&self.directory, self.only.as_deref(), changed);
        let referenced_data = referenced_data(files.referenced_files(), self.root.as_ref());
        Reading { files, referenced_data, identity }
    }

    fn first_error(&self, reading: &Reading) -> Option<DirectoryError> {
        let error =
            |path: &Path, reason: &str| DirectoryError::Read { directory: path.to_owned(), reason: reason.to_owned() };
        if let Some(reason) = reading.files.error() {
            return Some(error(&self.directory, reason));
        }
        let name = self.only.as_ref()?;
        reading.files.error_of(name).map(|reason| error(&self.directory.join(name), reason))
    }
}

/// Which directory is at a path now: device and inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// The result of the last reading.
#[derive(Clone, Debug, Default)]
struct Reading {
    files: Files,
    referenced_data: ReferencedData,
    /// Of the directory that was read. The path may be a link, and lead to another one later.
    identity: Option<(u64, u64)>,
}

impl Reading {
    /// Whether the content is another one.
    fn is_other_than(&self, before: &Self) -> bool {
        self.files != before.files || self.referenced_data != before.referenced_data
    }

    /// Whether another directory has to be watched than before: the one that was watched may be gone for ever, or the link leads
    /// elsewhere.
    fn is_elsewhere(&self, before: &Self) -> bool {
        let is_back = before.files.error().is_some() && self.files.error().is_none();
        is_back || (self.identity.is_some() && self.identity != before.identity)
    }

    fn objects(&self) -> ObjectSet {
        let mut set = ObjectSet { referenced_data: self.referenced_data.clone(), ..self.files.objects() };
        put_in_settings(&mut set);
        set
    }
}

/// Reads what is to be watched and watches it: the receiver yields a set whenever a file's content changed, until it is
/// dropped. Needs a tokio runtime.
///
/// The directory is watched and not its files, because volumes and careful editors replace files: a notification means "look at
/// the file of that name and at every link, and read those that are other ones now"; every file is looked at every five seconds.
/// A file that is written in place is read when its writer closes it.
pub async fn watch(watched: Watched) -> Result<watch::Receiver<Arc<ObjectSet>>, DirectoryError> {
    let events = ChangeEvents::default();
    let mut notifier = watcher(&watched, events.clone());
    let reading = reread(&watched, Reading::default(), ChangedPaths::default()).await?;
    if let Some(error) = watched.first_error(&reading) {
        return Err(error);
    }
    let (sender, receiver) = watch::channel(Arc::new(watched.objects(&reading)));
    tokio::spawn(async move {
        let (mut reading, mut looked_at_all) = (reading, Instant::now());
        loop {
            tokio::select! {
                () = sender.closed() => return,
                () = events.settled() => {}
                () = tokio::time::sleep_until((looked_at_all + POLL).into()) => {}
            }
            let now = Instant::now();
            let noticed = NoticedAt(Some(events.first().unwrap_or(now)));
            let mut changed = events.take(now);
            let is_of_directory = changed.paths.as_ref().is_some_and(|paths| paths.contains(&watched.directory));
            // Notifications get lost also while others come.
            let is_time = now.saturating_duration_since(looked_at_all) >= POLL;
            if is_time || is_of_directory || reading.files.error().is_some() {
                changed.paths = None;
            }
            if changed.paths.is_none() {
                looked_at_all = now;
            }
            let Ok(newer) = reread(&watched, reading.clone(), changed).await else { return };
            events.rest(now, Instant::now());
            let is_other = newer.is_other_than(&reading);
            if newer.is_elsewhere(&reading) {
                drop(notifier.take());
                notifier = watcher(&watched, events.clone());
            }
            reading = newer;
            if is_other {
                sender.send_replace(Arc::new(ObjectSet { noticed, ..watched.objects(&reading) }));
            }
        }
    });
    Ok(receiver)
}

/// Without notifications the poll still finds every change.
pub(crate) fn watcher(watched: &Watched, events: ChangeEvents) -> Option<RecommendedWatcher> {
    let handler = move |event: notify::Result<notify::Event>| events.record(event, Instant::now());
    let started = notify::recommended_watcher(handler).and_then(|mut watcher| {
        watcher.watch(&watched.directory, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    let started = started.map(|mut watcher| {
        if let Some(root) = &watched.root
            && let Err(error) = watcher.watch(root.path(), RecursiveMode::Recursive)
        {
            tracing::warn!(%error, "no notifications of files that are referred to: changes are seen by polling");
        }
        watcher
    });
    started.map_err(|error| tracing::warn!(%error, "no notifications: changes are seen by polling")).ok()
}

async fn reread(watched: &Watched, before: Reading, changed: ChangedPaths) -> Result<Reading, DirectoryError> {
    let watched = watched.clone();
    tokio::task::spawn_blocking(move || watched.reread(&before, &changed))
        .await
        .map_err(|error| DirectoryError::Stopped(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;

    use super::*;

    const A: &str = "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {name: a.test}\n";

    async fn until(sets: &mut watch::Receiver<Arc<ObjectSet>>, names: &[&str]) {
        let found = |set: &Arc<ObjectSet>| {
            set.clusters.iter().filter_map(|one| one.get("metadata")?.get("name")?.as_str()).eq(names.iter().copied())
        };
        tokio::time::timeout(Duration::from_secs(20), sets.wait_for(found)).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn changes_and_replaced_links_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        for (version, name) in [("one", "a.test"), ("two", "b.test")] {
            fs::create_dir(dir.path().join(version)).unwrap();
            fs::write(dir.path().join(version).join("c.yaml"), A.replace("a.test", name)).unwrap();
        }
        // As a volume of Kubernetes is laid out.
        symlink("one", dir.path().join("..data")).unwrap();
        symlink("..data/c.yaml", dir.path().join("c.yaml")).unwrap();
        let mut sets = watch(Watched::directory(dir.path())).await.unwrap();
        until(&mut sets, &["a.test"]).await;
        symlink("two", dir.path().join("..tmp")).unwrap();
        fs::rename(dir.path().join("..tmp"), dir.path().join("..data")).unwrap();
        until(&mut sets, &["b.test"]).await;
        fs::write(dir.path().join("d.yaml"), A).unwrap();
        until(&mut sets, &["b.test", "a.test"]).await;
        assert!(watch(Watched::directory(dir.path().join("nowhere"))).await.is_err());
    }

    #[tokio::test]
    async fn file_that_is_written_in_place_is_read_when_it_is_whole() {
        use std::io::Write;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.yaml"), A).unwrap();
        let mut sets = watch(Watched::directory(dir.path())).await.unwrap();
        until(&mut sets, &["a.test"]).await;
        // Truncated it is a file without objects, and a part of it is one with fewer.
        let mut file = fs::File::create(dir.path().join("a.yaml")).unwrap();
        fs::write(dir.path().join("b.yaml"), A.replace("a.test", "b.test")).unwrap();
        until(&mut sets, &["a.test", "b.test"]).await;
        write!(file, "{}---\n{}", A.replace("a.test", "c.test"), A.replace("a.test", "d.test")).unwrap();
        drop(file);
        until(&mut sets, &["c.test", "d.test", "b.test"]).await;
    }

    #[tokio::test]
    async fn edit_in_place_is_noticed_below_a_relative_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        let up: PathBuf = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
        let relative = up.join(dir.path().strip_prefix("/").unwrap());
        for (watched, name) in [
            (Watched::directory(&relative), "b.test"),
            (Watched::file_or_directory(&relative.join("a.yaml")), "c.test"),
        ] {
            fs::write(&file, A).unwrap();
            let events = ChangeEvents::default();
            let _notifier = watcher(&watched, events.clone()).unwrap();
            let mut reading = watched.reread(&Reading::default(), &ChangedPaths::default());
            let before = reading.objects().clusters;
            fs::write(&file, A.replace("a.test", name)).unwrap();
            let noticed = async {
                while reading.objects().clusters == before {
                    events.settled().await;
                    reading = watched.reread(&reading, &events.take(Instant::now()));
                }
            };
            tokio::time::timeout(Duration::from_secs(20), noticed).await.unwrap();
        }
    }

    #[test]
    fn link_that_leads_to_another_directory_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        for (version, name) in [("one", "a.test"), ("two", "b.test")] {
            fs::create_dir(dir.path().join(version)).unwrap();
            fs::write(dir.path().join(version).join("a.yaml"), A.replace("a.test", name)).unwrap();
        }
        symlink("one", dir.path().join("config")).unwrap();
        let watched = Watched::directory(dir.path().join("config"));
        let before = watched.reread(&Reading::default(), &ChangedPaths::default());
        let nothing = || ChangedPaths { paths: Some(BTreeSet::new()), ..Default::default() };
        let same = watched.reread(&before, &nothing());
        assert!(!same.is_other_than(&before) && !same.is_elsewhere(&before));
        symlink("two", dir.path().join("new")).unwrap();
        fs::rename(dir.path().join("new"), dir.path().join("config")).unwrap();
        let after = watched.reread(&before, &nothing());
        assert!(after.is_other_than(&before) && after.is_elsewhere(&before));
        assert_eq!(after.objects().clusters[0]["metadata"]["name"], "b.test");
    }

    #[tokio::test]
    async fn directory_that_vanishes_keeps_its_content_until_it_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, away) = (dir.path().join("config"), dir.path().join("away"));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("a.yaml"), A).unwrap();
        let mut sets = watch(Watched::directory(&path)).await.unwrap();
        until(&mut sets, &["a.test"]).await;
        fs::rename(&path, &away).unwrap();
        let stale = |set: &Arc<ObjectSet>| set.is_stale() && set.clusters.len() == 1;
        tokio::time::timeout(Duration::from_secs(20), sets.wait_for(stale)).await.unwrap().unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("b.yaml"), A.replace("a.test", "b.test")).unwrap();
        until(&mut sets, &["b.test"]).await;
        fs::write(path.join("c.yaml"), A.replace("a.test", "c.test")).unwrap();
        until(&mut sets, &["b.test", "c.test"]).await;
    }

    #[tokio::test]
    async fn file_that_is_referred_to_acts_as_an_edit_does() {
        let dir = tempfile::tempdir().unwrap();
        let (manifests, root) = (dir.path().join("manifests"), dir.path().join("root"));
        fs::create_dir(&manifests).unwrap();
        fs::create_dir_all(root.join("a")).unwrap();
        let spec = "spec: {portcullis: {references: {token: {file: a/token}}}}\n";
        fs::write(manifests.join("a.yaml"), format!("{A}{spec}")).unwrap();
        let watched = Watched::directory(&manifests).references(Some(Root::new(&root)));
        let mut sets = watch(watched).await.unwrap();
        for wanted in [None, Some("one"), Some("two"), None] {
            match wanted {
                Some(text) => fs::write(root.join("a/token"), text).unwrap(),
                None => drop(fs::remove_file(root.join("a/token"))),
            }
            let found = |set: &Arc<ObjectSet>| match &set.referenced_data {
                ReferencedData::Files(files) => {
                    files["a/token"].as_ref().map(|bytes| bytes.expose()) == wanted.map(str::as_bytes)
                }
                _ => false,
            };
            tokio::time::timeout(Duration::from_secs(20), sets.wait_for(found)).await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn settings_have_what_they_refer_to() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.yaml");
        let pair = "{certificate: tls.crt, privateKey: tls.key}";
        let head = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: a}\n";
        fs::write(&file, format!("{head}spec: {{defaultCertificate: {{file: {pair}}}}}\n")).unwrap();
        fs::write(dir.path().join("tls.crt"), "one").unwrap();
        let watched = Watched::file_or_directory(&file).references(Some(Root::new(dir.path())));
        let mut sets = watch(watched).await.unwrap();
        for (key, wanted) in [(None, None), (Some("two"), Some("dHdv")), (Some("three"), Some("dGhyZWU="))] {
            if let Some(key) = key {
                fs::write(dir.path().join("tls.key"), key).unwrap();
            }
            let found = |set: &Arc<ObjectSet>| {
                let certificate = &set.settings[0]["spec"]["defaultCertificate"];
                certificate["keyData"].as_str() == wanted && certificate["file"].is_null() == wanted.is_some()
            };
            tokio::time::timeout(Duration::from_secs(20), sets.wait_for(found)).await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn one_file_is_watched_alone_and_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.conf");
        assert!(watch(Watched::file_or_directory(&file)).await.is_err());
        fs::write(&file, A).unwrap();
        fs::write(dir.path().join("b.yaml"), A.replace("a.test", "b.test")).unwrap();
        let mut sets = watch(Watched::file_or_directory(&file)).await.unwrap();
        until(&mut sets, &["a.test"]).await;
        fs::write(&file, A.replace("a.test", "c.test")).unwrap();
        until(&mut sets, &["c.test"]).await;
        fs::remove_file(&file).unwrap();
        let has_diagnoses = |set: &Arc<ObjectSet>| !set.diagnoses.is_empty();
        let set =
            tokio::time::timeout(Duration::from_secs(20), sets.wait_for(has_diagnoses)).await.unwrap().unwrap().clone();
        assert_eq!(set.clusters.len(), 1, "its last good content stays in use");
    }
}
