//! The last keys of all sources on disk, for the next start: what is public of them, and nothing of the gateway's credentials.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portcullis_api::{KeySource, read_keys};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::super::discovery::AskedUpstream;
use super::super::state::{read_private, write_private};
use super::held::{HeldKeys, KEPT, at, since_1970};

/// The file's name in --state-dir.
const FILE: &str = "token-keys";
/// The version of its content. Others are not read.
const VERSION: u32 = 1;
/// Most bytes of keys that are kept: some ten thousand sources.
const MAX_BYTES: usize = 64 << 20;
/// Minimum pause between two writes, and its ratio to the duration of the write before it.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const PAUSE_RATIO: u32 = 10;

#[derive(Serialize, Deserialize)]
struct SavedFile {
    version: u32,
    sources: Vec<SavedKeys>,
}

/// Keys of a source, and all that they are bound to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SavedKeys {
    /// The object's name.
    pub(super) name: String,
    /// The issuer's URL; none if the servers have shown the keys.
    issuer: Option<String>,
    /// All parts of the object that the question depended on, its UID included; null for servers, which are asked with a credential.
    pub(super) asked: Value,
    /// The upstream that has shown the keys; none for issuers.
    upstream: Option<AskedUpstream>,
    keys: String,
    /// In seconds since 1970, as the next two.
    valid_until: u64,
    read: u64,
    changed: u64,
}

impl SavedKeys {
    /// The keys of a source. Of the parts that servers are asked with, nothing is kept.
    pub(super) fn new(name: &str, source: &KeySource, asked: &Value, held: &HeldKeys) -> Self {
        let (issuer, asked) = match source {
            KeySource::Servers => (None, Value::Null),
            KeySource::Issuer(url) => (Some(url.clone()), asked.clone()),
        };
        SavedKeys {
            name: name.to_owned(),
            issuer,
            asked,
            upstream: held.upstream.clone(),
            keys: held.keys.clone(),
            valid_until: held.valid_until,
            read: since_1970(held.read),
            changed: since_1970(held.changed),
        }
    }

    pub(super) fn source(&self) -> KeySource {
        self.issuer.clone().map_or(KeySource::Servers, KeySource::Issuer)
    }

    /// The keys, which end when they would have ended without a restart. `None` if they are too old, of a time that has not come yet,
    /// so that their age is not known, or no keys.
    pub(super) fn held(self, (time, now): (SystemTime, Instant)) -> Option<HeldKeys> {
        let SavedKeys { keys, upstream, valid_until, read, changed, .. } = self;
        let seconds = since_1970(time);
        if read > seconds || valid_until <= seconds || valid_until > read.saturating_add(KEPT) {
            return None;
        }
        let usable = read_keys(&keys).ok()?;
        let time = |seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        let (read, changed) = (time(read)?, time(changed)?);
        Some(HeldKeys { keys, usable, upstream, end: at(valid_until, seconds, now), valid_until, read, changed })
    }
}

/// The keys of the last run. Without a file that can be used there are none.
pub(super) fn load(directory: &Path) -> Vec<SavedKeys> {
    let path = directory.join(FILE);
    let file = path.display().to_string();
    let not_used = |why: &dyn std::fmt::Display| {
        tracing::error!(file, "the keys of tokens that were read before the start are not used: the file {why}");
        Vec::new()
    };
    match read_private(&path) {
        Ok(None) => Vec::new(),
        Ok(Some(bytes)) if bytes.len() > MAX_BYTES => not_used(&"is larger than 64 MiB"),
        Ok(Some(bytes)) => match serde_json::from_slice::<SavedFile>(&bytes) {
            Ok(SavedFile { version: VERSION, sources }) => sources,
            Ok(_) | Err(_) => not_used(&"is of another release, or not whole"),
        },
        Err(error) => not_used(&error),
    }
}

/// Takes the keys that are known, for the writer.
pub(super) type KeySaver = watch::Sender<Arc<Vec<SavedKeys>>>;

