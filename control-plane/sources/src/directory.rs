use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{mpsc, watch};

use crate::ObjectSet;
use crate::files::Files;

/// How long a burst of changes is waited out.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How often the directory is read without being told to: notifications get lost, and do not exist on some mounts.
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

/// Reads the directory and watches it: the receiver yields a set whenever a file's content changed, until it is dropped.
/// Needs a tokio runtime.
///
/// The directory is watched and not its files, because volumes and careful editors replace files: any event means "read
/// everything and compare the content".
pub async fn watch(directory: PathBuf) -> Result<watch::Receiver<Arc<ObjectSet>>, DirectoryError> {
    // One waiting event is as good as many.
    let (event, mut events) = mpsc::channel(1);
    let watcher = watcher(&directory, event);
    let files = reread(None, &directory).await?;
    if let Some(reason) = files.error() {
        return Err(DirectoryError::Read { directory, reason: reason.to_owned() });
    }
    let (sender, receiver) = watch::channel(Arc::new(files.objects()));
    tokio::spawn(async move {
        let _watcher = watcher;
        let mut files = files;
        let mut watching = true;
        loop {
            tokio::select! {
                () = sender.closed() => return,
                event = events.recv(), if watching => match event {
                    Some(()) => tokio::time::sleep(DEBOUNCE).await,
                    None => watching = false,
                },
                () = tokio::time::sleep(POLL) => {}
            }
            // Events up to here are covered by the reading that follows.
            while events.try_recv().is_ok() {}
            let Ok(newer) = reread(Some(files.clone()), &directory).await else { return };
            if newer != files {
                files = newer;
                sender.send_replace(Arc::new(files.objects()));
            }
        }
    });
    Ok(receiver)
}

/// Without notifications the poll still finds every change.
fn watcher(directory: &Path, event: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let told = move |_: notify::Result<notify::Event>| {
        // Full means that an event waits already.
        let _ = event.try_send(());
    };
    let started = notify::recommended_watcher(told).and_then(|mut watcher| {
        watcher.watch(directory, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    started.map_err(|error| tracing::warn!(%error, "no notifications: changes are seen by polling")).ok()
}

async fn reread(before: Option<Files>, directory: &Path) -> Result<Files, DirectoryError> {
    let directory = directory.to_owned();
    tokio::task::spawn_blocking(move || before.unwrap_or_default().reread(&directory))
        .await
        .map_err(|error| DirectoryError::Stopped(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const A: &str = "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {name: a.test}\n";

    async fn until(sets: &mut watch::Receiver<Arc<ObjectSet>>, names: &[&str]) {
        let found = |set: &Arc<ObjectSet>| {
            set.clusters.iter().filter_map(|one| one.pointer("/metadata/name")?.as_str()).eq(names.iter().copied())
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
        let mut sets = watch(dir.path().to_owned()).await.unwrap();
        until(&mut sets, &["a.test"]).await;
        symlink("two", dir.path().join("..tmp")).unwrap();
        fs::rename(dir.path().join("..tmp"), dir.path().join("..data")).unwrap();
        until(&mut sets, &["b.test"]).await;
        fs::write(dir.path().join("d.yaml"), A).unwrap();
        until(&mut sets, &["b.test", "a.test"]).await;
        assert!(watch(dir.path().join("nowhere")).await.is_err());
    }
}
