//! How a snapshot is written: a line that says what follows, then JSON.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis_filter_config::{CONFIG_VERSION, hex};
use portcullis_translate::holds_key;
use portcullis_xds::{Part, Resource, Snapshot};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// The first word of the file.
const MAGIC: &str = "portcullis-last-good";
/// The version of what follows. Others are not read: the source has the truth.
const VERSION: &str = "3";

/// Why the content of a file is not used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SavedError {
    #[error("is not a last good configuration")]
    Foreign,
    #[error("has a version that this program does not know")]
    Version,
    #[error("is of a release with another version of the filter's configuration")]
    ConfigVersion,
    #[error("is corrupted: its hash does not match")]
    Corrupted,
    #[error("cannot be read as a snapshot")]
    Content,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    /// The version of the filter's configuration in the resources. Gateways of this release read no other.
    config_version: u32,
    resources: Vec<SavedResource>,
    /// The same for Envoys with other builds of the filter, by view.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    views: BTreeMap<String, Vec<SavedResource>>,
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
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    on_demand: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    optional: bool,
    /// In base64; none if it is held elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// In a view: the resource is the same as in the module's snapshot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    common: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<SavedPart>>,
}

#[derive(Serialize, Deserialize)]
struct SavedPart {
    owner: String,
    start: usize,
    end: usize,
    /// In base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instead: Option<String>,
}

/// Writes a snapshot; with the keys in it only if they are asked for.
pub(super) fn encode(snapshot: &Snapshot, with_keys: bool) -> Vec<u8> {
    let resources = snapshot.resources().map(|(type_url, name, one)| saved(type_url, name, one, with_keys)).collect();
    let of_view = |view: &Snapshot| {
        let one = |(type_url, name, resource): (&str, &str, &Resource)| {
            if snapshot.get(type_url, name) == Some(resource) {
                return common(type_url, name, resource);
            }
            saved(type_url, name, resource, with_keys)
        };
        view.resources().map(one).collect()
    };
    let views = snapshot.views().map(|(name, view)| (name.to_owned(), of_view(view))).collect();
    // Strings and lists always serialise; an empty text would be refused by the reader.
    let body = serde_json::to_vec(&Saved { config_version: CONFIG_VERSION, resources, views }).unwrap_or_default();
    let mut bytes = format!("{MAGIC} {VERSION} {}\n", hash(&body)).into_bytes();
    bytes.extend(body);
    bytes
}

/// A resource that is the same as in the module's snapshot: its name is enough.
fn common(type_url: &str, name: &str, resource: &Resource) -> SavedResource {
    SavedResource {
        r#type: type_url.to_owned(),
        name: name.to_owned(),
        version: resource.version().to_owned(),
        owner: None,
        companion: None,
        on_demand: false,
        optional: false,
        body: None,
        common: true,
        parts: None,
    }
}

