use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use portcullis_filter_config::hex;
use ring::digest::{Context, SHA256};

/// A resource, encoded. Its bytes may be secret. Copies share everything: a snapshot has thousands.
#[derive(Clone, PartialEq, Eq)]
pub struct Resource(Arc<Content>);

#[derive(Clone, PartialEq, Eq)]
struct Content {
    version: String,
    body: Bytes,
    companion: Option<(String, String)>,
    owner: Option<String>,
    is_version_only: bool,
    lingers: bool,
    is_on_demand: bool,
    is_optional: bool,
    /// The bytes before the parts, and the parts with their owners. Empty if the resource is in one piece.
    chunks: Vec<(Option<String>, Chunk)>,
}

/// A part of a resource that belongs to an owner and can be left out without the rest. Protobuf reads concatenated encodings as
/// one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The owner; each part of a resource has another one.
    pub owner: String,
    /// The position in the resource's bytes.
    pub range: Range<usize>,
    /// The bytes in its place when the part has to be left out.
    pub fallback: Option<Bytes>,
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.0.version, self.0.body.len())
    }
}

impl Resource {
    /// The version is a hash of the content: an unchanged resource is not sent again, also after a restart.
    pub fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let version = hash_of(&body);
        let content = Content {
            version,
            body,
            companion: None,
            owner: None,
            is_version_only: false,
            lingers: false,
            is_on_demand: false,
            is_optional: false,
            chunks: Vec::new(),
        };
        Self(Arc::new(content))
    }

    /// A resource with a known version and unknown content, because others hold the content: it is never sent and never
    /// removed. A node that has this version has all of it; another node gets it when the content is known again.
    pub fn version_only(version: impl Into<String>) -> Self {
        Self::new(Bytes::new()).with(|content| (content.version, content.is_version_only) = (version.into(), true))
    }

    fn with(mut self, change: impl FnOnce(&mut Content)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Whether only its version is known.
    pub fn is_version_only(&self) -> bool {
        self.0.is_version_only
    }

    /// Names another resource that is sent again whenever this one is sent. Envoy builds a changed cluster anew and waits
    /// for its endpoints, but does not ask for endpoints that it is subscribed to already; meanwhile it acknowledges no
    /// cluster.
    pub fn with_companion(self, type_url: impl Into<String>, name: impl Into<String>) -> Self {
        self.with(|content| content.companion = Some((type_url.into(), name.into())))
    }

    /// The resource that is sent again with this one.
    pub fn companion(&self) -> Option<(&str, &str)> {
        self.0.companion.as_ref().map(|(type_url, name)| (type_url.as_str(), name.as_str()))
    }

    /// Sets the owner of the resource. The label has no meaning here: it is returned in reports about the resource.
    pub fn owned_by(self, label: impl Into<String>) -> Self {
        self.with(|content| content.owner = Some(label.into()))
    }

    /// The owner; `None` if it belongs to all.
    pub fn owner(&self) -> Option<&str> {
        self.0.owner.as_deref()
    }

    /// The same resource as one that nothing new leads to: it stays for a while for requests that are on their way to it, and
    /// is no part of what its owner asks for ([`crate::Snapshot::version_of`]).
    #[must_use]
    pub fn lingering(self) -> Self {
        self.with(|content| content.lingers = true)
    }

    /// Whether it is there only for requests that are on their way to it.
    pub fn lingers(&self) -> bool {
        self.0.lingers
    }

    /// The same resource as one that only those nodes get which ask for it by name. A node that has it is kept up to date.
    #[must_use]
    pub fn on_demand(self) -> Self {
        self.with(|content| content.is_on_demand = true)
    }

    /// Whether a node has to ask for it by name.
    pub fn is_on_demand(&self) -> bool {
        self.0.is_on_demand
    }

    /// The same resource as one that a node may lack: if it refuses it, owners of its parts count as served.
    #[must_use]
    pub fn optional(self) -> Self {
        self.with(|content| content.is_optional = true)
    }

    /// Whether owners of its parts count as served where it is refused.
    pub fn is_optional(&self) -> bool {
        self.0.is_optional
    }

    /// Sets the owners of parts. A node that refuses the whole is offered it without some of the parts, until the bad one is
    /// found. The parts are the last bytes of the resource, sorted by owner and without gaps; if they are not, the resource
    /// stays in one piece.
    pub fn with_parts(self, parts: impl IntoIterator<Item = Part>) -> Self {
        let parts: Vec<_> = parts.into_iter().collect();
        let body = &self.0.body;
        let mut end = parts.first().map_or(body.len(), |part| part.range.start);
        let fits = end <= body.len();
        let mut chunks = Vec::new();
        if fits {
            chunks.push((None, Chunk::new(body.slice(..end), None)));
        }
        for part in parts {
            let range = part.range;
            let is_sorted = chunks.last().is_none_or(|(last, _)| last.as_ref() < Some(&part.owner));
            if !is_sorted || range.start != end || range.end < range.start || range.end > body.len() || !fits {
                return self;
            }
            end = range.end;
            let chunk = Chunk::new(body.slice(range), part.fallback);
            chunks.push((Some(part.owner), chunk));
        }
        if end == body.len() { self.with(|content| content.chunks = chunks) } else { self }
    }

    /// The parts, as [`Resource::with_parts`] takes them; `None` if it is in one piece.
    pub fn parts(&self) -> Option<Vec<Part>> {
        let mut end = 0;
        let mut parts = Vec::new();
        for (owner, chunk) in &self.0.chunks {
            let start = end;
            end += chunk.body().len();
            if let Some(owner) = owner {
                let fallback = chunk.fallback().map(|fallback| fallback.body().clone());
                parts.push(Part { owner: owner.clone(), range: start..end, fallback });
            }
        }
        (!self.0.chunks.is_empty()).then_some(parts)
    }

    /// The bytes before the parts, and the parts with their owners; empty if the resource is in one piece.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (Option<&str>, &Chunk)> {
        self.0.chunks.iter().map(|(owner, chunk)| (owner.as_deref(), chunk))
    }

    /// Whether it is made of parts, be they none at the moment.
    pub(crate) fn is_composed(&self) -> bool {
        !self.0.chunks.is_empty()
    }

    /// The owners of parts.
    pub(crate) fn part_owners(&self) -> impl Iterator<Item = &str> {
        self.0.chunks.iter().filter_map(|(owner, _)| owner.as_deref())
    }

    /// The version of an owner's part.
    pub(crate) fn part_version(&self, owner: &str) -> Option<&str> {
        self.part(owner).map(Chunk::version)
    }

    /// An owner's part. The parts are sorted by owner, behind what belongs to none.
    fn part(&self, owner: &str) -> Option<&Chunk> {
        let found = self.0.chunks.binary_search_by(|(other, _)| other.as_deref().cmp(&Some(owner)));
        self.0.chunks.get(found.ok()?).map(|(_, chunk)| chunk)
    }

    /// The owners of what differs between this resource and another one of its name: of the whole and of parts.
    pub(crate) fn owners_of_difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> + use<'a> {
        let wholes = self.owner().into_iter().chain(other.owner());
        let differs = |owner: &&str| match (self.part(owner), other.part(owner)) {
            (Some(one), Some(other_part)) => one.version != other_part.version || self.lingers() != other.lingers(),
            _ => true,
        };
        wholes.chain(self.part_owners().chain(other.part_owners()).filter(differs))
    }

    /// Whether this is the other one: equal versions are equal contents.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let (one, other) = (&self.0, &other.0);
        let flags =
            |content: &Content| [content.is_version_only, content.lingers, content.is_on_demand, content.is_optional];
        Arc::ptr_eq(one, other)
            || (&one.version, &one.companion, &one.owner) == (&other.version, &other.companion, &other.owner)
                && flags(one) == flags(other)
                && one.chunks == other.chunks
    }

    /// The hash of the content.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The message, as in `Any.value`.
    pub fn body(&self) -> &Bytes {
        &self.0.body
    }
}

