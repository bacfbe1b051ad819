//! One temporary directory for a test's run: logs, configuration, keys, sockets.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::error::{Error, Result};

/// A directory that is removed with this value, unless `PORTCULLIS_KEEP=1` is set or the test panics.
#[derive(Debug)]
pub struct RunDir {
    // Taken out when the directory is to stay.
    dir: Option<TempDir>,
    path: PathBuf,
    /// The number of paths that [`RunDir::next`] has given.
    given: AtomicU32,
}

impl RunDir {
    /// Makes a directory (mode 0700) whose name contains the test's name. Its path is kept short, because a Unix
    /// socket's path may have at most 107 bytes.
    ///
    /// # Errors
    /// [`Error::File`] when the temporary directory cannot be written.
    pub fn new(test: &str) -> Result<Self> {
        let name: String =
            test.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect::<String>();
        let base = std::env::temp_dir();
        let dir = tempfile::Builder::new()
            .prefix(&format!("pc-{name}-"))
            .tempdir_in(&base)
            .map_err(Error::file("making a run directory in", &base))?;
        let path = dir.path().to_owned();
        Ok(Self { dir: Some(dir), path, given: AtomicU32::new(0) })
    }

    /// A given directory, emptied first, that stays.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn at(path: &Path) -> Result<Self> {
        if path.exists() {
            std::fs::remove_dir_all(path).map_err(Error::file("emptying", path))?;
        }
        std::fs::create_dir_all(path).map_err(Error::file("making", path))?;
        let path = path.canonicalize().map_err(Error::file("finding", path))?;
        Ok(Self { dir: None, path, given: AtomicU32::new(0) })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path inside that no earlier call has given, for one of several files of a kind.
    pub fn next(&self, kind: &str) -> PathBuf {
        self.join(&format!("{kind}-{}", self.given.fetch_add(1, Ordering::Relaxed)))
    }

    /// A path inside.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file that only the owner can read, and gives its path. Directories in `name` are made.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path.join(name);
        write_private(&path, content.as_ref())?;
        Ok(path)
    }

    /// Makes a directory inside.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn make_dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path).map_err(Error::file("making", &path))?;
        Ok(path)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let keep = std::env::var("PORTCULLIS_KEEP").is_ok_and(|value| value == "1");
        if !keep && !std::thread::panicking() {
            return;
        }
        if let Some(dir) = self.dir.take() {
            eprintln!("run directory kept: {}", dir.keep().display());
        }
    }
}

/// Writes a file with mode 0600, replacing it in one step, so that a reader never sees half of it. Directories on the way
/// are made.
///
/// # Errors
/// [`Error::File`].
pub fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    use std::io::Write;
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir).map_err(Error::file("making", dir))?;
    // tempfile makes its files with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(Error::file("making a file in", dir))?;
    file.write_all(content).map_err(Error::file("writing", path))?;
    file.persist(path).map_err(|error| Error::file("writing", path)(error.error))?;
    Ok(())
}
