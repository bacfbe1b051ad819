//! Notifications about files: that something changed, and which files are being written at the moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind};
use tokio::sync::Notify;

/// How long a change waits for others, whether any follow or not: a writer who does not stop delays no other one by more.
const GATHERING: Duration = Duration::from_millis(10);
/// A writer that is silent for so long has forgotten to close its file.
const FORGOTTEN: Duration = Duration::from_secs(2);
/// Most paths that are remembered; of more changes all is looked at.
const MAX_PATHS: usize = 1_000;
/// How long a writer may take in all.
const SLOW: Duration = Duration::from_secs(10);

/// Notifications, gathered.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeEvents {
    state: Arc<Mutex<PendingChanges>>,
    notify: Arc<Notify>,
}

#[derive(Debug, Default)]
struct PendingChanges {
    /// The first change since the last reading.
    first: Option<Instant>,
    /// No reading begins before.
    rest_until: Option<Instant>,
    writing: BTreeMap<PathBuf, Writing>,
    /// The paths of the changes that are not read yet.
    paths: BTreeSet<PathBuf>,
    /// Whether there are changes of which the paths are not known.
    are_paths_missing: bool,
}

/// The changes that are to be read.
#[derive(Debug, Default)]
pub(crate) struct ChangedPaths {
    /// Files that are being written at the moment: they are left alone.
    pub(crate) writing: BTreeSet<PathBuf>,
    /// The paths of the changes; `None` if any may have changed.
    pub(crate) paths: Option<BTreeSet<PathBuf>>,
}

#[derive(Clone, Copy, Debug)]
struct Writing {
    since: Instant,
    last: Instant,
}

impl Writing {
    /// When it is read whether it is closed or not.
    fn until(self) -> Instant {
        (self.last + FORGOTTEN).min(self.since + SLOW)
    }
}

impl ChangeEvents {
    /// Takes a notification. Reading a file makes some, too, which say nothing.
    pub(crate) fn record(&self, event: notify::Result<Event>, now: Instant) {
        let mut state = self.lock();
        let is_whole = |event: &Event| !event.need_rescan() && !event.paths.is_empty();
        let paths = event.as_ref().ok().filter(|event| is_whole(event)).map(|event| event.paths.clone());
        if let Ok(event) = event {
            match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => state.finished(&event.paths),
                EventKind::Access(_) => return,
                // A file that is truncated or written in place is whole when it is closed, and not before. One that is
                // renamed into place is whole at once; so is a link, for which the only event is its creation.
                EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Any) => state.written(event.paths, now),
                EventKind::Create(_) => {}
                _ => state.finished(&event.paths),
            }
        }
        match paths {
            Some(paths) if state.paths.len() < MAX_PATHS => state.paths.extend(paths),
            _ => state.are_paths_missing = true,
        }
        state.first.get_or_insert(now);
        drop(state);
        self.notify.notify_one();
    }

    /// Takes the paths of files that were found to be other ones than those that were read; `None` if any may be.
    pub(crate) fn found(&self, paths: Option<BTreeSet<PathBuf>>, now: Instant) {
        if paths.as_ref().is_some_and(BTreeSet::is_empty) {
            return;
        }
        let mut state = self.lock();
        match paths {
            Some(paths) if paths.len().saturating_add(state.paths.len()) <= MAX_PATHS => state.paths.extend(paths),
            _ => state.are_paths_missing = true,
        }
        state.first.get_or_insert(now);
        drop(state);
        self.notify.notify_one();
    }

    /// Waits for a change, and for the end of the burst that it may be the start of.
    pub(crate) async fn settled(&self) {
        loop {
            let (is_changed, first_closing) = {
                let state = self.lock();
                (state.first.is_some(), state.writing.values().map(|one| one.until()).min())
            };
            if is_changed {
                break;
            }
            let closing = first_closing.map(tokio::time::Instant::from_std);
            tokio::select! {
                () = self.notify.notified() => {}
                () = tokio::time::sleep_until(closing.unwrap_or_else(tokio::time::Instant::now)), if closing.is_some() => break,
            }
        }
        while let Some(due) = self.due().filter(|due| *due > Instant::now()) {
            tokio::time::sleep_until(due.into()).await;
        }
    }

    /// When the changes that are not read yet are to be read; `None` without one.
    fn due(&self) -> Option<Instant> {
        self.lock().due()
    }

    /// The first change that is not read yet.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.lock().first
    }

    /// Everything up to here is going to be read now, except for the files that are being written: those are given.
    pub(crate) fn take(&self, now: Instant) -> ChangedPaths {
        let mut state = self.lock();
        state.first = None;
        let mut paths = std::mem::take(&mut state.paths);
        let are_missing = std::mem::take(&mut state.are_paths_missing);
        // One whose writer has forgotten it is read now.
        paths.extend(state.writing.extract_if(.., |_, writing| writing.until() <= now).map(|(path, _)| path));
        ChangedPaths { writing: state.writing.keys().cloned().collect(), paths: (!are_missing).then_some(paths) }
    }

    /// Takes the time of a reading. The next one begins after a rest of the same length: reading a directory that is large or slow takes
    /// half of a processor at most, however much changes.
    pub(crate) fn rest(&self, begun: Instant, ended: Instant) {
        self.lock().rest_until = Some(ended + ended.saturating_duration_since(begun));
    }

    /// Each change of the state is whole: a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, PendingChanges> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingChanges {
    /// Soon after the first change, so that a burst is one reading.
    fn due(&self) -> Option<Instant> {
        let gathered = self.first? + GATHERING;
        Some(self.rest_until.map_or(gathered, |rested| gathered.max(rested)))
    }

    fn written(&mut self, paths: Vec<PathBuf>, now: Instant) {
        for path in paths {
            self.writing.entry(path).or_insert(Writing { since: now, last: now }).last = now;
        }
    }

    fn finished(&mut self, paths: &[PathBuf]) {
        self.writing.retain(|path, _| !paths.contains(path));
    }
}

