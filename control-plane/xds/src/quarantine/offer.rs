use std::collections::BTreeSet;

use crate::hash::Hash;
use crate::piece::{Key, Piece, Pieces};
use crate::wait::Wait;

/// Pieces that are sent, or wanted, together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    /// A hash of what it holds. Where something is left out because it was refused, that stands behind it, so that another
    /// control plane that is told this version knows it, too.
    pub(crate) version: String,
    pub(crate) pieces: Pieces,
}

impl Offer {
    /// Whether both hold the same, whatever was refused on the way to them.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let same = |((key, piece), (other_key, other)): ((&Key, &Piece), (&Key, &Piece))| {
            key == other_key && piece.version() == other.version()
        };
        self.pieces.len() == other.pieces.len() && self.pieces.iter().zip(&other.pieces).all(same)
    }

    /// The hash alone.
    pub(super) fn hash(&self) -> &str {
        self.version.split(LEFT_OUT).next().unwrap_or_default()
    }
}

/// Changes that have to wait for others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
    pub(crate) updates: Wait,
    pub(crate) removals: Wait,
}

impl Hold {
    pub(super) fn is_open(&self) -> bool {
        self.updates == Wait::Nobody && self.removals == Wait::Nobody
    }
}

/// Between the hash and what is left out.
const LEFT_OUT: char = '!';
/// Most refusals that a version tells: it stays a word.
const MAX_TOLD: usize = 64;

impl Offer {
    /// What is wanted.
    pub(crate) fn wanted(version: &str, pieces: Pieces) -> Self {
        Self { version: version.to_owned(), pieces }
    }

    /// What is sent.
    pub(super) fn of<'a>(pieces: Pieces, target: &Self, refused: impl Iterator<Item = &'a str>) -> Self {
        let mut offer = Self { version: target.version.clone(), pieces };
        if offer.is_same(target) {
            return offer;
        }
        let mut hash = Hash::default();
        for (key, piece) in &offer.pieces {
            hash.add(&key.resource);
            hash.add(key.part.as_deref().unwrap_or_default());
            hash.add(piece.version());
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

/// The versions that a version says were left out, shortened.
pub(super) fn refused_in(version: &str) -> BTreeSet<&str> {
    let told = version.split_once(LEFT_OUT).map(|(_, told)| told).unwrap_or_default();
    told.split(',').filter(|one| !one.is_empty()).take(MAX_TOLD).collect()
}

/// Enough of a hash to know it by.
pub(super) fn short(version: &str) -> &str {
    version.get(..12).unwrap_or(version)
}

/// Parts suspects into those to try first and those to try then. Whom the error names is tried last: it is most likely
/// bad, and the others are to be served soon.
pub(super) fn split(keys: &[Key], message: &str) -> (BTreeSet<Key>, BTreeSet<Key>) {
    let (named, others): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(|key| message.contains(key.name()));
    if !named.is_empty() && !others.is_empty() {
        return (others.into_iter().collect(), named.into_iter().collect());
    }
    let half = keys.len() / 2;
    (keys.iter().take(half).cloned().collect(), keys.iter().skip(half).cloned().collect())
}
