//! `portcullis backup` and `portcullis restore`: the objects of a store, with their status.

mod arguments;
mod objects;
mod read;
mod write;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use portcullis_sources::ConnectError;

pub(crate) use arguments::{Backup, Restore};

use crate::runtime::{RuntimeError, Threads, runtime};

/// The step that failed.
#[derive(Debug, thiserror::Error)]
enum BackupError {
    #[error("cannot reach the store")]
    Connect(#[from] ConnectError),
    #[error("cannot list {0}")]
    List(&'static str, #[source] Box<kube::Error>),
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("{} is no backup: it has to be a List of Secrets, GatewaySettings, Instances and UpstreamClusters", .0.display())]
    Shape(PathBuf),
    #[error("cannot restore {0}")]
    Restore(String, #[source] Box<kube::Error>),
    #[error("cannot write JSON")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

pub(crate) fn back_up(arguments: &Backup) -> ExitCode {
    finish(runtime(Threads::Current).map_err(Into::into).and_then(|runtime| runtime.block_on(read::back_up(arguments))))
}

pub(crate) fn restore(arguments: &Restore) -> ExitCode {
    finish(
        runtime(Threads::Current).map_err(Into::into).and_then(|runtime| runtime.block_on(write::restore(arguments))),
    )
}

fn finish(outcome: Result<String, BackupError>) -> ExitCode {
    match outcome {
        Ok(text) => crate::print(&text),
        Err(error) => crate::fail(&error),
    }
}
