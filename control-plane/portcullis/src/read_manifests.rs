use std::path::Path;

use portcullis_sources::{Input, InputError, ObjectSet, read_inputs};

/// Why the objects of a file or directory cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error(transparent)]
    Input(#[from] InputError),
    /// The one file that was asked for holds nothing that can be used.
    #[error("{0}")]
    File(String),
}

/// The objects of a file, or of the files in a directory.
pub(crate) fn read_manifests(path: &Path) -> Result<ObjectSet, ManifestError> {
    let objects = read_inputs(&[Input::Path(path.to_owned())])?;
    match objects.diagnoses.iter().find(|diagnosis| diagnosis.refused) {
        Some(diagnosis) if objects.clusters.is_empty() && !path.is_dir() => {
            let line = diagnosis.at.map(|at| format!(":{}:{}", at.line, at.column)).unwrap_or_default();
            Err(ManifestError::File(format!("{}{line}: {}", diagnosis.file, diagnosis.message)))
        }
        _ => Ok(objects),
    }
}
