//! A directory of files as a source.
//!
//! - [`watch`]: reads it, and again what changes.
//! - [`watched`]: what is read of it.
//! - [`reading`]: files and what they refer to, as they were read last, and the set of their objects.
//! - [`poll`]: looks for changes without a notification.

mod poll;
mod reading;
#[cfg(test)]
mod tests;
mod watched;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::watch;

use self::poll::Poll;
use self::reading::{Reading, ReadingChange};
pub use self::watched::{DirectoryError, Watched};
use crate::events::ChangeEvents;
use crate::object_set::{NoticedAt, ObjectSet};

/// Reads what is to be watched and watches it: the receiver yields a set whenever a file's content changed, until it is
/// dropped. Needs a tokio runtime.
///
/// The directory is watched and not its files, because volumes and careful editors replace files: a notification means "look at
/// the file of that name and at every link, and read those that are other ones now"; every file is looked at every five seconds.
/// A file that is written in place is read when its writer closes it.
pub async fn watch(watched: Watched) -> Result<watch::Receiver<Arc<ObjectSet>>, DirectoryError> {
    let events = ChangeEvents::default();
    let mut notifier = watcher(&watched, events.clone());
    let (reading, poll) = (Reading::default(), Poll::new(Instant::now()));
    let reader = DirectoryReader { watched, events: events.clone(), reading, poll };
    let (mut reader, first) = reader.blocking(DirectoryReader::begin).await?;
    let (sender, receiver) = watch::channel(first?);
    tokio::spawn(async move {
        loop {
            let is_notified = tokio::select! {
                () = sender.closed() => return,
                () = events.settled() => true,
                () = tokio::time::sleep_until(reader.poll.due().into()) => false,
            };
            let step = if is_notified { DirectoryReader::reread } else { DirectoryReader::poll };
            let Ok((next, change)) = reader.blocking(step).await else { return };
            reader = next;
            let Some(ReadingChange { set, is_elsewhere }) = change else { continue };
            if is_elsewhere {
                drop(notifier.take());
                notifier = watcher(&reader.watched, events.clone());
            }
            if let Some(set) = set {
                sender.send_replace(set);
            }
        }
    });
    Ok(receiver)
}

/// A directory that is read.
struct DirectoryReader {
    watched: Watched,
    events: ChangeEvents,
    reading: Reading,
    poll: Poll,
}

impl DirectoryReader {
    /// Runs a step that blocks.
    async fn blocking<T: Send + 'static>(
        mut self,
        step: impl FnOnce(&mut Self) -> T + Send + 'static,
    ) -> Result<(Self, T), DirectoryError> {
        let step = move || {
            let result = step(&mut self);
            (self, result)
        };
        let done = tokio::task::spawn_blocking(step).await;
        done.map_err(|error| DirectoryError::Stopped(io::Error::other(error)))
    }

    /// Reads everything for the first time.
    fn begin(&mut self) -> Result<Arc<ObjectSet>, DirectoryError> {
        let set = self.reading.begin(&self.watched);
        self.reading.first_error(&self.watched).map_or(Ok(set), Err)
    }

    /// Reads what has changed.
    fn reread(&mut self) -> Option<ReadingChange> {
        let now = Instant::now();
        let noticed = NoticedAt(Some(self.events.first().unwrap_or(now)));
        let changed = self.events.take(now);
        if changed.paths.is_none() {
            self.poll = Poll::new(now);
        }
        let change = self.reading.reread(&self.watched, &changed, noticed);
        self.events.rest(now, Instant::now());
        Some(change)
    }

    /// Looks for changes without a notification. They are read as if there had been one.
    fn poll(&mut self) -> Option<ReadingChange> {
        self.poll.look(&self.watched, &self.reading, &self.events);
        None
    }
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