/// Clocks of file systems are coarse: what changed so shortly before it was read may have changed again in the same tick.
const COARSE: Duration = Duration::from_secs(3);

/// Which file it is and when it changed last. The time of the last change of the inode cannot be set by anybody, unlike
/// the time of the last modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFingerprint {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Whether the file was old enough, when it was read, for a later change to show.
    is_settled: bool,
}

impl FileFingerprint {
    /// The stamp of a file that is about to be read.
    pub(crate) fn read_now(found: &Metadata) -> Self {
        let changed = Duration::new(
            u64::try_from(found.ctime()).unwrap_or(u64::MAX),
            u32::try_from(found.ctime_nsec()).unwrap_or_default(),
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            file: (found.dev(), found.ino()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            is_settled: now.checked_sub(changed).is_some_and(|age| age > COARSE),
        }
    }

    /// The stamp of whatever is at a path now.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|found| Self::read_now(&found))
    }

    /// Whether the content is certainly the one that was read under this stamp.
    pub(crate) fn is_still(&self, now: &Self) -> bool {
        self.is_settled && Self { is_settled: true, ..*now } == *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, DataChange, RenameMode};

    #[test]
    fn file_is_left_alone_until_its_writer_has_closed_it() {
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let events = ChangeEvents::default();
        let record = |kind: EventKind, at| {
            events.record(Ok(Event::new(kind).add_path("a".into())), at);
        };
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let is_left = |at| events.take(at).writing.contains(std::path::Path::new("a"));
        record(EventKind::Create(CreateKind::File), start);
        assert!(!is_left(start), "a link is whole");
        record(written, start);
        assert!(is_left(start));
        record(EventKind::Access(AccessKind::Open(AccessMode::Any)), start);
        assert!(is_left(start) && events.lock().first.is_none(), "reading is no change");
        record(EventKind::Access(AccessKind::Close(AccessMode::Write)), start);
        assert!(!is_left(start));
        record(written, start);
        record(EventKind::Modify(ModifyKind::Name(RenameMode::To)), start);
        assert!(!is_left(start), "another file is in its place");
        record(written, start);
        assert!(is_left(after(1_999)) && !is_left(after(2_000)), "forgotten");
        for second in 0..10 {
            record(written, after(second * 1_000));
            assert!(is_left(after(second * 1_000)));
        }
        assert!(!is_left(after(10_000)), "slow");
    }