/// Content that can be refused by itself. Its bytes may be secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    version: String,
    body: Bytes,
    /// The chunk in its place when it has to be left out.
    fallback: Option<Box<Chunk>>,
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.version, self.body.len())
    }
}

impl Chunk {
    pub(crate) fn new(body: Bytes, fallback: Option<Bytes>) -> Self {
        let fallback = fallback.map(|body| Box::new(Self::new(body, None)));
        Self { version: hash_of(&body), body, fallback }
    }

    /// The hash of the content.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    pub(crate) fn fallback(&self) -> Option<&Self> {
        self.fallback.as_deref()
    }
}

/// Which chunk of which resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChunkKey {
    pub(crate) resource: String,
    /// The owner of a part; `None` is the resource itself, without its parts.
    pub(crate) part: Option<String>,
}

impl ChunkKey {
    pub(crate) fn whole(resource: &str) -> Self {
        Self { resource: resource.to_owned(), part: None }
    }

    /// How error texts may call it.
    pub(crate) fn name(&self) -> &str {
        self.part.as_deref().unwrap_or(&self.resource)
    }
}

/// Chunks by key: those of one resource follow each other, the resource itself before its parts.
pub(crate) type Chunks = BTreeMap<ChunkKey, Chunk>;

/// Adds the chunks of a resource that is made of parts.
pub(crate) fn add_chunks(chunks: &mut Chunks, name: &str, resource: &Resource) {
    for (owner, chunk) in resource.chunks() {
        chunks.insert(ChunkKey { resource: name.to_owned(), part: owner.map(str::to_owned) }, chunk.clone());
    }
}

