//! The last keys of all sources on disk, for the next start: what is public of them, and nothing of the gateway's credentials.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portcullis_api::{KeySource, read_keys};
use portcullis_filter_config::hex;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::discovery::AskedUpstream;
use super::super::state::read_private;
use super::held::{HeldKeys, KEPT, at, since_1970};

/// The file's name in --state-dir.
pub(super) const FILE: &str = "token-keys";
/// The version of its content. Others are not read.
const VERSION: u32 = 2;
/// Most bytes of keys that are kept: some ten thousand sources.
pub(super) const MAX_BYTES: usize = 64 << 20;

#[derive(Deserialize)]
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
    /// The SHA-256 of all parts of the object that the question depended on, its UID included; none for servers, which are asked with a
    /// credential.
    asked: Option<String>,
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
            KeySource::Servers => (None, None),
            KeySource::Issuer(url) => (Some(url.clone()), Some(hash_of(asked))),
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

    /// Whether they are the answer of an issuer to this question.
    pub(super) fn is_answer_to(&self, asked: &Value) -> bool {
        self.asked.as_ref() == Some(&hash_of(asked))
    }

    pub(super) fn source(&self) -> KeySource {
        self.issuer.clone().map_or(KeySource::Servers, KeySource::Issuer)
    }

    /// The keys, which end when they would have ended without a restart. `None` if they are too old, of a time that has not come yet,
    /// so that their age is not known, or no keys.
    pub(super) fn held(&self, (time, now): (SystemTime, Instant)) -> Option<HeldKeys> {
        let SavedKeys { valid_until, read, changed, .. } = *self;
        let seconds = since_1970(time);
        let is_read_before = changed <= read && read <= seconds;
        if !is_read_before || valid_until <= seconds || valid_until > read.saturating_add(KEPT) {
            return None;
        }
        let (keys, upstream) = (self.keys.clone(), self.upstream.clone());
        let usable = read_keys(&keys).ok()?;
        let time = |seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        let (read, changed) = (time(read)?, time(changed)?);
        Some(HeldKeys { keys, usable, upstream, end: at(valid_until, seconds, now), valid_until, read, changed })
    }
}

fn hash_of(asked: &Value) -> String {
    hex(digest(&SHA256, asked.to_string().as_bytes()).as_ref())
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

/// The file's content, with as many sources as there is room for, the smallest first: no object takes the room of many.
pub(super) fn encode(sources: &[Arc<SavedKeys>], most: usize) -> Result<Vec<u8>, serde_json::Error> {
    let size = |source: &Arc<SavedKeys>| source.keys.len().saturating_add(source.name.len());
    let mut smallest_first: Vec<&Arc<SavedKeys>> = sources.iter().collect();
    smallest_first.sort_by_key(|source| size(source));
    let mut content = format!(r#"{{"version":{VERSION},"sources":["#).into_bytes();
    for (written, source) in smallest_first.into_iter().enumerate() {
        let encoded = serde_json::to_vec(source.as_ref())?;
        // A comma before it, and the end behind it.
        if content.len().saturating_add(encoded.len()).saturating_add(3) > most {
            let missing = sources.len().saturating_sub(written);
            tracing::warn!(missing, "the file of keys of tokens has no room for all sources");
            break;
        }
        if written > 0 {
            content.push(b',');
        }
        content.extend_from_slice(&encoded);
    }
    content.extend_from_slice(b"]}");
    Ok(content)
}

#[cfg(test)]
pub(super) mod testing {
    use serde_json::json;

    use super::*;

    /// Keys of an issuer.
    pub(in super::super) fn source(name: &str, keys: &str) -> SavedKeys {
        SavedKeys {
            name: name.to_owned(),
            issuer: Some("https://issuer.example.com".to_owned()),
            asked: Some(hash_of(&json!(["https://issuer.example.com", "", true, "CA", "uid"]))),
            upstream: None,
            keys: keys.to_owned(),
            valid_until: 3,
            read: 1,
            changed: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::state::write_private;
    use super::testing::source;
    use super::*;

    #[test]
    fn keys_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        assert!(load(dir.path()).is_empty());
        let servers = SavedKeys {
            issuer: None,
            asked: None,
            upstream: Some(AskedUpstream::new("place", &["192.0.2.1:6443"])),
            ..source("b", "servers' keys")
        };
        let all = [source("a", "keys"), servers].map(Arc::new);
        write_private(dir.path(), FILE, &encode(&all, MAX_BYTES).unwrap()).unwrap();
        let read = load(dir.path());
        assert_eq!(
            serde_json::to_value(&read).unwrap(),
            serde_json::to_value(all.map(|one| SavedKeys::clone(&one))).unwrap()
        );
        assert_eq!(
            read.iter().map(SavedKeys::source).collect::<Vec<_>>(),
            [KeySource::Issuer("https://issuer.example.com".to_owned()), KeySource::Servers]
        );
        for bad in ["", "{", r#"{"version":1,"sources":[]}"#, r#"{"version":2,"sources":[{"name":"a"}]}"#] {
            write_private(dir.path(), FILE, bad.as_bytes()).unwrap();
            assert_eq!(load(dir.path()).len(), 0, "{bad}");
        }
    }

    #[test]
    fn file_of_keys_has_a_bound_and_one_source_does_not_fill_it() {
        let mut all: Vec<_> =
            (0..100).map(|number| Arc::new(source(&number.to_string(), &"k".repeat(1_000)))).collect();
        all.insert(0, Arc::new(source("large", &"k".repeat(9_000))));
        let bytes = encode(&all, 10_000).unwrap();
        assert!((8_500..=10_000).contains(&bytes.len()), "{}", bytes.len());
        let kept: SavedFile = serde_json::from_slice(&bytes).unwrap();
        assert!(kept.sources.len() > 5 && kept.sources.iter().all(|one| one.name != "large"));
        assert_eq!(encode(&all[..1], 10).unwrap(), encode(&[], 10).unwrap(), "no room for any");
    }

    /// Of servers, which are asked with a credential, the question is left out.
    #[test]
    fn question_to_servers_is_not_in_the_file() {
        let clock = (UNIX_EPOCH + Duration::from_secs(100), Instant::now());
        let upstream = AskedUpstream::new("place", &["192.0.2.1:6443"]);
        let held = HeldKeys::new("keys".to_owned(), Some(upstream), None, clock);
        let asked = json!([{"bearerToken": "the-token"}]);
        for source in [KeySource::Servers, KeySource::Issuer("https://issuer.example.com".to_owned())] {
            let saved = Arc::new(SavedKeys::new("a", &source, &asked, &held));
            let bytes = encode(&[saved], MAX_BYTES).unwrap();
            assert!(!String::from_utf8(bytes).unwrap().contains("the-token"));
        }
    }
}
