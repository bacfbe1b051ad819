//! Hashing whose worst case is known before the first lookup.
//!
//! The keys are the configuration's and are fixed when the table is built, so the fullest bucket can be looked at then:
//! a seed that fills one too much is replaced by the next. Clients choose what is looked up, never what is stored, so no
//! client makes a bucket longer, and no random seed is needed.

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
        let seed = mix(number, 1);
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

fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Both halves of a product: every bit of the inputs reaches every bit of the result.
pub(super) fn mix(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(word ^ 0x8bb8_4b93_962e_acc9);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Eight bytes a step; the last step overlaps the one before it.
pub(super) fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
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
        let first = mix(0, 1);
        let hash = |seed, entry: u32| if seed == first { 7 } else { hash_bytes(seed, &entry.to_le_bytes()) };
        assert!(StaticHashTable::build(1000, hash).fullest_bucket() <= MAX_BUCKET);
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
