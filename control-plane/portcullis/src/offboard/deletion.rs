use std::fs;
use std::io;
use std::path::PathBuf;

use serde_json::Value;

use crate::onboard::{ClusterApi, OnboardError, foreign_managers};

/// Something to delete.
pub(super) enum Deletion {
    Object {
        api: ClusterApi,
        path: String,
        uid: String,
        shown: String,
    },
    File(PathBuf),
    /// A directory that is empty then.
    Directory(PathBuf),
}

/// The outcome of the search: objects to delete, and others that stay.
#[derive(Default)]
pub(super) struct Found {
    pub(super) deletions: Vec<Deletion>,
    /// Each with the reason.
    pub(super) left: Vec<String>,
}

impl Found {
    /// Adds an object that is of `portcullis onboard` alone, and names another; whether it was added.
    pub(super) fn add(&mut self, api: &ClusterApi, path: String, object: &Value) -> bool {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let namespace = text("/metadata/namespace");
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let shown = format!("{} {place}{} in {}", kind_of_path(&path), text("/metadata/name"), api.side);
        let others = foreign_managers(object);
        if others.is_empty() {
            let uid = text("/metadata/uid").to_owned();
            self.deletions.push(Deletion::Object { api: api.clone(), path, uid, shown });
        } else {
            self.left.push(format!("{shown}: {}", others.join(", ")));
        }
        others.is_empty()
    }

    pub(super) fn add_file(&mut self, path: PathBuf) {
        if path.is_dir() {
            self.deletions.push(Deletion::Directory(path));
        } else if path.exists() {
            self.deletions.push(Deletion::File(path));
        }
    }
}

/// The kind, as its collection names it: objects of a list have none.
fn kind_of_path(path: &str) -> &str {
    path.rsplit('/').nth(1).unwrap_or_default()
}

impl Deletion {
    pub(super) fn shown(&self) -> String {
        match self {
            Deletion::Object { shown, .. } => shown.clone(),
            Deletion::File(path) | Deletion::Directory(path) => path.display().to_string(),
        }
    }

    pub(super) async fn run(&self) -> Result<(), OnboardError> {
        match self {
            Deletion::Object { api, path, uid, shown } => {
                api.delete(path, uid).await.map_err(api.failed(format!("deleting {shown}"))).map(drop)
            }
            Deletion::File(path) => gone(fs::remove_file(path), path),
            Deletion::Directory(path) => match fs::remove_dir(path) {
                // Files of others keep it.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                other => gone(other, path),
            },
        }
    }
}

fn gone(outcome: io::Result<()>, path: &std::path::Path) -> Result<(), OnboardError> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(OnboardError::Write(path.to_owned(), error)),
        _ => Ok(()),
    }
}
