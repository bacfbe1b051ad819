use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use portcullis_api::{ObjectKind, kind_of, pack_policies};
use ring::digest::{SHA256, digest};
use serde_json::Value;

use crate::documents::{LocatedDocument, parse};
use crate::events::FileFingerprint;
use crate::object_set::Document;
use crate::position::Position;

/// Most bytes of a file.
pub const MAX_FILE: u64 = 16 * 1024 * 1024;

/// The state of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileState {
    /// By which it is known that the content is still the one that was read last.
    stamp: Option<FileFingerprint>,
    /// Of the content that was read last.
    hash: Option<Vec<u8>>,
    /// The last that could be read.
    pub(crate) documents: Vec<Document>,
    /// The reason why it cannot be read, and where.
    pub(crate) error: Option<(String, Option<Position>)>,
}

impl Eq for FileState {}

impl PartialEq for FileState {
    /// Another file with the same content is no news.
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.documents == other.documents && self.error == other.error
    }
}

impl FileState {
    /// Whether the content is certainly that of the file that is there now.
    pub(crate) fn is_at(&self, now: &FileFingerprint) -> bool {
        self.stamp.as_ref().is_some_and(|stamp| stamp.is_still(now))
    }

    /// The paths of the files that documents refer to, one for each of them.
    pub(crate) fn referenced_files(&self) -> impl Iterator<Item = &String> {
        self.documents.iter().flat_map(|document| &document.referenced_files)
    }

    /// The state of the file at a path now: this one if it is still there, or is being written.
    pub(crate) fn looked_at(self: Arc<Self>, path: &Path, writing: &BTreeSet<PathBuf>) -> Arc<Self> {
        let is_left = writing.contains(path) || FileFingerprint::of_path(path).is_some_and(|now| self.is_at(&now));
        if is_left { self } else { reread_file(&self, path) }
    }
}

/// Reads a file again. A file that cannot be read keeps its documents.
fn reread_file(before: &Arc<FileState>, path: &Path) -> Arc<FileState> {
    let kept = FileState { stamp: None, ..before.as_ref().clone() };
    let (stamp, bytes) = match read_stamped(path) {
        Ok(read) => read,
        Err(error) => {
            return Arc::new(FileState { hash: None, error: Some((format!("cannot be read: {error}"), None)), ..kept });
        }
    };
    let hash = Some(digest(&SHA256, &bytes).as_ref().to_vec());
    if hash == before.hash {
        return Arc::new(FileState { stamp, ..kept });
    }
    Arc::new(match parse(&bytes) {
        Ok(documents) => {
            let documents = documents.into_iter().map(|located| Document::from(as_written(located)));
            FileState { stamp, hash, documents: documents.collect(), error: None }
        }
        Err(error) => FileState { stamp, hash, error: Some((error.to_string(), error.at())), ..kept },
    })
}

/// Takes out what only an API server can vouch for: in a file anybody could write that an object is older than others, or
/// had a name before them. Policies are packed, as they are most of what is kept.
fn as_written(mut located: LocatedDocument) -> LocatedDocument {
    if let Some(metadata) = located.value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
    }
    if let Some(document) = located.value.as_object_mut() {
        document.remove("status");
    }
    if matches!(kind_of(&located.value), ObjectKind::UpstreamCluster) {
        pack_policies(&mut located.value);
    }
    located
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_stamped(path).map(|(_, bytes)| bytes)
}

fn read_stamped(path: &Path) -> io::Result<(Option<FileFingerprint>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    // Taken before the content: what changes meanwhile is seen the next time.
    let stamp = file.metadata().ok().map(|found| FileFingerprint::read_now(&found));
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).map_or(true, |length| length > MAX_FILE) {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Ok((stamp, bytes))
}
