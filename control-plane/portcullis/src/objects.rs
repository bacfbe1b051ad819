use std::path::Path;

use portcullis_sources::{Input, InputError, ObjectSet, read_inputs};

/// Why the objects of a file or directory cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectsError {
    #[error(transparent)]
    Input(#[from] InputError),
    /// The one file that was asked for holds nothing that can be used.
    #[error("{0}")]
    File(String),
}

/// The objects of a file, or of the files in a directory.
pub(crate) fn read_objects(path: &Path) -> Result<ObjectSet, ObjectsError> {
    let objects = read_inputs(&[Input::Path(path.to_owned())])?;
    match objects.diagnoses.iter().find(|told| told.refused) {
        Some(told) if objects.clusters.is_empty() && !path.is_dir() => {
            let line = told.at.map(|at| format!(":{}:{}", at.line, at.column)).unwrap_or_default();
            Err(ObjectsError::File(format!("{}{line}: {}", told.file, told.message)))
        }
        _ => Ok(objects),
    }
}
