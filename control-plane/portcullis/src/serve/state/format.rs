//! How a snapshot is written: a line that says what follows, then JSON.
//!
//! It is written resource by resource: with ten thousand clusters the text has hundreds of MiB, which are never in memory.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use portcullis_filter_config::{CONFIG_VERSION, hex};
use portcullis_translate::holds_key;
use portcullis_xds::{Part, Resource, Snapshot};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::instance_views::GatewayOwners;
use super::base64_pieces::Base64Pieces;
use super::digested::Digested;

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

/// Everything, with lists `L` of [`SavedResource`]s.
#[derive(Serialize, Deserialize)]
struct Saved<L> {
    /// The version of the filter's configuration in the resources. Gateways of this release read no other.
    config_version: u32,
    resources: L,
    /// The same for Envoys with other builds of the filter, by view.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    views: BTreeMap<String, L>,
    /// Releases before this one have none; those of another form are not used.
    #[serde(default, deserialize_with = "known_owners", skip_serializing_if = "GatewayOwners::is_empty")]
    gateway_owners: GatewayOwners,
}

fn known_owners<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GatewayOwners, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// The resources as they are read.
type SavedResources = Vec<SavedResource<String>>;

/// The resources as they are written.
struct WrittenResources<'a> {
    resources: &'a Snapshot,
    /// Of a view: the module's snapshot.
    common: Option<&'a Snapshot>,
    with_keys: bool,
}

#[derive(Serialize, Deserialize)]
struct SavedResource<B> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<B>,
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

impl Serialize for WrittenResources<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let one = |(type_url, name, resource): (&str, &str, &Resource)| {
            if self.common.and_then(|common| common.get(type_url, name)) == Some(resource) {
                return common(type_url, name, resource);
            }
            saved(type_url, name, resource, self.with_keys)
        };
        serializer.collect_seq(self.resources.resources().map(one))
    }
}

/// Writes a snapshot; with the keys in it only if they are asked for. The file is whole when this returns: its first line holds the
/// hash of all that follows, which is known last.
pub(super) fn write(
    file: &mut (impl Write + Seek),
    (snapshot, gateway_owners): (&Snapshot, &GatewayOwners),
    with_keys: bool,
) -> io::Result<()> {
    let resources = |resources, common| WrittenResources { resources, common, with_keys };
    let views = snapshot.views().map(|(name, view)| (name.to_owned(), resources(view, Some(snapshot))));
    let saved = Saved {
        config_version: CONFIG_VERSION,
        resources: resources(snapshot, None),
        views: views.collect(),
        gateway_owners: gateway_owners.clone(),
    };
    // Of the same length as the one that takes its place.
    file.write_all(first_line(&hash(&[])).as_bytes())?;
    let mut body = BufWriter::with_capacity(BUFFER, Digested::new(&mut *file));
    serde_json::to_writer(&mut body, &saved)?;
    let hash = body.into_inner().map_err(io::IntoInnerError::into_error)?.hash();
    file.seek(SeekFrom::Start(0))?;
    file.write_all(first_line(&hash).as_bytes())
}

/// Bytes that are written at once.
const BUFFER: usize = 64 * 1024;

/// The line in front of the JSON. All have the same length.
fn first_line(hash: &str) -> String {
    format!("{MAGIC} {VERSION} {hash}\n")
}

