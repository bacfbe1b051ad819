use tokio::sync::mpsc;

use super::slices::SliceServers;
use super::want::AnswerKey;

/// A message of a task.
#[derive(Debug)]
pub(super) enum SourceReport {
    Servers(SliceServers),
    Failed(String),
}

/// The way of a task to the discoverer.
pub(super) struct Reporter {
    key: AnswerKey,
    to: mpsc::Sender<(AnswerKey, SourceReport)>,
}

impl Reporter {
    pub(super) fn new(key: AnswerKey, to: mpsc::Sender<(AnswerKey, SourceReport)>) -> Self {
        Self { key, to }
    }

    pub(super) async fn report(&self, found: SourceReport) {
        // Without a discoverer the task is ended.
        let _ = self.to.send((self.key.clone(), found)).await;
    }

    pub(super) async fn failed(&self, why: String) {
        self.report(SourceReport::Failed(why)).await;
    }
}
