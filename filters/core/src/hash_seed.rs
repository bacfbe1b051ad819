//! The random number with which hashes of configured texts begin: authors of configurations cannot choose texts with equal hashes.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

static SEED: OnceLock<u64> = OnceLock::new();

/// Takes a random number that is kept secret, for platforms that give the standard library none, as WebAssembly does not. The first one
/// counts, if it comes before the first configuration.
pub fn seed_hashes(random: u64) {
    SEED.get_or_init(|| random);
}

/// The seed of this process.
pub(crate) fn hash_seed() -> u64 {
    *SEED.get_or_init(|| RandomState::new().hash_one(0))
}
