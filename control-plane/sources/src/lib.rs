//! Where objects come from. Now: a directory of YAML and JSON files.
//!
//! A source yields whole sets of objects, newest last, by a tokio watch channel: whoever reads late reads the newest set
//! only.

mod directory;
mod documents;
mod files;

use std::sync::Arc;

use portcullis_api::{ObjectKind, kind_of};
use serde_json::Value;

pub use directory::{DirectoryError, read_once, watch};
pub use files::{FileError, read_file};

/// Everything that a source holds at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectSet {
    /// `UpstreamCluster` documents, in the files' order.
    pub clusters: Vec<Value>,
    /// `GatewaySettings` documents, in the files' order.
    pub settings: Vec<Value>,
    /// What is wrong with files and with documents that are no object of ours.
    pub diagnoses: Vec<FileDiagnosis>,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiagnosis {
    /// The file's name without its directory.
    pub file: String,
    /// What is wrong. It holds nothing of the file's text, which may be secret.
    pub message: String,
    /// Whether the file, or a document of it, is not used as it stands. Otherwise it is a warning.
    pub refused: bool,
}

impl ObjectSet {
    fn add(&mut self, file: &str, document: &Arc<Value>) {
        let told = |message: String, refused| FileDiagnosis { file: file.to_owned(), message, refused };
        match kind_of(document) {
            ObjectKind::UpstreamCluster => self.clusters.push(document.as_ref().clone()),
            ObjectKind::GatewaySettings => self.settings.push(document.as_ref().clone()),
            ObjectKind::UnknownVersion { api_version, kind } => {
                self.diagnoses.push(told(format!("{kind} has the unknown apiVersion {api_version}"), true));
            }
            ObjectKind::Foreign { api_version, kind } => {
                let message = format!("ignored: apiVersion {api_version:?}, kind {kind:?} is no object of Portcullis");
                self.diagnoses.push(told(message, false));
            }
        }
    }
}