/// A resource that is the same as in the module's snapshot: its name is enough.
fn common(type_url: &str, name: &str, resource: &Resource) -> SavedResource<Base64Pieces> {
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

fn saved(type_url: &str, name: &str, resource: &Resource, with_keys: bool) -> SavedResource<Base64Pieces> {
    let body = Some(resource.pieces()).filter(|pieces| {
        !resource.is_version_only() && (with_keys || !pieces.iter().any(|piece| holds_key(type_url, piece)))
    });
    SavedResource {
        owner: resource.owner().map(str::to_owned),
        companion: resource.companion().map(|(type_url, name)| (type_url.to_owned(), name.to_string())),
        parts: resource.parts().zip(body.as_ref()).map(|(parts, body)| saved_parts(parts, body)),
        body: body.map(Base64Pieces),
        on_demand: resource.is_on_demand(),
        optional: resource.is_optional(),
        common: false,
        ..common(type_url, name, resource)
    }
}

/// `pieces`: what is in front of the parts, and the parts.
fn saved_parts(parts: impl Iterator<Item = Part>, pieces: &[Bytes]) -> Vec<SavedPart> {
    let length = |pieces: &[Bytes]| pieces.iter().map(Bytes::len).sum::<usize>();
    let parts: Vec<Part> = parts.collect();
    let mut end = length(pieces).saturating_sub(parts.iter().map(|part| length(&part.body)).sum());
    let part = |part: Part| {
        let start = end;
        end += length(&part.body);
        let instead = part.fallback.map(|fallback| STANDARD.encode(fallback));
        SavedPart { owner: part.owner.to_string(), start, end, instead }
    };
    parts.into_iter().map(part).collect()
}

/// Reads what [`write`] wrote.
pub(super) fn decode(bytes: &[u8]) -> Result<(Snapshot, GatewayOwners), SavedError> {
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
    let saved: Saved<SavedResources> = serde_json::from_slice(body).map_err(|_| SavedError::Content)?;
    if saved.config_version != CONFIG_VERSION {
        return Err(SavedError::ConfigVersion);
    }
    let resources: Result<Vec<_>, _> = saved.resources.into_iter().map(restored).collect();
    let snapshot = Snapshot::new(resources?);
    let view = |(name, resources): (String, SavedResources)| {
        let one = |saved: SavedResource<String>| {
            if !saved.common {
                return restored(saved);
            }
            let known = snapshot.get(&saved.r#type, &saved.name).filter(|known| is_saved(known, &saved.version));
            let known = known.cloned().ok_or(SavedError::Content)?;
            Ok((saved.r#type, saved.name, known))
        };
        let resources: Result<Vec<_>, SavedError> = resources.into_iter().map(one).collect();
        Ok((name, Snapshot::new(resources?)))
    };
    let views: Result<Vec<_>, SavedError> = saved.views.into_iter().map(view).collect();
    Ok((snapshot.with_views(views?), saved.gateway_owners))
}

/// Whether a resource has the version that was saved. Releases before this one computed that of a resource with parts otherwise.
fn is_saved(resource: &Resource, version: &str) -> bool {
    resource.parts().is_some() || resource.version() == version
}

fn restored(saved: SavedResource<String>) -> Result<(String, String, Resource), SavedError> {
    let mut resource = match (saved.body.map(decoded).transpose()?, saved.parts) {
        (None, _) => Resource::version_only(saved.version.clone()),
        (Some(body), None) => Resource::new(body),
        (Some(body), Some(parts)) => divided(&body, parts)?,
    };
    if !is_saved(&resource, &saved.version) {
        return Err(SavedError::Content);
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

fn decoded(text: String) -> Result<Bytes, SavedError> {
    STANDARD.decode(text).map(Bytes::from).map_err(|_| SavedError::Content)
}

/// A resource of these bytes, the last of which are parts.
fn divided(body: &Bytes, parts: Vec<SavedPart>) -> Result<Resource, SavedError> {
    let piece = |range: Range<usize>| {
        let is_there = range.start <= range.end && range.end <= body.len();
        is_there.then(|| body.slice(range)).ok_or(SavedError::Content)
    };
    let mut end = parts.first().map_or(body.len(), |part| part.start);
    let head = Resource::new(piece(0..end)?);
    let mut divided = Vec::with_capacity(parts.len());
    for SavedPart { owner, start, end: next, instead } in parts {
        if start != end {
            return Err(SavedError::Content);
        }
        end = next;
        let fallback = instead.map(decoded).transpose()?;
        divided.push(Part { owner: owner.into(), body: vec![piece(start..end)?], fallback });
    }
    if end == body.len() { Ok(head.with_parts(divided)) } else { Err(SavedError::Content) }
}

fn hash(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests;
