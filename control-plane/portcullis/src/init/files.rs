use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::InitError;

/// Maximum size of a file that is read: all of them are small.
const MAX_BYTES: u64 = 1 << 20;

/// The directory that is laid out, and the files that this run wrote.
#[derive(Debug)]
pub(super) struct Layout {
    root: PathBuf,
    written: Vec<String>,
}

impl Layout {
    /// Opens the directory, or makes it.
    pub(super) fn open(root: &Path) -> Result<Self, InitError> {
        make_dir(root)?;
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

    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, InitError> {
        read(&self.path(name))
    }

    /// Makes a directory and those above it, for its owner only.
    pub(super) fn directory(&self, name: &str) -> Result<(), InitError> {
        make_dir(&self.path(name))
    }

    /// Writes a file in one step, unless it is so already.
    pub(super) fn write(&mut self, name: &str, content: &[u8], mode: u32) -> Result<(), InitError> {
        let path = self.path(name);
        if read(&path)?.as_deref() == Some(content) {
            return set_mode(&path, mode);
        }
        let directory = path.parent().unwrap_or(&self.root).to_owned();
        make_dir(&directory)?;
        replace(&directory, &path, content, mode).map_err(InitError::file("write", &path))?;
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
            set_mode(&self.path(name), mode)?;
            return Ok(kept);
        }
        let content = content()?;
        self.write(name, &content, mode)?;
        Ok(content)
    }
}

/// A file's content; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, InitError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(InitError::file("read", path))?,
    };
    let mut content = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut content).map_err(InitError::file("read", path))?;
    if content.len() as u64 > MAX_BYTES {
        return Err(InitError::file("read", path)(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 MiB")));
    }
    Ok(Some(content))
}

fn make_dir(path: &Path) -> Result<(), InitError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(InitError::file("make", path))
}

fn set_mode(path: &Path, mode: u32) -> Result<(), InitError> {
    let present = fs::metadata(path).map_err(InitError::file("read", path))?.permissions().mode() & 0o777;
    if present == mode {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(InitError::file("set the mode of", path))
}

/// Written through to the disk: after a crash there is the old file or the new one. It belongs to the owner of its directory.
fn replace(directory: &Path, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let coming = path.with_added_extension("new");
    match fs::remove_file(&coming) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&coming)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    // A unit's user has the member's directory, and root renews its certificates.
    let (owner, own) = (fs::metadata(directory)?, file.metadata()?);
    if (owner.uid(), owner.gid()) != (own.uid(), own.gid()) {
        fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    }
    file.sync_all()?;
    fs::rename(&coming, path)?;
    File::open(directory)?.sync_all()
}