/// The chunks of a resource's bytes. They may be secret.
pub(crate) type ByteChunks = Vec<Bytes>;

/// The body of every resource.
pub(crate) fn bodies(chunks: &Chunks) -> BTreeMap<&str, ByteChunks> {
    let mut parts: BTreeMap<&str, ByteChunks> = BTreeMap::new();
    for (key, chunk) in chunks {
        parts.entry(&key.resource).or_default().push(chunk.body().clone());
    }
    parts
}

/// How many bytes a body has.
pub(crate) fn length(body: &[Bytes]) -> usize {
    body.iter().map(Bytes::len).sum()
}

/// A hash of several texts, each of which ends where it ends.
pub(crate) struct ContentHash(Context);

impl Default for ContentHash {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl ContentHash {
    /// No text holds a NUL.
    pub(crate) fn add(&mut self, text: &str) {
        self.0.update(text.as_bytes());
        self.0.update(&[0]);
    }

    /// 16 of the 32 bytes: far more than versions need to differ.
    pub(crate) fn finish(self) -> String {
        let digest = self.0.finish();
        hex(digest.as_ref().get(..16).unwrap_or_default())
    }
}

/// The hash of a body.
pub(crate) fn hash_of(body: &[u8]) -> String {
    let mut hash = ContentHash::default();
    hash.0.update(body);
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(owner: &str, range: Range<usize>) -> Part {
        Part { owner: owner.to_owned(), range, fallback: None }
    }

    #[test]
    fn parts_are_the_end_of_the_bytes_without_gaps() {
        let whole = || Resource::new(b"baseonetwo".to_vec());
        let shown = |resource: &Resource| -> Vec<(Option<String>, Vec<u8>)> {
            resource.chunks().map(|(owner, chunk)| (owner.map(str::to_owned), chunk.body().to_vec())).collect()
        };
        let good = whole().with_parts([part("1", 4..7), part("2", 7..10)]);
        assert_eq!(
            shown(&good),
            [(None, b"base".to_vec()), (Some("1".into()), b"one".to_vec()), (Some("2".into()), b"two".to_vec())]
        );
        assert_eq!(good.version(), whole().version());
        assert_eq!(whole().with_parts(good.parts().unwrap()), good);
        assert_eq!(whole().parts(), None);
        assert_eq!(shown(&whole()), []);
        assert_eq!(shown(&whole().with_parts([])), [(None, b"baseonetwo".to_vec())]);
        for parts in [
            vec![part("1", 4..7)],
            vec![part("1", 4..6), part("2", 7..10)],
            vec![part("1", 4..11)],
            vec![part("1", 40..41)],
            vec![part("2", 7..10), part("1", 4..7)],
            vec![part("2", 4..7), part("1", 7..10)],
        ] {
            assert_eq!(shown(&whole().with_parts(parts.clone())), [], "{parts:?}");
        }
    }
}
