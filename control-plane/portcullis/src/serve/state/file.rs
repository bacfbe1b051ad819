use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::StateError;

/// Maximum size of the file: forty thousand clusters.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Reads the file; `None` if there is none. It must be a plain file that belongs to this process's user, and that no other user
/// may read or write: a user who can write it could replace the gateway's configuration.
pub(in super::super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(StateError::Read)?,
    };
    if !found.is_file() {
        return Err(StateError::NotPlain);
    }
    let mut file = File::open(path).map_err(StateError::Read)?;
    // Of what was opened, which need not be what was looked at.
    let opened = file.metadata().map_err(StateError::Read)?;
    if (opened.dev(), opened.ino()) != (found.dev(), found.ino()) {
        return Err(StateError::NotPlain);
    }
    if opened.uid() != rustix::process::geteuid().as_raw() {
        return Err(StateError::Owner);
    }
    if opened.mode() & 0o777 != 0o600 {
        return Err(StateError::Mode(opened.mode() & 0o777));
    }
    if opened.len() > MAX_FILE_BYTES {
        return Err(StateError::Size);
    }
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(StateError::Read)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(StateError::Size);
    }
    Ok(Some(bytes))
}

/// Puts a file of these bytes in its place: see [`write_with`].
pub(in super::super) fn write(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    write_with(directory, name, |file| file.write_all(bytes))
}

/// Puts the file in its place in one step, written through to the disk: after a crash, or if `content` cannot be written, there is
/// the old one or the new one.
pub(super) fn write_with(
    directory: &Path,
    name: &str,
    content: impl FnOnce(&mut BoundedFile) -> io::Result<()>,
) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let coming = directory.join(format!(".{name}.new"));
    match fs::remove_file(&coming) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&coming)?;
    let mut file = BoundedFile { file, position: 0 };
    content(&mut file).and_then(|()| file.file.sync_all()).inspect_err(|_| drop(fs::remove_file(&coming)))?;
    fs::rename(&coming, directory.join(name))?;
    File::open(directory)?.sync_all()
}

/// A file that does not become larger than what is read again.
pub(super) struct BoundedFile {
    file: File,
    position: u64,
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.position.saturating_add(bytes.len() as u64) > MAX_FILE_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 GiB"));
        }
        let written = self.file.write(bytes)?;
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for BoundedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = self.file.seek(to)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::FILE;
    use super::*;

    #[test]
    fn file_that_cannot_be_written_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), FILE, b"one").unwrap();
        let fails =
            |content: fn(&mut BoundedFile) -> io::Result<()>| write_with(dir.path(), FILE, content).unwrap_err();
        let full = fails(|file| {
            file.write_all(b"two")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        let large = fails(|file| {
            file.seek(SeekFrom::Start(MAX_FILE_BYTES - 1))?;
            file.write_all(b"12")
        });
        assert_eq!(large.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&dir.path().join(FILE)).unwrap().unwrap(), b"one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn file_is_read_only_if_it_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let path = state.join(FILE);
        assert!(read(&path).unwrap().is_none());
        write(&state, FILE, b"one").unwrap();
        write(&state, FILE, b"two").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
        for mode in [0o640, 0o604, 0o620, 0o400, 0o700] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(read(&path), Err(StateError::Mode(found)) if found == mode), "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let huge = state.join("huge");
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&huge).unwrap();
        file.set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(matches!(read(&huge), Err(StateError::Size)));
        fs::remove_file(huge).unwrap();
        // Only root may give a file away.
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            assert!(matches!(read(&path), Err(StateError::Owner)));
            std::os::unix::fs::chown(&path, Some(rustix::process::geteuid().as_raw()), None).unwrap();
        }
        fs::rename(&path, state.join("elsewhere")).unwrap();
        symlink(state.join("elsewhere"), &path).unwrap();
        assert!(matches!(read(&path), Err(StateError::NotPlain)));
    }
}
