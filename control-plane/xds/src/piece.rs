use std::collections::BTreeMap;

use bytes::Bytes;

use crate::hash::hash_of;

/// Content that can be refused by itself. Its bytes may be secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    version: String,
    body: Bytes,
    /// What stands in its place where it has to be left out.
    instead: Option<Box<Piece>>,
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.version, self.body.len())
    }
}

impl Piece {
    pub(crate) fn new(body: Bytes, instead: Option<Bytes>) -> Self {
        let instead = instead.map(|body| Box::new(Self::new(body, None)));
        Self { version: hash_of(&body), body, instead }
    }

    /// The hash of the content.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    pub(crate) fn instead(&self) -> Option<&Self> {
        self.instead.as_deref()
    }
}

/// Which piece of which resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) resource: String,
    /// The owner of a part; `None` is the resource itself, without its parts.
    pub(crate) part: Option<String>,
}

impl Key {
    pub(crate) fn whole(resource: &str) -> Self {
        Self { resource: resource.to_owned(), part: None }
    }

    /// How error texts may call it.
    pub(crate) fn name(&self) -> &str {
        self.part.as_deref().unwrap_or(&self.resource)
    }
}

/// Pieces by key: those of one resource stand one behind the other, itself before its parts.
pub(crate) type Pieces = BTreeMap<Key, Piece>;

/// What a resource's bytes are made of. They may be secret.
pub(crate) type Body = Vec<Bytes>;

/// The body of every resource.
pub(crate) fn bodies(pieces: &Pieces) -> BTreeMap<&str, Body> {
    let mut parts: BTreeMap<&str, Body> = BTreeMap::new();
    for (key, piece) in pieces {
        parts.entry(&key.resource).or_default().push(piece.body().clone());
    }
    parts
}

/// How many bytes a body has.
pub(crate) fn length(body: &[Bytes]) -> usize {
    body.iter().map(Bytes::len).sum()
}
