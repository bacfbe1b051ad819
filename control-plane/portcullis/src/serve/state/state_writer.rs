use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_xds::Snapshot;
use tokio::sync::watch;

use super::super::instance_views::GatewayOwners;
use super::super::metrics::ControlPlaneMetrics;
use super::{FILE, file, format};

/// Minimum pause between two writes.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Ratio of a pause to the duration of the write before it.
const PAUSE_RATIO: u32 = 10;

/// Everything that is saved.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct SavedState {
    pub(in super::super) snapshot: Arc<Snapshot>,
    pub(in super::super) gateway_owners: Arc<GatewayOwners>,
}

/// Takes what is served, for the writer.
pub(in super::super) struct StateSender(watch::Sender<Option<SavedState>>);

impl StateSender {
    pub(in super::super) fn save(&self, state: SavedState) {
        self.0.send_replace(Some(state));
    }
}

/// Writes the newest snapshot: at once after a pause, then at most once a second, and at the end.
pub(in super::super) struct StateWriter {
    states: watch::Receiver<Option<SavedState>>,
    directory: PathBuf,
    with_keys: bool,
    metrics: Arc<ControlPlaneMetrics>,
}

impl StateWriter {
    pub(in super::super) fn new(
        directory: PathBuf,
        with_keys: bool,
        metrics: Arc<ControlPlaneMetrics>,
    ) -> (StateSender, Self) {
        let (sender, states) = watch::channel(None);
        (StateSender(sender), Self { states, directory, with_keys, metrics })
    }

    /// Runs until the sender is gone and the last snapshot is written.
    pub(in super::super) async fn run(mut self) {
        let mut written: Option<SavedState> = None;
        loop {
            let is_last = self.states.changed().await.is_err();
            let newest = self.states.borrow_and_update().clone();
            // Not by the version: views have their own.
            let Some(state) = newest.filter(|newest| written.as_ref() != Some(newest)) else {
                if is_last {
                    return;
                }
                continue;
            };
            let start = Instant::now();
            if self.write(&state).await {
                written = Some(state);
            }
            if is_last {
                return;
            }
            let pause = MIN_PAUSE.max(start.elapsed() * PAUSE_RATIO);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = ended(self.states.clone()) => {}
            }
        }
    }

    async fn write(&self, state: &SavedState) -> bool {
        let (SavedState { snapshot, gateway_owners }, directory) = (state.clone(), self.directory.clone());
        let with_keys = self.with_keys;
        let write = move || {
            file::write_with(&directory, FILE, |file| format::write(file, (&snapshot, &gateway_owners), with_keys))
        };
        let outcome =
            tokio::task::spawn_blocking(write).await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        if let Err(error) = &outcome {
            tracing::error!(directory = %self.directory.display(), %error, "the last good configuration cannot be written");
        }
        self.metrics.state_written(outcome.is_ok());
        outcome.is_ok()
    }
}

/// Done when the sender is gone.
async fn ended(mut states: watch::Receiver<Option<SavedState>>) {
    while states.changed().await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use portcullis_xds::Resource;

    use super::super::LastGood;
    use super::*;

    fn snapshot(body: &str) -> Arc<Snapshot> {
        let resource = Resource::new(body.as_bytes().to_vec());
        Arc::new(Snapshot::new([("t".to_owned(), "n".to_owned(), resource)]))
    }

    fn saved_state(snapshot: &Arc<Snapshot>) -> SavedState {
        SavedState { snapshot: Arc::clone(snapshot), gateway_owners: Arc::default() }
    }

    #[tokio::test]
    async fn newest_is_kept_whatever_the_pace() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let metrics = Arc::new(ControlPlaneMetrics::default());
        let (sender, writer) = StateWriter::new(state.clone(), false, metrics);
        let writing = tokio::spawn(writer.run());
        for number in 0..50 {
            sender.save(saved_state(&snapshot(&number.to_string())));
            tokio::task::yield_now().await;
        }
        drop(sender);
        writing.await.unwrap();
        assert_eq!(LastGood::load(&state).snapshot.unwrap().version(), snapshot("49").version());
    }

    /// A deleted ReferenceGrant changes the view of a Gateway, and nothing else.
    #[tokio::test]
    async fn change_of_a_view_alone_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, writer) = StateWriter::new(dir.path().to_owned(), false, Arc::default());
        let of_view = |body: &str| {
            let view = ("gateway/infra/edge".to_owned(), snapshot(body).as_ref().clone());
            Arc::new(snapshot("main").as_ref().clone().with_views([view]))
        };
        let (before, after) = (of_view("with the grant"), of_view("without it"));
        assert_eq!(before.version(), after.version());
        let writing = tokio::spawn(writer.run());
        let saved = async |expected: &Arc<Snapshot>| {
            while LastGood::load(dir.path()).snapshot.as_ref() != Some(expected) {
                tokio::task::yield_now().await;
            }
        };
        sender.save(saved_state(&before));
        saved(&before).await;
        sender.save(saved_state(&after));
        saved(&after).await;
        let owners = Arc::new(serde_json::from_str::<GatewayOwners>(r#"{"infra/edge":{"uid":"1"}}"#).unwrap());
        sender.save(SavedState { gateway_owners: Arc::clone(&owners), ..saved_state(&after) });
        drop(sender);
        writing.await.unwrap();
        let last = LastGood::load(dir.path());
        assert_eq!((last.snapshot, last.gateway_owners), (Some(after), owners.as_ref().clone()));
    }
}
