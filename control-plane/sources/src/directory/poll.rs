//! The search for changes without a notification: notifications get lost, and do not exist on some mounts. It goes on in short slices, so
//! that an edit meanwhile is read soon, and only names files for the next reading: if it finds none, nothing is read.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, DirEntry, Metadata, ReadDir};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::reading::Reading;
use super::watched::Watched;
use crate::events::{ChangeEvents, FileFingerprint};
use crate::listing::configures;

/// The interval of looking at all files.
const POLL: Duration = Duration::from_secs(5);
/// The length of a slice, but for its last file. A pause of the same length follows.
const SLICE: Duration = Duration::from_millis(2);

/// Looks at all files again and again.
pub(super) struct Poll {
    begun: Instant,
    /// When the next slice is due.
    due: Instant,
    /// The round that has begun.
    round: Option<PollRound>,
}

/// A look at all files, as far as it has come.
struct PollRound {
    stage: PollStage,
    /// The known files that the directory has.
    seen: HashSet<Arc<str>>,
    /// The paths of files that may be other ones than those that were read.
    found: BTreeSet<PathBuf>,
}

/// The next thing to look at.
enum PollStage {
    /// An entry of the directory.
    Entries(ReadDir),
    /// Known files that it does not have.
    Gone,
    /// The file that is referred to after this one.
    References(String),
}

impl Poll {
    /// One for which all files were looked at now.
    pub(super) fn new(now: Instant) -> Self {
        Self { begun: now, due: now + POLL, round: None }
    }

    /// When the next slice is due.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Whether no round has begun that is not over.
    #[cfg(test)]
    pub(super) fn is_over(&self) -> bool {
        self.round.is_none()
    }

    /// Looks at files for a while. At the end of a round, files that may be other ones are among the events. Blocks.
    pub(super) fn look(&mut self, watched: &Watched, reading: &Reading, events: &ChangeEvents) {
        let since = Instant::now();
        if self.round.is_none() {
            self.begun = since;
        }
        let round = self.round.take().map_or_else(|| PollRound::begin(watched, reading), Ok);
        let end = round.and_then(|round| round.look(watched, reading, since + SLICE));
        let now = Instant::now();
        match end {
            Ok((round, true)) => {
                self.round = Some(round);
                self.due = now + now.saturating_duration_since(since);
                return;
            }
            Ok((round, false)) => events.found(Some(round.found), now),
            // It cannot be read, or another one is at its path.
            Err(_) => events.found(None, now),
        }
        self.due = now.max(self.begun + POLL);
    }
}

impl PollRound {
    fn begin(watched: &Watched, reading: &Reading) -> io::Result<Self> {
        let stage = PollStage::References(String::new());
        let mut round = Self { stage, seen: HashSet::new(), found: BTreeSet::new() };
        match &watched.only {
            Some(name) => {
                let path = watched.directory.join(name);
                round.compare(name, &fs::metadata(&path), path, false, reading);
            }
            None if !reading.files.is_of(&watched.directory) => return Err(io::ErrorKind::NotFound.into()),
            None => round.stage = PollStage::Entries(fs::read_dir(&watched.directory)?),
        }
        Ok(round)
    }

    /// Looks at one file, and at others until a time. Returns whether there may be more.
    fn look(mut self, watched: &Watched, reading: &Reading, until: Instant) -> io::Result<(Self, bool)> {
        loop {
            let is_more = self.step(watched, reading)?;
            if !is_more || Instant::now() >= until {
                return Ok((self, is_more));
            }
        }
    }

    fn step(&mut self, watched: &Watched, reading: &Reading) -> io::Result<bool> {
        match &mut self.stage {
            PollStage::Entries(entries) => match entries.next() {
                Some(entry) => self.look_at(&entry?, watched, reading),
                None => self.stage = PollStage::Gone,
            },
            PollStage::Gone => {
                let gone = reading.files.names().filter(|name| !self.seen.contains(*name));
                self.found.extend(gone.map(|name| watched.directory.join(name.as_ref())));
                self.stage = PollStage::References(String::new());
            }
            PollStage::References(last) => {
                let Some(root) = &watched.root else { return Ok(false) };
                let Some(path) = reading.references.paths_after(last).next() else { return Ok(false) };
                if !reading.references.is_current(path, root) {
                    self.found.insert(root.path().to_owned());
                    return Ok(false);
                }
                path.clone_into(last);
            }
        }
        Ok(true)
    }

    fn look_at(&mut self, entry: &DirEntry, watched: &Watched, reading: &Reading) {
        let Ok(name) = entry.file_name().into_string() else { return };
        if configures(&name) {
            let is_link = entry.file_type().map_or(true, |kind| kind.is_symlink());
            let path = watched.directory.join(&name);
            let there = if is_link { fs::metadata(&path) } else { entry.metadata() };
            self.compare(&name, &there, path, is_link, reading);
        }
    }

    fn compare(&mut self, name: &str, there: &io::Result<Metadata>, path: PathBuf, is_link: bool, reading: &Reading) {
        let is_current = match reading.files.get(name) {
            Some((shared, state)) => {
                self.seen.insert(Arc::clone(shared));
                let is_same = |there: &Metadata| there.is_file() && state.is_at(&FileFingerprint::read_now(there));
                state.error.is_none() && there.as_ref().is_ok_and(is_same)
            }
            // A directory may have such a name. A link to one is read once, by which it is known as a link.
            None => there.as_ref().is_ok_and(|there| !there.is_file()) && (!is_link || reading.files.is_unsure(name)),
        };
        if !is_current {
            self.found.insert(path);
        }
    }
}
