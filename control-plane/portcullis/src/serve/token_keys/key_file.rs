//! The file of the keys of all sources: written when keys change, when the program ends, and again after a failure.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::super::metrics::ControlPlaneMetrics;
use super::super::state::write_private;
use super::saved::{FILE, MAX_BYTES, SavedKeys, encode, load};

/// Minimum pause between two writes, and its ratio to the duration of the write before it.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const PAUSE_RATIO: u32 = 10;

/// Takes the keys that are known, for the writer.
pub(super) type KeySaver = watch::Sender<Arc<Vec<Arc<SavedKeys>>>>;

/// The keys of an earlier run, and the way to the file for this one's.
pub(in super::super) struct KeyFile {
    pub(super) saved: Vec<SavedKeys>,
    pub(super) saver: KeySaver,
}

/// The task that writes the file.
pub(in super::super) struct KeyFileWriting {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

struct KeyFileWriter {
    newest: watch::Receiver<Arc<Vec<Arc<SavedKeys>>>>,
    directory: PathBuf,
    metrics: Arc<ControlPlaneMetrics>,
}

impl KeyFile {
    /// Reads the file in a directory, and starts to write it.
    pub(in super::super) fn open(directory: PathBuf, metrics: Arc<ControlPlaneMetrics>) -> (Self, KeyFileWriting) {
        let saved = load(&directory);
        let (saver, newest) = watch::channel(Arc::default());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(KeyFileWriter { newest, directory, metrics }.run(stopped));
        (Self { saved, saver }, KeyFileWriting { stop, task })
    }
}

impl KeyFileWriting {
    /// Waits until the newest keys are written.
    pub(in super::super) async fn end(self) {
        drop(self.stop);
        // It returns nothing, and a panic of it has been logged.
        let _ = self.task.await;
    }
}

impl KeyFileWriter {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let (mut is_written, mut pause) = (true, Duration::ZERO);
        loop {
            let is_last = tokio::select! {
                biased;
                _ = &mut stopped => true,
                () = self.due(is_written, pause) => false,
            };
            // An error means that the reader of keys is gone.
            if is_last && is_written && !self.newest.has_changed().unwrap_or(true) {
                return;
            }
            let start = Instant::now();
            let sources = Arc::clone(&self.newest.borrow_and_update());
            is_written = self.write(sources).await;
            if is_last {
                return;
            }
            pause = MIN_PAUSE.max(start.elapsed() * PAUSE_RATIO);
        }
    }

    /// Waits for the end of the pause, and for other keys if the last ones are written.
    async fn due(&mut self, is_written: bool, pause: Duration) {
        tokio::time::sleep(pause).await;
        if is_written && self.newest.changed().await.is_err() {
            // No more keys come.
            std::future::pending::<()>().await;
        }
    }

    async fn write(&self, sources: Arc<Vec<Arc<SavedKeys>>>) -> bool {
        let directory = self.directory.clone();
        let write = move || {
            // An older file may have keys that their source has taken back: it is better gone.
            write_private(&directory, FILE, &encode(&sources, MAX_BYTES)?)
                .inspect_err(|_| drop(std::fs::remove_file(directory.join(FILE))))
        };
        let outcome =
            tokio::task::spawn_blocking(write).await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        if let Err(error) = &outcome {
            tracing::error!(directory = %self.directory.display(), %error, "the keys of tokens cannot be written");
        }
        self.metrics.state_written(outcome.is_ok());
        outcome.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::saved::testing::source;
    use super::*;

    fn opened(directory: PathBuf) -> (KeyFile, KeyFileWriting) {
        KeyFile::open(directory, Arc::new(ControlPlaneMetrics::default()))
    }

    fn names(directory: PathBuf) -> Vec<String> {
        load(&directory).into_iter().map(|one| one.name).collect()
    }

    #[tokio::test]
    async fn newest_keys_are_in_the_file_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let (file, writing) = opened(state.clone());
        assert!(file.saved.is_empty());
        for number in 0..50 {
            file.saver.send_replace(Arc::new(vec![Arc::new(source(&number.to_string(), "keys"))]));
            tokio::task::yield_now().await;
        }
        writing.end().await;
        assert_eq!(names(state), ["49"]);
    }

    #[tokio::test]
    async fn file_that_cannot_be_written_is_gone_and_written_later() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let (_saver, newest) = watch::channel(Arc::default());
        let metrics = Arc::new(ControlPlaneMetrics::default());
        let writer = KeyFileWriter { newest, directory: state.clone(), metrics };
        let keys = |name: &str| Arc::new(vec![Arc::new(source(name, "keys"))]);
        // A file where the directory is to be.
        std::fs::write(&state, "").unwrap();
        assert!(!writer.write(keys("one")).await);
        std::fs::remove_file(&state).unwrap();
        assert!(writer.write(keys("one")).await);
        assert_eq!(names(state), ["one"]);
    }
}
