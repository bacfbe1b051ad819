use std::collections::BTreeSet;

use crate::chunk::{Chunk, ChunkKey, Chunks};
use crate::content_hash::{ContentHash, hash_of};

/// Chunks that are sent, or wanted, together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    /// A hash of the chunks. The refused versions that were left out follow it, so that another control plane that reads this
    /// version knows them, too.
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

    /// The list of refused versions in the version.
    pub(super) fn left_out(&self) -> &str {
        self.version.split_once(REFUSED_SEPARATOR).map_or("", |(_, left_out)| left_out)
    }

    /// The hash alone.
    pub(super) fn hash(&self) -> &str {
        self.version.split(REFUSED_SEPARATOR).next().unwrap_or_default()
    }

    /// The version as it is sent: with what it is made of, so that another control plane knows what the node has,
    /// even if it wants something else itself. See [`ReportedVersion`].
    pub(crate) fn sent_version(&self) -> String {
        if self.chunks.len() > MAX_PARTS {
            return self.version.clone();
        }
        let (hash, left_out) = self.version.split_at(self.hash().len());
        let digests: String = self.chunks.iter().map(|(key, chunk)| digest(key, chunk)).collect();
        format!("{hash}{DIGESTS_SEPARATOR}{digests}{left_out}")
    }
}

/// Separates the list of refused versions.
const REFUSED_SEPARATOR: char = '!';
/// Separates the list of digests.
const DIGESTS_SEPARATOR: char = '~';
/// The number of chunks up to which the version lists them: eight bytes for each, some thousand in a listener's version.
const MAX_PARTS: usize = 4_000;
/// The number of refusals that a version lists.
const MAX_LISTED_REFUSALS: usize = 64;

impl Offer {
    /// The wanted offer.
    pub(crate) fn wanted(version: &str, chunks: Chunks) -> Self {
        Self { version: version.to_owned(), chunks }
    }

    /// The offer to send.
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
            let reported: Vec<_> = refused.into_iter().take(MAX_LISTED_REFUSALS).collect();
            offer.version = format!("{}{REFUSED_SEPARATOR}{}", offer.version, reported.join(","));
        }
        offer
    }
}

/// The node's offer, as its version describes it.
#[derive(Debug)]
pub(super) struct ReportedVersion<'a> {
    /// The version as an [`Offer`] has it.
    pub(super) version: String,
    /// The versions that were left out, shortened.
    pub(super) refused: BTreeSet<&'a str>,
    /// The digest of each chunk.
    pub(super) digests: BTreeSet<&'a str>,
}

impl<'a> ReportedVersion<'a> {
    /// Reads what [`Offer::sent_version`] wrote, or a version that says less.
    pub(super) fn read(reported: &'a str) -> Self {
        let (rest, left_out) =
            reported.split_once(REFUSED_SEPARATOR).map_or((reported, None), |(rest, left_out)| (rest, Some(left_out)));
        let (hash, digests) = rest.split_once(DIGESTS_SEPARATOR).unwrap_or((rest, ""));
        let version =
            left_out.map_or_else(|| hash.to_owned(), |left_out| format!("{hash}{REFUSED_SEPARATOR}{left_out}"));
        let refused = left_out.unwrap_or_default().split(',').filter(|one| !one.is_empty()).take(MAX_LISTED_REFUSALS);
        let positions = (0..digests.len() / DIGEST).take(MAX_PARTS);
        let digests = positions.filter_map(|index| digests.get(index * DIGEST..(index + 1) * DIGEST)).collect();
        Self { version, refused: refused.collect(), digests }
    }
}

/// Length of a digest: three of the key, to know where something stands, and five of the content.
const DIGEST: usize = 8;

/// Enough of a chunk to find it among some thousand.
pub(super) fn digest(key: &ChunkKey, chunk: &Chunk) -> String {
    format!("{}{}", place(key), chunk.version().get(..5).unwrap_or("-----"))
}

/// A short hash of a key: enough to distinguish a removed chunk from a changed one.
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

/// Splits candidates into two groups, to be tried in this order. Those that the error names come second: they are most likely
/// bad, and the others should be served soon.
pub(super) fn split(keys: &[ChunkKey], message: &str) -> (BTreeSet<ChunkKey>, BTreeSet<ChunkKey>) {
    let (named, others): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(|key| message.contains(key.name()));
    if !named.is_empty() && !others.is_empty() {
        return (others.into_iter().collect(), named.into_iter().collect());
    }
    let half = keys.len() / 2;
    (keys.iter().take(half).cloned().collect(), keys.iter().skip(half).cloned().collect())
}
