//! Names that the node asked for and whose resources are gone.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

/// Most names that are remembered. Envoy names all of them when it comes back, which the bound of that message allows for about
/// half as many.
const MOST: usize = 1 << 18;
/// As many digests as take the memory of one name in two sets.
const DIGESTS_PER_NAME: usize = 8;
/// Bytes in memory of a digest, with its place in a set that is half full.
const DIGEST: usize = 16;

/// Names by their digests. Envoy asks for a pool on demand once and waits for its name as long as it lives: a resource that is
/// there again has to be sent, though the node does not ask again. Thousands of pools may be replaced while it lives. Beyond the
/// bound some are forgotten, and come with the next stream. If two names have one digest, a node gets what it need not have.
#[derive(Debug, Default)]
pub(super) struct RetiredNames {
    // A node does not know it, so that it cannot choose names of one digest.
    key: RandomState,
    digests: BTreeSet<u64>,
}

impl RetiredNames {
    /// Adds a name; returns whether all others are remembered still.
    pub(super) fn insert(&mut self, name: &str) -> bool {
        self.digests.insert(self.key.hash_one(name));
        self.digests.len() <= MOST || self.digests.pop_first().is_none()
    }

    /// Removes a name; returns whether it was one of them.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        !self.digests.is_empty() && self.digests.remove(&self.key.hash_one(name))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        !self.digests.is_empty() && self.digests.contains(&self.key.hash_one(name))
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.digests.len() * DIGEST
    }

    /// The number of names that would take as much memory.
    pub(super) fn weight(&self) -> usize {
        self.digests.len() / DIGESTS_PER_NAME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_names_are_bounded() {
        let mut names = RetiredNames::default();
        for number in 0..MOST + 1_000 {
            names.insert(&number.to_string());
        }
        assert_eq!(names.digests.len(), MOST);
        assert_eq!(names.weight(), MOST / DIGESTS_PER_NAME);
        let kept = (0..MOST + 1_000).filter(|number| names.contains(&number.to_string())).count();
        assert_eq!(kept, MOST);
    }
}
