use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::events::ChangedPaths;
use crate::listing::configures;
use crate::references::Root;

/// Why a directory cannot be read. The operator has to act; trying again helps only if the cause goes.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It is no directory, or may not be read.
    #[error("cannot read the directory {directory}: {reason}")]
    Read {
        /// The directory.
        directory: PathBuf,
        /// Why.
        reason: String,
    },
    /// The reader was stopped.
    #[error("the reader of the directory stopped")]
    Stopped(#[source] io::Error),
}

/// The path to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    pub(super) directory: PathBuf,
    /// The one file of it that is read.
    pub(super) only: Option<String>,
    /// The directory below which documents may refer to files.
    pub(super) root: Option<Root>,
    /// The name of the `GatewaySettings` of all gateways, if others may be beside them.
    pub(super) settings_name: Option<String>,
}

impl Watched {
    /// All files of a directory.
    pub fn directory(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        // Notifications have absolute paths. Links stay as they are, because they may lead elsewhere later.
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        Self { directory, only: None, root: None, settings_name: None }
    }

    /// One file, or all files of a directory.
    pub fn file_or_directory(path: &Path) -> Self {
        let name = path.file_name().and_then(OsStr::to_str);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match name {
            Some(name) if !path.is_dir() => {
                let directory = parent.unwrap_or(Path::new("."));
                Self { only: Some(name.to_owned()), ..Self::directory(directory) }
            }
            _ => Self::directory(path),
        }
    }

    /// Lets the documents refer to files below a directory.
    #[must_use]
    pub fn references(self, root: Option<Root>) -> Self {
        Self { root, ..self }
    }

    /// Takes the `GatewaySettings` of a name for those of all gateways; without it the one that is there.
    #[must_use]
    pub fn settings_name(self, name: Option<String>) -> Self {
        Self { settings_name: name, ..self }
    }

    /// Whether files that are referred to may be other ones: any change but those of files that hold objects may be of them, or of a
    /// link that leads to them.
    pub(super) fn may_be_of_references(&self, root: &Root, changed: &ChangedPaths) -> bool {
        let Some(paths) = &changed.paths else { return true };
        // Notifications have absolute paths.
        let below = std::path::absolute(root.path()).unwrap_or_else(|_| root.path().to_owned());
        let is_of_objects = |path: &Path| {
            let is_own =
                path.parent() == Some(&self.directory) && !path.starts_with(&below) && !below.starts_with(path);
            is_own && path.file_name().and_then(OsStr::to_str).is_some_and(configures)
        };
        !paths.iter().all(|path| is_of_objects(path)) || root.may_hold(&self.directory)
    }
}
