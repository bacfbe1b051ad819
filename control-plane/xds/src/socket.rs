use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// Why a Unix socket cannot be opened. The operator has to act; trying again does not help by itself.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process listens there.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// Another file than a socket exists there.
    #[error("{0} exists and is not a socket")]
    NotASocket(PathBuf),
    /// The directory, the socket or its mode cannot be made.
    #[error("cannot {step} for the socket {path}")]
    Io {
        /// The step that failed.
        step: &'static str,
        /// The socket's path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A Unix socket that only its owner may use; its file goes when it is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    file: SocketFile,
}

/// Removes the file on drop, if it is still the one that was made.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // Nothing is lost if this fails: the next start replaces a stale socket.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Socket {
    /// Listens at `path`. A socket file without a listener is replaced. Needs a tokio runtime.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        refuse_foreign(path)?;
        let step = |step| move |source| SocketError::Io { step, path: path.to_owned(), source };
        // Made in a directory of its own and moved into place, so that at no time anybody else may connect.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let nest = parent.join(format!(".p{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&nest).map_err(step("make a directory"))?;
        let opened = bind_in(&nest, path, &step);
        // Empty by now, or with a socket that is not used.
        let _ = fs::remove_dir_all(&nest);
        opened
    }

    pub(crate) fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

fn bind_in<E>(nest: &Path, path: &Path, step: &impl Fn(&'static str) -> E) -> Result<Socket, SocketError>
where
    E: FnOnce(io::Error) -> SocketError,
{
    let made = nest.join("s");
    let listener = UnixListener::bind(&made).map_err(step("listen"))?;
    fs::set_permissions(&made, fs::Permissions::from_mode(0o600)).map_err(step("set the mode"))?;
    fs::rename(&made, path).map_err(step("move it into place"))?;
    let inode = fs::symlink_metadata(path).map_err(step("read the inode"))?.ino();
    Ok(Socket { listener, file: SocketFile { path: path.to_owned(), inode } })
}

fn refuse_foreign(path: &Path) -> Result<(), SocketError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(SocketError::Io { step: "look", path: path.to_owned(), source }),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(SocketError::InUse(path.to_owned())),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn socket_is_private_and_replaces_a_stale_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("xds.sock");
        // A listener that is dropped leaves its file behind.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let socket = Socket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Socket::bind(&path), Err(SocketError::InUse(_))));
        drop(socket);
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Socket::bind(&path), Err(SocketError::NotASocket(_))));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
