use std::path::Path;

use portcullis_sources::{DirectoryError, FileError, ObjectSet, read_file, read_once};

/// Why the objects of a file or directory cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectsError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// The objects of a file, or of the files in a directory.
pub(crate) fn read_objects(path: &Path) -> Result<ObjectSet, ObjectsError> {
    Ok(if path.is_dir() { read_once(path)? } else { read_file(path)? })
}
