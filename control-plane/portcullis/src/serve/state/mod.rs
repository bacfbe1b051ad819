//! The last good configuration, kept on disk: a control plane that starts without its source serves the same.
//!
//! Keys and tokens are left out unless asked for. Of a resource that holds one its name and version are kept: an Envoy that
//! has it keeps it, and one that has not gets it when the source is back.

mod base64_pieces;
mod digested;
mod file;
mod format;
mod state_writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use portcullis_translate::{Diagnosis, Reason, Version};
use portcullis_xds::Snapshot;

use super::gateway_views::served_version;
use super::instance_views::GatewayOwners;
pub(super) use file::{read as read_private, write as write_private};
use format::SavedError;
pub(super) use state_writer::{SavedState, StateSender, StateWriter};

/// The file's name in --state-dir.
const FILE: &str = "last-good";

/// The file of the last good configuration.
#[derive(Debug, Args)]
pub(crate) struct StateArguments {
    /// Keep what is served in a file of this directory (mode 0600), and serve it after a restart for as long as the source
    /// cannot be read. The directory is made if it is not there.
    #[arg(long, env = "PORTCULLIS_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Keep keys and tokens in the file, too. Without them an Envoy that starts while the source cannot be read serves no
    /// cluster; those that run go on.
    #[arg(long, env = "PORTCULLIS_STATE_SECRETS", requires = "state_dir")]
    pub(crate) state_secrets: bool,
}

/// Why a kept configuration is not used. The operator has to look at the file.
#[derive(Debug, thiserror::Error)]
pub(super) enum StateError {
    #[error("cannot be read: {0}")]
    Read(#[source] std::io::Error),
    #[error("is not a regular file")]
    NotPlain,
    #[error("belongs to another user")]
    Owner,
    #[error("may be read or written by others than its owner (mode {0:o}, must be 600)")]
    Mode(u32),
    #[error("is larger than 1 GiB")]
    Size,
    #[error(transparent)]
    Saved(#[from] SavedError),
}

/// The snapshot that was served before this program started.
#[derive(Debug, Default)]
pub(super) struct LastGood {
    pub(super) snapshot: Option<Arc<Snapshot>>,
    /// The owners of Gateways with it.
    pub(super) gateway_owners: GatewayOwners,
    diagnosis: Option<Arc<Diagnosis>>,
    path: String,
}

impl LastGood {
    /// Loads the file. A file that cannot be used leads to a diagnosis.
    pub(super) fn load(directory: &Path) -> Self {
        let path = directory.join(FILE);
        let name = path.display().to_string();
        match load(&path) {
            Ok(None) => Self { path: name, ..Self::default() },
            Ok(Some((snapshot, gateway_owners))) => {
                let warning = "the source has not been read since the start: what was served before is served still";
                tracing::info!(
                    file = name,
                    snapshot = served_version(&snapshot),
                    "the last good configuration is there"
                );
                Self {
                    snapshot: Some(Arc::new(snapshot)),
                    gateway_owners,
                    diagnosis: Some(Arc::new(diagnosis(&name, None, warning))),
                    path: name,
                }
            }
            Err(error) => {
                tracing::error!(file = name, "the last good configuration is not used: it {error}");
                let message = format!("the last good configuration is not used: it {error}");
                Self { diagnosis: Some(Arc::new(diagnosis(&name, Some(&message), ""))), path: name, ..Self::default() }
            }
        }
    }

    /// The diagnosis of the file, until the source has been read.
    pub(super) fn diagnoses(&self) -> Vec<Arc<Diagnosis>> {
        self.diagnosis.iter().cloned().collect()
    }

    /// The diagnosis of a source without any object.
    pub(super) fn diagnosis_of_empty_source(&self) -> Diagnosis {
        let message = "the source holds no object, which is taken for a source that is not there yet: what was served \
                       before is served still; GatewaySettings alone would serve nothing";
        diagnosis(&self.path, Some(message), "")
    }
}

fn load(path: &Path) -> Result<Option<(Snapshot, GatewayOwners)>, StateError> {
    file::read(path)?.map(|bytes| format::decode(&bytes)).transpose().map_err(StateError::from)
}

fn diagnosis(name: &str, refused: Option<&str>, warning: &str) -> Diagnosis {
    Diagnosis {
        kind: "File".to_owned(),
        name: name.to_owned(),
        at: None,
        accepted: refused.is_none(),
        reason: if refused.is_none() { Reason::Accepted } else { Reason::Invalid },
        message: refused.unwrap_or_default().to_owned(),
        warnings: if warning.is_empty() { Vec::new() } else { vec![warning.to_owned()] },
        problems: Vec::new(),
        cautions: Vec::new(),
        shadow: None,
        names: Vec::new(),
        version: Version::default(),
    }
}
