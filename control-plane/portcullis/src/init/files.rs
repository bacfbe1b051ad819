use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::InitError;

/// Maximum size of a file that is read: all of them are small.
const MAX_BYTES: u64 = 1 << 20;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Without waiting for the other end of a FIFO.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const CREATE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The directory that is laid out, and the files that this run wrote. Below it no symbolic link is followed: a member's
/// directory belongs to the user of its units, who must not choose what root reads, writes or changes the mode of.
#[derive(Debug)]
pub(super) struct Layout {
    root: PathBuf,
    written: Vec<String>,
}

impl Layout {
    /// Opens the directory, or makes it.
    pub(super) fn open(root: &Path) -> Result<Self, InitError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(root);
        made.map_err(InitError::file("make", root))?;
        // Start scripts and units need the whole path.
        let root = root.canonicalize().map_err(InitError::file("find", root))?;
        Ok(Self { root, written: Vec::new() })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The names of the files that were written, in order.
    pub(super) fn written(&self) -> &[String] {
        &self.written
    }

    /// A file's content; `None` if there is none.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, InitError> {
        let read = || {
            let (directory, file) = split(name);
            let Some(file) = found(self.directory_of(directory, false).and_then(|dir| open_file(&dir, file)))? else {
                return Ok(None);
            };
            content(file).map(Some)
        };
        read().map_err(InitError::file("read", &self.path(name)))
    }

    /// Makes a directory and those above it, for its owner only.
    pub(super) fn directory(&self, name: &str) -> Result<(), InitError> {
        self.directory_of(name, true).map(|_| ()).map_err(InitError::file("make", &self.path(name)))
    }

    /// Writes a file in one step, unless it is so already.
    pub(super) fn write(&mut self, name: &str, content: &[u8], mode: u32) -> Result<(), InitError> {
        if self.read(name)?.as_deref() == Some(content) {
            return self.set_mode(name, mode);
        }
        let (directory, file) = split(name);
        let written = self.directory_of(directory, true).and_then(|dir| replace(&dir, file, content, mode));
        written.map_err(InitError::file("write", &self.path(name)))?;
        self.written.push(name.to_owned());
        Ok(())
    }

    /// Writes a file if there is none: its content is made once, or belongs to the operator after that.
    pub(super) fn write_once(
        &mut self,
        name: &str,
        mode: u32,
        content: impl FnOnce() -> Result<Vec<u8>, InitError>,
    ) -> Result<Vec<u8>, InitError> {
        if let Some(kept) = self.read(name)? {
            self.set_mode(name, mode)?;
            return Ok(kept);
        }
        let content = content()?;
        self.write(name, &content, mode)?;
        Ok(content)
    }

    fn set_mode(&self, name: &str, mode: u32) -> Result<(), InitError> {
        let set = || {
            let (directory, file) = split(name);
            let file = open_file(&self.directory_of(directory, false)?, file)?;
            if file.metadata()?.permissions().mode() & 0o777 == mode {
                return Ok(());
            }
            file.set_permissions(Permissions::from_mode(mode))
        };
        set().map_err(InitError::file("set the mode of", &self.path(name)))
    }

    /// A directory below the root, opened part by part, because a link in the middle is followed otherwise.
    fn directory_of(&self, name: &str, make: bool) -> io::Result<OwnedFd> {
        // The root is the operator's own word, links included.
        let mut directory = openat(CWD, &self.root, DIRECTORY, Mode::empty())?;
        for part in name.split('/').filter(|part| !part.is_empty()) {
            if make {
                match mkdirat(&directory, part, Mode::RWXU) {
                    Err(error) if error != Errno::EXIST => return Err(error.into()),
                    _ => {}
                }
            }
            directory = openat(&directory, part, DIRECTORY, Mode::empty())?;
        }
        Ok(directory)
    }
}

/// The directory and the file of a name.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// A plain file with one name: another user's hard link names a file of a third.
fn open_file(directory: &OwnedFd, name: &str) -> io::Result<File> {
    let file = File::from(openat(directory, name, READ, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file with one name"));
    }
    Ok(file)
}

fn content(file: File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 MiB"));
    }
    Ok(content)
}

/// Written through to the disk: after a crash there is the old file or the new one. It belongs to the owner of its directory.
fn replace(directory: &OwnedFd, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let coming = format!("{name}.new");
    match unlinkat(directory, &coming, AtFlags::empty()) {
        Err(error) if error != Errno::NOENT => return Err(error.into()),
        _ => {}
    }
    let mut file = File::from(openat(directory, &coming, CREATE, Mode::RUSR | Mode::WUSR)?);
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    let parent = File::from(directory.try_clone()?);
    // A unit's user has the member's directory, and root renews its certificates.
    let (owner, own) = (parent.metadata()?, file.metadata()?);
    if (owner.uid(), owner.gid()) != (own.uid(), own.gid()) {
        fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    }
    file.sync_all()?;
    renameat(directory, &coming, directory, name)?;
    parent.sync_all()
}
