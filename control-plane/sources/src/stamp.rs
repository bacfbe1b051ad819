use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Clocks of file systems are coarse: what changed so shortly before it was read may have changed again in the same tick.
const COARSE: Duration = Duration::from_secs(3);

/// Which file it is and when it changed last. The time of the last change of the inode cannot be set by anybody, unlike
/// the time of the last modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Whether the file was old enough, when it was read, for a later change to show.
    is_settled: bool,
}

impl Stamp {
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

    #[test]
    fn stamp_is_certain_only_for_files_unchanged_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "a").unwrap();
        let fresh = Stamp::of_path(&path).unwrap();
        assert!(!fresh.is_still(&fresh), "it may change again in the same tick");
        let settled = Stamp { is_settled: true, ..fresh };
        assert!(settled.is_still(&fresh));
        for other in [
            Stamp { size: 2, ..fresh },
            Stamp { file: (fresh.file.0, 0), ..fresh },
            Stamp { modified: (0, 0), ..fresh },
            Stamp { changed: (0, 0), ..fresh },
        ] {
            assert!(!settled.is_still(&other), "{other:?}");
        }
    }
}