fn saved(type_url: &str, name: &str, resource: &Resource, with_keys: bool) -> SavedResource {
    let is_kept = !resource.is_version_only() && (with_keys || !holds_key(type_url, resource.body()));
    let part = |part: Part| SavedPart {
        owner: part.owner,
        start: part.range.start,
        end: part.range.end,
        instead: part.fallback.map(|fallback| STANDARD.encode(fallback)),
    };
    SavedResource {
        owner: resource.owner().map(str::to_owned),
        companion: resource.companion().map(|(type_url, name)| (type_url.to_owned(), name.to_owned())),
        body: is_kept.then(|| STANDARD.encode(resource.body())),
        on_demand: resource.is_on_demand(),
        optional: resource.is_optional(),
        common: false,
        parts: resource.parts().filter(|_| is_kept).map(|parts| parts.into_iter().map(part).collect()),
        ..common(type_url, name, resource)
    }
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
    if saved.config_version != CONFIG_VERSION {
        return Err(SavedError::ConfigVersion);
    }
    let resources: Result<Vec<_>, _> = saved.resources.into_iter().map(restored).collect();
    let snapshot = Snapshot::new(resources?);
    let view = |(name, resources): (String, Vec<SavedResource>)| {
        let one = |saved: SavedResource| {
            if !saved.common {
                return restored(saved);
            }
            let known = snapshot.get(&saved.r#type, &saved.name).filter(|known| known.version() == saved.version);
            let known = known.cloned().ok_or(SavedError::Content)?;
            Ok((saved.r#type, saved.name, known))
        };
        let resources: Result<Vec<_>, SavedError> = resources.into_iter().map(one).collect();
        Ok((name, Snapshot::new(resources?)))
    };
    let views: Result<Vec<_>, SavedError> = saved.views.into_iter().map(view).collect();
    Ok(snapshot.with_views(views?))
}

fn restored(saved: SavedResource) -> Result<(String, String, Resource), SavedError> {
    let decoded = |text: String| STANDARD.decode(text).map_err(|_| SavedError::Content);
    let mut resource = match saved.body {
        Some(body) => Resource::new(decoded(body)?),
        None => Resource::version_only(saved.version.clone()),
    };
    if resource.version() != saved.version {
        return Err(SavedError::Content);
    }
    if let Some(parts) = saved.parts {
        let part = |part: SavedPart| {
            let fallback = part.instead.map(decoded).transpose()?.map(Into::into);
            Ok(Part { owner: part.owner, range: part.start..part.end, fallback })
        };
        let parts: Result<Vec<_>, SavedError> = parts.into_iter().map(part).collect();
        resource = resource.with_parts(parts?);
    }
    if let Some((type_url, name)) = saved.companion {
        resource = resource.with_companion(type_url, name);
    }
    if saved.on_demand {
        resource = resource.on_demand();
    }
    if saved.optional {
        resource = resource.optional();
    }
    if let Some(owner) = saved.owner {
        resource = resource.owned_by(owner);
    }
    Ok((saved.r#type, saved.name, resource))
}

fn hash(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use portcullis_translate::type_urls;
    use portcullis_xds::View;

    use super::*;

    fn snapshot() -> Snapshot {
        let entry = |url: String, name: &str, body: &[u8]| {
            let resource = Resource::new(body.to_vec()).owned_by("a.test").with_companion(type_urls::assignment(), "b");
            (url, name.to_owned(), resource)
        };
        let secret = b"\xff no secret at all, so that nobody knows what it holds: CANARY";
        let cluster = entry(type_urls::cluster(), "c", b"cluster");
        let part = Part { owner: "a.test".to_owned(), range: 4..8, fallback: Some("none".into()) };
        let listener = Resource::new(b"basepart".to_vec()).with_parts([part]).optional();
        let listener = (type_urls::listener(), "l".to_owned(), listener);
        let base = Snapshot::new([cluster.clone(), listener.clone(), entry(type_urls::secret(), "s", secret)]);
        let other = entry(type_urls::secret(), "s", b"\xff another CANARY");
        let view = Snapshot::new([cluster, listener, entry(type_urls::assignment(), "r", b"older words"), other]);
        base.with_views([("wasm".to_owned(), view)])
    }

    #[test]
    fn file_is_read_as_written_and_has_keys_only_if_asked_for() {
        let before = snapshot();
        assert_eq!(decode(&encode(&before, true)).unwrap(), before);
        let bytes = encode(&before, false);
        let after = decode(&bytes).unwrap();
        assert_eq!(after.version(), before.version(), "an Envoy that has it all is asked for nothing");
        assert!(after.get(&type_urls::secret(), "s").unwrap().is_version_only());
        assert_eq!(after.get(&type_urls::cluster(), "c"), before.get(&type_urls::cluster(), "c"));
        let view = View(Some("wasm".to_owned()));
        let (old, new) = (before.view(&view).unwrap(), after.view(&view).unwrap());
        assert_eq!(new.version(), old.version());
        for (url, name, resource) in old.resources().filter(|(url, ..)| **url != type_urls::secret()) {
            assert_eq!(new.get(url, name), Some(resource), "{url} {name}");
        }
        assert!(new.get(&type_urls::secret(), "s").unwrap().is_version_only());
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("CANARY") && !text.contains(&STANDARD.encode("CANARY")[..6]));
        assert_eq!(encode(&after, true), encode(&before, false), "what is held elsewhere stays so");
    }

    #[test]
    fn file_that_is_not_whole_is_not_used() {
        let good = encode(&snapshot(), false);
        for length in 0..good.len() {
            assert!(decode(&good[..length]).is_err(), "{length}");
        }
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 1;
            assert!(decode(&bad).is_err(), "{index}");
        }
        let other = String::from_utf8(good).unwrap().replacen(" 3 ", " 4 ", 1);
        assert_eq!(decode(other.as_bytes()).unwrap_err(), SavedError::Version);
    }

    #[test]
    fn file_of_another_configuration_version_is_not_used() {
        let saved = Saved { config_version: CONFIG_VERSION - 1, resources: Vec::new(), views: BTreeMap::new() };
        let body = serde_json::to_vec(&saved).unwrap();
        let mut bytes = format!("{MAGIC} {VERSION} {}\n", hash(&body)).into_bytes();
        bytes.extend(body);
        assert_eq!(decode(&bytes).unwrap_err(), SavedError::ConfigVersion);
    }
}
