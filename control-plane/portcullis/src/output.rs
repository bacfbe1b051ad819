//! Objects and answers as they are printed.

use serde::Serialize;
use serde_json::{Value, json};

use crate::arguments::ManifestOutput;

/// Why something cannot be printed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("cannot write it as YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
    #[error("cannot write it as JSON")]
    Json(#[from] serde_json::Error),
}

impl ManifestOutput {
    /// One object or answer, with a line's end.
    pub(crate) fn text(self, value: &impl Serialize) -> Result<String, OutputError> {
        Ok(match self {
            // Quoted for readers of YAML 1.1, too: to kubectl a bare `on` is a boolean.
            ManifestOutput::Yaml => serde_saphyr::to_string(value)?,
            ManifestOutput::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
        })
    }

    /// Several objects: documents of YAML, or a List.
    pub(crate) fn list(self, objects: &[Value]) -> Result<String, OutputError> {
        match self {
            ManifestOutput::Yaml => {
                let documents: Result<Vec<String>, _> = objects.iter().map(|one| self.text(one)).collect();
                Ok(documents?.join("---\n"))
            }
            ManifestOutput::Json => self.text(&json!({"apiVersion": "v1", "kind": "List", "items": objects})),
        }
    }
}
