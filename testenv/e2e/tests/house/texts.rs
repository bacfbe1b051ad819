use std::fs;
use std::path::{Path, PathBuf};

use portcullis_harness::project_root;

/// The files below a path of the project that have one of these endings; a path of a file is that file.
pub(crate) fn files(path: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&project_root().join(path), endings, &mut found);
    found.sort();
    found
}

fn collect(path: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), endings, found);
        }
    } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
        found.push(path.to_owned());
    }
}
