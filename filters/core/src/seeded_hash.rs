//! Hashing of texts with a secret seed.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hash_seed::hash_seed;

/// Number of the next table.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A hash of texts with a random seed, so that neither an author of rules nor a client can choose texts with equal hashes. The standard
/// library's has no secret in WebAssembly ([`crate::seed_hashes`]), and takes several times as long: with 10,000 policies two million
/// entries are looked up.
#[derive(Clone, Debug)]
pub struct SeededHash {
    table: u64,
}

impl Default for SeededHash {
    fn default() -> Self {
        SeededHash { table: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

impl BuildHasher for SeededHash {
    type Hasher = TextHasher;

    /// The seed is asked for with the first key: an empty table may be made before there is one.
    fn build_hasher(&self) -> TextHasher {
        TextHasher { state: mix(hash_seed(), self.table) }
    }
}

/// The hash of what was written so far.
#[derive(Clone, Debug)]
pub struct TextHasher {
    state: u64,
}

impl Hasher for TextHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.state = hash_bytes(self.state, bytes);
    }

    fn write_u8(&mut self, byte: u8) {
        self.state = mix(self.state, u64::from(byte));
    }

    fn write_usize(&mut self, number: usize) {
        self.state = mix(self.state, number as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

/// Both halves of a product: every bit of the inputs reaches every bit of the result.
pub(crate) fn mix(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(word ^ 0x8bb8_4b93_962e_acc9);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Eight bytes a step; the last step overlaps the one before it.
pub(crate) fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = mix(seed, bytes.len() as u64);
    let (words, _) = bytes.as_chunks::<8>();
    for word in words {
        state = mix(state ^ u64::from_le_bytes(*word), state.rotate_left(32));
    }
    let tail = if let Some(last) = bytes.last_chunk::<8>() {
        u64::from_le_bytes(*last)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
    } else {
        bytes.iter().fold(0, |tail, byte| tail << 8 | u64::from(*byte))
    };
    mix(state ^ tail, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_pair_are_not_joined() {
        let hash = SeededHash::default();
        let pairs = [("pods", "log"), ("podslog", ""), ("", "podslog"), ("podsl", "og")];
        let hashes = pairs.map(|pair| hash.hash_one(pair));
        assert_eq!(std::collections::BTreeSet::from(hashes).len(), pairs.len());
        assert_eq!(hashes, pairs.map(|pair| hash.hash_one(pair)));
        let bytes: [&[u8]; 4] = [b"a", b"a\0", b"", b"\0"];
        let hashes = bytes.map(|bytes| hash.hash_one(bytes));
        assert_eq!(std::collections::BTreeSet::from(hashes).len(), bytes.len());
        assert_eq!(
            hashes,
            bytes.map(|bytes| hash.hash_one(bytes.to_vec())),
            "a table of owned keys is asked by borrowed ones"
        );
    }

    #[test]
    fn seeds_of_two_tables_differ() {
        assert_ne!(SeededHash::default().hash_one("pods"), SeededHash::default().hash_one("pods"));
    }
}
