//! How a snapshot is written: a line that says what follows, then JSON.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_translate::holds_key;
use portcullis_xds::{Resource, Snapshot};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// The first word of the file.
const MAGIC: &str = "portcullis-last-good";
/// The version of what follows. Another one is not read: the source has the truth.
const VERSION: &str = "1";

/// Why the content of a file is not used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SavedError {
    #[error("is not a last good configuration")]
    Foreign,
    #[error("has a version that this program does not know")]
    Version,
    #[error("is corrupted: its hash is not the one that it says")]
    Corrupted,
    #[error("cannot be understood")]
    Content,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    resources: Vec<SavedResource>,
}

#[derive(Serialize, Deserialize)]
struct SavedResource {
    r#type: String,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    companion: Option<(String, String)>,
    /// In base64; none if it is held elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

/// Writes a snapshot; with the keys in it only if they are asked for.
pub(super) fn encode(snapshot: &Snapshot, with_keys: bool) -> Vec<u8> {
    let saved = |(type_url, name, resource): (&str, &str, &Resource)| SavedResource {
        r#type: type_url.to_owned(),
        name: name.to_owned(),
        version: resource.version().to_owned(),
        owner: resource.owner().map(str::to_owned),
        companion: resource.companion().map(|(type_url, name)| (type_url.to_owned(), name.to_owned())),
        body: (!resource.is_held() && (with_keys || !holds_key(type_url, resource.body())))
            .then(|| STANDARD.encode(resource.body())),
    };
    let saved = Saved { resources: snapshot.resources().map(saved).collect() };
    // Strings and lists always serialise; an empty text would be refused by the reader.
    let body = serde_json::to_vec(&saved).unwrap_or_default();
    let mut bytes = format!("{MAGIC} {VERSION} {}\n", hash(&body)).into_bytes();
    bytes.extend(body);
    bytes
}

/// Reads what [`encode`] wrote.
pub(super) fn decode(bytes: &[u8]) -> Result<Snapshot, SavedError> {
    let split = bytes.iter().position(|byte| *byte == b'\n').ok_or(SavedError::Foreign)?;
    let (head, body) = bytes.split_at(split);
    let body = body.get(1..).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| SavedError::Foreign)?;
    let mut words = head.split(' ');
    if words.next() != Some(MAGIC) {
        return Err(SavedError::Foreign);
    }
    if words.next() != Some(VERSION) {
        return Err(SavedError::Version);
    }
    if words.next() != Some(hash(body).as_str()) {
        return Err(SavedError::Corrupted);
    }
    let saved: Saved = serde_json::from_slice(body).map_err(|_| SavedError::Content)?;
    let resources: Result<Vec<_>, _> = saved.resources.into_iter().map(restored).collect();
    Ok(Snapshot::new(resources?))
}

fn restored(saved: SavedResource) -> Result<(String, String, Resource), SavedError> {
    let mut resource = match saved.body {
        Some(body) => Resource::new(STANDARD.decode(body).map_err(|_| SavedError::Content)?),
        None => Resource::held(saved.version.clone()),
    };
    if resource.version() != saved.version {
        return Err(SavedError::Content);
    }
    if let Some((type_url, name)) = saved.companion {
        resource = resource.with_companion(type_url, name);
    }
    if let Some(owner) = saved.owner {
        resource = resource.owned_by(owner);
    }
    Ok((saved.r#type, saved.name, resource))
}

fn hash(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use portcullis_translate::type_urls;

    use super::*;

    fn snapshot() -> Snapshot {
        let entry = |url: String, name: &str, body: &[u8]| {
            let resource = Resource::new(body.to_vec()).owned_by("a.test").with_companion(type_urls::assignment(), "b");
            (url, name.to_owned(), resource)
        };
        Snapshot::new([
            entry(type_urls::cluster(), "c", b"cluster"),
            entry(type_urls::secret(), "s", b"\xff no secret at all, so that nobody knows what it holds: CANARY"),
        ])
    }

    #[test]
    fn what_is_written_is_read_again_and_keys_only_if_asked_for() {
        let before = snapshot();
        assert_eq!(decode(&encode(&before, true)).unwrap(), before);
        let bytes = encode(&before, false);
        let after = decode(&bytes).unwrap();
        assert_eq!(after.version(), before.version(), "an Envoy that has it all is asked for nothing");
        assert!(after.get(&type_urls::secret(), "s").unwrap().is_held());
        assert_eq!(after.get(&type_urls::cluster(), "c"), before.get(&type_urls::cluster(), "c"));
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("CANARY") && !text.contains(&STANDARD.encode("CANARY")[..6]));
        assert_eq!(encode(&after, true), encode(&before, false), "what is held elsewhere stays so");
    }

    #[test]
    fn what_is_not_whole_is_not_used() {
        let good = encode(&snapshot(), false);
        for length in 0..good.len() {
            assert!(decode(&good[..length]).is_err(), "{length}");
        }
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 1;
            assert!(decode(&bad).is_err(), "{index}");
        }
        let other = String::from_utf8(good).unwrap().replacen(" 1 ", " 2 ", 1);
        assert_eq!(decode(other.as_bytes()).unwrap_err(), SavedError::Version);
    }
}
