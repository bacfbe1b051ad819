//! Pieces of resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::content_hash::hash_of_pieces;

/// Content that can be refused by itself. Its bytes may be secret. Copies share everything: snapshots, and what each stream has, hold
/// the same chunks.
#[derive(Clone)]
pub(crate) struct Chunk(Arc<ChunkContent>);

struct ChunkContent {
    version: String,
    body: ByteChunks,
    /// The chunk in its place when it has to be left out.
    fallback: Option<Chunk>,
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.0.version, length(&self.0.body))
    }
}

/// Equal versions are equal contents.
impl PartialEq for Chunk {
    fn eq(&self, other: &Self) -> bool {
        let is_same = || self.version() == other.version() && self.fallback() == other.fallback();
        Arc::ptr_eq(&self.0, &other.0) || is_same()
    }
}

impl Eq for Chunk {}

impl Chunk {
    pub(crate) fn new(body: ByteChunks, fallback: Option<Bytes>) -> Self {
        let fallback = fallback.map(|body| Self::new(vec![body], None));
        let version = hash_of_pieces(body.iter().map(AsRef::as_ref));
        Self(Arc::new(ChunkContent { version, body, fallback }))
    }

    /// Whether it is made of these bytes, at these places: if so, its versions are known without a hash of them.
    pub(crate) fn is_made_of(&self, body: &[Bytes], fallback: Option<&Bytes>) -> bool {
        fn places(bytes: &[Bytes]) -> impl Iterator<Item = (*const u8, usize)> {
            bytes.iter().map(|one| (one.as_ptr(), one.len()))
        }
        let known = self.fallback().map_or(&[][..], |one| one.body());
        places(self.body()).eq(places(body)) && places(known).eq(places(fallback.map_or(&[], std::slice::from_ref)))
    }

    /// The hash of the content.
    pub(crate) fn version(&self) -> &str {
        &self.0.version
    }

    pub(crate) fn body(&self) -> &[Bytes] {
        &self.0.body
    }

    pub(crate) fn fallback(&self) -> Option<&Self> {
        self.0.fallback.as_ref()
    }
}

/// Which chunk of which resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChunkKey {
    pub(crate) resource: Arc<str>,
    /// The owner of a part; `None` is the resource itself, without its parts.
    pub(crate) part: Option<Arc<str>>,
}

impl ChunkKey {
    pub(crate) fn whole(resource: &str) -> Self {
        Self { resource: resource.into(), part: None }
    }

    /// How error texts may call it.
    pub(crate) fn name(&self) -> &str {
        self.part.as_deref().unwrap_or(&self.resource)
    }
}

/// Chunks by key: those of one resource follow each other, the resource itself before its parts.
pub(crate) type Chunks = BTreeMap<ChunkKey, Chunk>;

/// A resource's bytes, in pieces that follow each other. They may be secret.
pub(crate) type ByteChunks = Vec<Bytes>;

/// The body of every resource.
pub(crate) fn bodies(chunks: &Chunks) -> BTreeMap<&str, ByteChunks> {
    let mut parts: BTreeMap<&str, ByteChunks> = BTreeMap::new();
    for (key, chunk) in chunks {
        parts.entry(&key.resource).or_default().extend_from_slice(chunk.body());
    }
    parts
}

/// How many bytes a body has.
pub(crate) fn length(body: &[Bytes]) -> usize {
    body.iter().map(Bytes::len).sum()
}
