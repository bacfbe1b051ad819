use tokio::sync::mpsc;

use super::slices::SliceServers;
use super::want::AnswerKey;

/// A message of a task.
#[derive(Debug)]
pub(super) enum SourceReport {
    Servers(SliceServers),
    Failed(String),
}

/// A message, and the run of a task that it is from: one of a task that is ended may still be on its way.
#[derive(Debug)]
pub(super) struct TaskReport {
    pub(super) key: AnswerKey,
    /// The number of the run.
    pub(super) start: u64,
    pub(super) found: SourceReport,
}

/// The way of a task to the discoverer.
pub(super) struct Reporter {
    key: AnswerKey,
    start: u64,
    to: mpsc::Sender<TaskReport>,
}

impl Reporter {
    pub(super) fn new(key: AnswerKey, start: u64, to: mpsc::Sender<TaskReport>) -> Self {
        Self { key, start, to }
    }

    pub(super) async fn report(&self, found: SourceReport) {
        // Without a discoverer the task is ended.
        let _ = self.to.send(TaskReport { key: self.key.clone(), start: self.start, found }).await;
    }

    pub(super) async fn failed(&self, why: String) {
        self.report(SourceReport::Failed(why)).await;
    }
}
