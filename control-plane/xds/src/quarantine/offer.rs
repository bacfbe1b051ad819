use std::collections::BTreeSet;

use crate::resource::{Chunk, ChunkKey, Chunks};
use crate::resource::{ContentHash, hash_of};

/// Pieces that are sent, or wanted, together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    /// A hash of what it holds. Where something is left out because it was refused, that stands behind it, so that another
    /// control plane that is told this version knows it, too.
    pub(crate) version: String,
    pub(crate) chunks: Chunks,
}

impl Offer {
    /// Whether both hold the same, whatever was refused on the way to them.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let same = |((key, chunk), (other_key, other)): ((&ChunkKey, &Chunk), (&ChunkKey, &Chunk))| {
            key == other_key && chunk.version() == other.version()
        };
        self.chunks.len() == other.chunks.len() && self.chunks.iter().zip(&other.chunks).all(same)
    }

    /// What stands in the version because it was left out.
    pub(super) fn left_out(&self) -> &str {
        self.version.split_once(LEFT_OUT).map_or("", |(_, left_out)| left_out)
    }

    /// The hash alone.
    pub(super) fn hash(&self) -> &str {
        self.version.split(LEFT_OUT).next().unwrap_or_default()
    }

    /// The version as it is sent: with what it is made of, so that another control plane knows what the other side has,
    /// even if it wants something else itself. See [`ReportedVersion`].
    pub(crate) fn told(&self) -> String {
        if self.chunks.len() > MAX_PARTS {
            return self.version.clone();
        }
        let (hash, left_out) = self.version.split_at(self.hash().len());
        let made_of: String = self.chunks.iter().map(|(key, chunk)| digest(key, chunk)).collect();
        format!("{hash}{MADE_OF}{made_of}{left_out}")
    }
}

/// Before what was left out.
const LEFT_OUT: char = '!';
/// Between the hash and what it is made of.
const MADE_OF: char = '~';
/// Most parts of which the version tells what it is made of: eight bytes for each of some thousand in a listener's version.
const MAX_PARTS: usize = 4_000;
/// Most refusals that a version tells: it stays a word.
const MAX_TOLD: usize = 64;

impl Offer {
    /// What is wanted.
    pub(crate) fn wanted(version: &str, chunks: Chunks) -> Self {
        Self { version: version.to_owned(), chunks }
    }

    /// What is sent.
    pub(super) fn of<'a>(chunks: Chunks, target: &Self, refused: impl Iterator<Item = &'a str>) -> Self {
        let mut offer = Self { version: target.version.clone(), chunks };
        if offer.is_same(target) {
            return offer;
        }
        let mut hash = ContentHash::default();
        for (key, chunk) in &offer.chunks {
            hash.add(&key.resource);
            hash.add(key.part.as_deref().unwrap_or_default());
            hash.add(chunk.version());
        }
        offer.version = hash.finish();
        let refused: BTreeSet<_> = refused.map(short).collect();
        if !refused.is_empty() {
            let told: Vec<_> = refused.into_iter().take(MAX_TOLD).collect();
            offer.version = format!("{}{LEFT_OUT}{}", offer.version, told.join(","));
        }
        offer
    }
}

/// What a version tells that the other side has.
#[derive(Debug)]
pub(super) struct ReportedVersion<'a> {
    /// The version as an [`Offer`] has it.
    pub(super) version: String,
    /// The versions that were left out, shortened.
    pub(super) refused: BTreeSet<&'a str>,
    /// The digest of each piece.
    pub(super) made_of: BTreeSet<&'a str>,
}

impl<'a> ReportedVersion<'a> {
    /// Reads what [`Offer::told`] wrote, or a version that says less.
    pub(super) fn read(told: &'a str) -> Self {
        let (rest, left_out) =
            told.split_once(LEFT_OUT).map_or((told, None), |(rest, left_out)| (rest, Some(left_out)));
        let (hash, made_of) = rest.split_once(MADE_OF).unwrap_or((rest, ""));
        let version = left_out.map_or_else(|| hash.to_owned(), |left_out| format!("{hash}{LEFT_OUT}{left_out}"));
        let refused = left_out.unwrap_or_default().split(',').filter(|one| !one.is_empty()).take(MAX_TOLD);
        let digests = (0..made_of.len() / DIGEST).take(MAX_PARTS);
        let made_of = digests.filter_map(|index| made_of.get(index * DIGEST..(index + 1) * DIGEST)).collect();
        Self { version, refused: refused.collect(), made_of }
    }
}

/// Length of a digest: three of the key, to know where something stands, and five of the content.
const DIGEST: usize = 8;

/// Enough of a piece to find it among some thousand.
pub(super) fn digest(key: &ChunkKey, chunk: &Chunk) -> String {
    format!("{}{}", place(key), chunk.version().get(..5).unwrap_or("-----"))
}

/// Enough of a key to tell what is gone from what is wanted otherwise.
pub(super) fn place(key: &ChunkKey) -> String {
    hash_of(key.name().as_bytes()).get(..3).unwrap_or("---").to_owned()
}

/// The place of a digest.
pub(super) fn place_of(digest: &str) -> &str {
    digest.get(..3).unwrap_or_default()
}

/// Enough of a hash to know it by.
pub(super) fn short(version: &str) -> &str {
    version.get(..12).unwrap_or(version)
}

/// Parts suspects into those to try first and those to try then. Whom the error names is tried last: it is most likely
/// bad, and the others are to be served soon.
pub(super) fn split(keys: &[ChunkKey], message: &str) -> (BTreeSet<ChunkKey>, BTreeSet<ChunkKey>) {
    let (named, others): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(|key| message.contains(key.name()));
    if !named.is_empty() && !others.is_empty() {
        return (others.into_iter().collect(), named.into_iter().collect());
    }
    let half = keys.len() / 2;
    (keys.iter().take(half).cloned().collect(), keys.iter().skip(half).cloned().collect())
}