/// Starts to write what the saver gets, until it is gone: at once after a pause, then at most once a second.
pub(super) fn start(directory: PathBuf) -> KeySaver {
    let (saver, mut newest) = watch::channel(Arc::<Vec<SavedKeys>>::default());
    tokio::spawn(async move {
        while newest.changed().await.is_ok() {
            let (sources, start) = (newest.borrow_and_update().clone(), Instant::now());
            write(directory.clone(), sources).await;
            tokio::time::sleep(MIN_PAUSE.max(start.elapsed() * PAUSE_RATIO)).await;
        }
    });
    saver
}

async fn write(directory: PathBuf, sources: Arc<Vec<SavedKeys>>) {
    let shown = directory.display().to_string();
    let write = move || write_private(&directory, FILE, &encode(&sources, MAX_BYTES)?);
    let outcome = tokio::task::spawn_blocking(write).await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    if let Err(error) = outcome {
        tracing::error!(directory = shown, %error, "the keys of tokens cannot be written");
    }
}

/// The file's content, with as many sources as there is room for.
fn encode(sources: &[SavedKeys], most: usize) -> Result<Vec<u8>, serde_json::Error> {
    let empty = serde_json::to_vec(&SavedFile { version: VERSION, sources: Vec::new() })?.len();
    let mut left = most.saturating_sub(empty);
    let mut kept = Vec::new();
    for source in sources {
        // And a comma.
        let size = serde_json::to_vec(source)?.len().saturating_add(1);
        if let Some(rest) = left.checked_sub(size) {
            left = rest;
            kept.push(source.clone());
        }
    }
    if kept.len() < sources.len() {
        let missing = sources.len().saturating_sub(kept.len());
        tracing::warn!(missing, "the file of keys of tokens has no room for all sources");
    }
    serde_json::to_vec(&SavedFile { version: VERSION, sources: kept })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(name: &str, keys: &str) -> SavedKeys {
        SavedKeys {
            name: name.to_owned(),
            issuer: Some("https://issuer.example.com".to_owned()),
            asked: json!(["https://issuer.example.com", "", true, "CA", "uid"]),
            upstream: None,
            keys: keys.to_owned(),
            valid_until: 3,
            read: 1,
            changed: 1,
        }
    }

    #[tokio::test]
    async fn keys_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        assert!(load(dir.path()).is_empty());
        let servers = SavedKeys {
            issuer: None,
            asked: Value::Null,
            upstream: Some(AskedUpstream::new("place", &["192.0.2.1:6443"])),
            ..source("b", "servers' keys")
        };
        let all = vec![source("a", "keys"), servers];
        write(dir.path().to_owned(), Arc::new(all.clone())).await;
        let read = load(dir.path());
        assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&all).unwrap());
        assert_eq!(
            read.iter().map(SavedKeys::source).collect::<Vec<_>>(),
            [KeySource::Issuer("https://issuer.example.com".to_owned()), KeySource::Servers]
        );
        for bad in ["", "{", r#"{"version":2,"sources":[]}"#, r#"{"version":1,"sources":[{"name":"a"}]}"#] {
            write_private(dir.path(), FILE, bad.as_bytes()).unwrap();
            assert_eq!(load(dir.path()).len(), 0, "{bad}");
        }
    }

    #[test]
    fn file_of_keys_has_a_bound() {
        let all: Vec<SavedKeys> = (0..100).map(|number| source(&number.to_string(), &"k".repeat(1_000))).collect();
        let bytes = encode(&all, 10_000).unwrap();
        assert!((9_000..=10_000).contains(&bytes.len()), "{}", bytes.len());
        let kept: SavedFile = serde_json::from_slice(&bytes).unwrap();
        assert!(kept.sources.iter().zip(&all).all(|(kept, source)| kept.name == source.name));
        assert_eq!(encode(&all[..1], 10).unwrap().len(), encode(&[], 10).unwrap().len(), "no room for any");
    }
}
