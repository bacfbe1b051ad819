use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::documents::parse;
use crate::file_state::read;
use crate::listing::list;
use crate::object_set::{Document, FileDiagnosis, ObjectSet};

/// Something to read objects from, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file, whatever its name, or a directory of *.yaml, *.yml and *.json files.
    Path(PathBuf),
    /// The same, and the directories below; those whose names begin with a dot are left out, links are not followed.
    Tree(PathBuf),
    /// A text that was read already, with its name in diagnoses.
    Text {
        /// The name.
        name: String,
        /// At most [`crate::MAX_FILE`] of them.
        bytes: Vec<u8>,
    },
}

/// Why an input cannot be read. The caller has to act; trying again helps only if the cause goes.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It is not there, or may not be read, or is too large.
    #[error("cannot read {path}")]
    Read {
        /// The path that was given.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Reads every input once, a file that is named twice only once. Blocks.
pub fn read_inputs(inputs: &[Input]) -> Result<ObjectSet, InputError> {
    let mut set = ObjectSet::default();
    let mut seen = BTreeSet::new();
    for input in inputs {
        match input {
            Input::Text { name, bytes } => add(&mut set, name, bytes),
            Input::Path(path) | Input::Tree(path) => {
                for file in files(path, matches!(input, Input::Tree(_)))? {
                    if seen.insert(std::fs::canonicalize(&file).unwrap_or_else(|_| file.clone())) {
                        let bytes = read(&file).map_err(|source| InputError::Read { path: file.clone(), source })?;
                        add(&mut set, &file.display().to_string(), &bytes);
                    }
                }
            }
        }
    }
    Ok(set)
}

/// The Secrets among the documents of all inputs. Their values hold keys. A file that cannot be parsed has none. Blocks.
pub fn read_secrets(inputs: &[Input]) -> Result<Vec<Value>, InputError> {
    let mut secrets = Vec::new();
    let mut add = |bytes: &[u8]| {
        let values = parse(bytes).into_iter().flatten().map(|located| located.value);
        secrets.extend(values.filter(|value| {
            let has = |field: &str, expected: &str| value.get(field).and_then(Value::as_str) == Some(expected);
            has("apiVersion", "v1") && has("kind", "Secret")
        }));
    };
    for input in inputs {
        match input {
            Input::Text { bytes, .. } => add(bytes),
            Input::Path(path) | Input::Tree(path) => {
                for file in files(path, matches!(input, Input::Tree(_)))? {
                    add(&read(&file).map_err(|source| InputError::Read { path: file.clone(), source })?);
                }
            }
        }
    }
    Ok(secrets)
}

fn files(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, InputError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let refuse = |source| InputError::Read { path: path.to_owned(), source };
    let mut files: Vec<PathBuf> = list(path).map_err(refuse)?.into_iter().map(|name| path.join(name)).collect();
    if recursive {
        for directory in directories(path).map_err(refuse)? {
            files.extend(self::files(&directory, recursive)?);
        }
    }
    Ok(files)
}

/// The directories in one, sorted. A link could lead anywhere, and back here.
fn directories(path: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && !entry.file_name().as_encoded_bytes().starts_with(b".") {
            found.insert(entry.path());
        }
    }
    Ok(found)
}

fn add(set: &mut ObjectSet, file: &str, bytes: &[u8]) {
    match parse(bytes) {
        Ok(documents) => {
            let file = Arc::from(file);
            for located in documents {
                set.add(&file, &Document::from(located));
            }
        }
        Err(error) => {
            let (at, message) = (error.at(), error.to_string());
            set.diagnoses.push(FileDiagnosis { file: file.to_owned(), at, message, refused: true });
        }
    }
}