    #[test]
    fn change_is_read_soon_however_many_others_follow() {
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let events = ChangeEvents::default();
        let record = |path: &str, at| {
            events.record(Ok(Event::new(EventKind::Create(CreateKind::File)).add_path(path.into())), at);
        };
        assert_eq!(events.due(), None);
        record("alone", start);
        assert_eq!(events.due(), Some(after(10)));
        record("beside", after(4));
        assert_eq!(events.due(), Some(after(10)), "others change nothing");
        events.take(after(10));
        assert_eq!(events.due(), None);
        // A writer that does not stop for a second, and readings of three milliseconds each.
        let mut longest = Duration::ZERO;
        for millisecond in 100..1_100 {
            let now = after(millisecond);
            record("storm", now);
            let (Some(due), Some(first)) = (events.due(), events.first()) else { unreachable!() };
            if due <= now {
                longest = longest.max(now - first);
                events.take(now);
                events.rest(now, now + Duration::from_millis(3));
            }
        }
        assert_eq!(longest, GATHERING);
        events.take(after(1_100));
        // During a reading: its time counts.
        record("early", after(2_000));
        record("late", after(2_009));
        assert_eq!(events.due(), Some(after(2_010)));
        events.rest(after(1_980), after(2_009));
        assert_eq!(events.due(), Some(after(2_038)), "a reading rests as long as it took");
    }

    #[test]
    fn paths_of_changes_are_known_or_all_may_have_changed() {
        let (events, now) = (ChangeEvents::default(), Instant::now());
        let event = |path: &str| Ok(Event::new(EventKind::Create(CreateKind::File)).add_path(path.into()));
        let taken = || events.take(now).paths.map(|paths| paths.into_iter().collect::<Vec<_>>());
        assert_eq!(taken(), Some(Vec::new()));
        events.record(event("a"), now);
        events.record(event("b"), now);
        assert_eq!(taken(), Some(vec!["a".into(), "b".into()]));
        for unknown in [Ok(Event::new(EventKind::Any)), Err(notify::Error::generic("overflow"))] {
            events.record(event("a"), now);
            events.record(unknown, now);
            assert_eq!(taken(), None);
        }
        (0..=MAX_PATHS).for_each(|number| events.record(event(&number.to_string()), now));
        assert_eq!(taken(), None);
        events.found(Some(BTreeSet::new()), now);
        assert_eq!(events.due(), None, "nothing is to be read");
        events.found(Some(["c".into()].into()), now);
        assert_eq!((events.first(), taken()), (Some(now), Some(vec!["c".into()])));
        for unknown in [None, Some((0..=MAX_PATHS).map(|number| number.to_string().into()).collect())] {
            events.found(unknown, now);
            assert!(events.first().is_some());
            assert_eq!(taken(), None);
        }
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        events.record(Ok(Event::new(written).add_path("a".into())), now);
        assert!(events.take(now).writing.contains(Path::new("a")));
        let forgotten = events.take(now + FORGOTTEN);
        assert!(forgotten.writing.is_empty() && forgotten.paths.unwrap().contains(Path::new("a")), "it is read now");
    }

    #[test]
    fn stamp_is_certain_only_for_files_unchanged_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "a").unwrap();
        let fresh = FileFingerprint::of_path(&path).unwrap();
        assert!(!fresh.is_still(&fresh), "it may change again in the same tick");
        let settled = FileFingerprint { is_settled: true, ..fresh };
        assert!(settled.is_still(&fresh));
        for other in [
            FileFingerprint { size: 2, ..fresh },
            FileFingerprint { file: (fresh.file.0, 0), ..fresh },
            FileFingerprint { modified: (0, 0), ..fresh },
            FileFingerprint { changed: (0, 0), ..fresh },
        ] {
            assert!(!settled.is_still(&other), "{other:?}");
        }
    }
}
