//! Hashing whose worst case is known before the first lookup.
//!
//! The keys are the configuration's and are fixed when the table is built, so the fullest bucket can be looked at then:
//! a seed that fills one too much is replaced by the next. Clients choose what is looked up, never what is stored, so no
//! client makes a bucket longer. Authors of the configuration choose what is stored: seeds begin with a random number of the
//! process, because keys can be made for each seed that is known beforehand.

use crate::hash_seed::hash_seed;
use crate::seeded_hash::mix;

/// How many entries of one bucket are accepted before another seed is tried. With one bucket per entry a random
/// function exceeds this less than once in 10^14 entries.
const MAX_BUCKET: usize = 16;
/// After so many seeds the best one is taken: building ends whatever the keys are.
const MAX_SEEDS: u64 = 8;

/// Finds the few entries that may have a key.
#[derive(Debug)]
pub(super) struct StaticHashTable {
    seed: u64,
    mask: u64,
    /// Start of each bucket in `slots`, and one more.
    starts: Box<[u32]>,
    slots: Box<[Slot]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The hash's upper half.
    tag: u32,
    entry: u32,
}

impl StaticHashTable {
    /// Sorts the entries `0..count` into buckets. `hash` is given a seed and an entry.
    pub(super) fn build(count: u32, hash: impl Fn(u64, u32) -> u64) -> Self {
        let mut best = Self::with_seed(0, count, &hash);
        for seed in 1..MAX_SEEDS {
            if best.fullest_bucket() <= MAX_BUCKET {
                break;
            }
            let other = Self::with_seed(seed, count, &hash);
            if other.fullest_bucket() < best.fullest_bucket() {
                best = other;
            }
        }
        best
    }

    fn with_seed(number: u64, count: u32, hash: &impl Fn(u64, u32) -> u64) -> Self {
        let seed = seed_of(number);
        let mask = u64::from(count.max(1).checked_next_power_of_two().unwrap_or(1 << 31)) - 1;
        let mut hashed: Vec<(u64, Slot)> = (0..count)
            .map(|entry| {
                let hash = hash(seed, entry);
                (hash & mask, Slot { tag: tag(hash), entry })
            })
            .collect();
        hashed.sort_unstable_by_key(|(bucket, slot)| (*bucket, slot.entry));
        let mut starts = Vec::new();
        for (at, (bucket, _)) in (0..count).zip(&hashed) {
            while starts.len() as u64 <= *bucket {
                starts.push(at);
            }
        }
        while starts.len() as u64 <= mask + 1 {
            starts.push(count);
        }
        StaticHashTable { seed, mask, starts: starts.into(), slots: hashed.into_iter().map(|(_, slot)| slot).collect() }
    }

    fn fullest_bucket(&self) -> usize {
        let sizes = self.starts.array_windows().map(|[start, end]| end.saturating_sub(*start) as usize);
        sizes.max().unwrap_or(0)
    }

    /// The seed that keys are hashed with.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The entries whose key may be the one with this hash.
    pub(super) fn candidates(&self, hash: u64) -> impl Iterator<Item = usize> {
        let bucket = (hash & self.mask) as usize;
        let bounds = self.starts.get(bucket..).and_then(<[u32]>::first_chunk);
        let slots = bounds.and_then(|[start, end]| self.slots.get(*start as usize..*end as usize));
        let wanted = tag(hash);
        slots.unwrap_or_default().iter().filter(move |slot| slot.tag == wanted).map(|slot| slot.entry as usize)
    }
}

fn seed_of(number: u64) -> u64 {
    mix(number ^ hash_seed(), 1)
}

fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded_hash::hash_bytes;

    #[test]
    fn every_key_is_found() {
        for count in [0, 1, 2, 7, 1000, 50_000] {
            let key = |entry: u32| format!("key-{entry}");
            let hash = |seed, entry| hash_bytes(seed, key(entry).as_bytes());
            let buckets = StaticHashTable::build(count, hash);
            assert!(buckets.fullest_bucket() <= MAX_BUCKET);
            for entry in 0..count {
                let hash = hash_bytes(buckets.seed(), key(entry).as_bytes());
                assert!(buckets.candidates(hash).any(|found| found == entry as usize), "{entry} of {count}");
            }
        }
    }

    #[test]
    fn keys_that_collide_under_one_seed_get_another() {
        let first = seed_of(0);
        let hash = |seed, entry: u32| if seed == first { 7 } else { hash_bytes(seed, &entry.to_le_bytes()) };
        assert!(StaticHashTable::build(1000, hash).fullest_bucket() <= MAX_BUCKET);
    }

    /// Of three words, of which the second one makes the state zero under a seed: all with one third word have one hash. The seeds are
    /// those of a process whose number is known.
    #[test]
    fn keys_that_collide_under_known_seeds_are_spread() {
        let keys: Vec<[u8; 24]> = (0..MAX_SEEDS).flat_map(|number| colliding(mix(number, 1))).collect();
        for number in 0..MAX_SEEDS {
            let of_number = keys.iter().map(|key| hash_bytes(mix(number, 1), key));
            let most = of_number.fold(std::collections::BTreeMap::new(), |mut counts, hash| {
                *counts.entry(hash).or_insert(0) += 1;
                counts
            });
            assert!(most.values().any(|count| *count >= 100), "seed {number} has no collision");
        }
        let count = u32::try_from(keys.len()).unwrap();
        let table = StaticHashTable::build(count, |seed, entry| hash_bytes(seed, &keys[entry as usize]));
        assert!(table.fullest_bucket() <= MAX_BUCKET, "{}", table.fullest_bucket());
    }

    fn colliding(seed: u64) -> impl Iterator<Item = [u8; 24]> {
        let start = mix(seed, 24);
        (0..100_u64).map(move |first| {
            let second = mix(start ^ first, start.rotate_left(32)) ^ 0x2d35_8dcc_aa6c_78a5;
            let words = [first, second, 7].map(u64::to_le_bytes);
            words.concat().try_into().unwrap()
        })
    }

    #[test]
    fn keys_that_always_collide_are_still_found() {
        let buckets = StaticHashTable::build(100, |_, _| 7);
        assert_eq!(buckets.candidates(7).count(), 100);
    }

    #[test]
    fn each_byte_and_the_length_count() {
        let zeros = [0; 40];
        let mut seen = std::collections::BTreeSet::new();
        for len in 0..=40 {
            assert!(seen.insert(hash_bytes(1, &zeros[..len])), "{len}");
            for at in 0..len {
                let mut bytes = zeros;
                bytes[at] = 1;
                assert!(seen.insert(hash_bytes(1, &bytes[..len])), "{at} of {len}");
            }
        }
    }
}
