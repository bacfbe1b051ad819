//! Counts by combinations of labels of closed sets.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// A combination of labels of closed sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CounterKey {
    /// The policy's number from 1, or 0.
    pub(super) policy: u32,
    /// [`super::verb::ReportedVerb::code`]
    pub(super) verb: u8,
    /// [`super::verb::Scope::code`], which [`CounterTable`] does not count by.
    pub(super) scope: u8,
    /// [`super::resource::ResourceLabels::code`]
    pub(super) resource: u16,
    /// [`super::Outcome::code`]
    pub(super) outcome: u8,
    /// Whether the client was authenticated, which nothing is counted by.
    pub(super) is_known: bool,
}

/// Keys of a [`CounterTable`].
pub(super) trait CountedKey: Copy {
    /// A number for the key, another one for each.
    fn key(self) -> u64;
    /// The key of a number.
    fn of_key(key: u64) -> Self;
    /// The key of everything that has no room of its own.
    fn rest(self) -> Self;
}

impl CountedKey for CounterKey {
    fn key(self) -> u64 {
        let CounterKey { policy, verb, resource, outcome, .. } = self;
        u64::from(policy) << 32 | u64::from(resource) << 16 | u64::from(verb) << 8 | u64::from(outcome)
    }

    #[allow(clippy::cast_possible_truncation, reason = "takes apart what `key` has put together")]
    fn of_key(key: u64) -> Self {
        CounterKey {
            policy: (key >> 32) as u32,
            resource: (key >> 16) as u16,
            verb: (key >> 8) as u8,
            scope: 0,
            outcome: key as u8,
            is_known: false,
        }
    }

    /// The outcome is kept.
    fn rest(self) -> Self {
        CounterKey { policy: 0, verb: 0, resource: 0, scope: 0, ..self }
    }
}

/// Hashes keys of closed sets: no client can choose them so that they collide.
#[derive(Debug, Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        // Fibonacci hashing; the high bits are the good ones, and a map looks at both ends.
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Counts by key, shared by all workers. Counting what was counted before takes no lock exclusively and allocates nothing.
#[derive(Debug, Default)]
pub(super) struct CounterTable<K = CounterKey>(
    RwLock<HashMap<u64, AtomicU64, BuildHasherDefault<KeyHasher>>>,
    PhantomData<K>,
);

impl<K: CountedKey> CounterTable<K> {
    /// Counts. `admits` says whether there is room for a key that is new.
    pub(super) fn count(&self, key: K, admits: impl FnOnce(K) -> bool) {
        if !self.count_known(key) {
            self.count_new(if admits(key) { key } else { key.rest() });
        }
    }

    /// Counts under a key that is there. False if it is not.
    pub(super) fn count_known(&self, key: K) -> bool {
        let counts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get(&key.key());
        count.map(|count| count.fetch_add(1, Ordering::Relaxed)).is_some()
    }

    /// Whether a key is there.
    pub(super) fn contains(&self, key: K) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains_key(&key.key())
    }

    /// Keeps the room of a key under which nothing may be counted yet.
    pub(super) fn keep(&self, key: K) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).entry(key.key()).or_default();
    }

    #[cold]
    fn count_new(&self, key: K) {
        let key = key.key();
        // Counts that have no room go under a key that is known, mostly.
        let counts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get(&key) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        drop(counts);
        let mut counts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        counts.entry(key).or_default().fetch_add(1, Ordering::Relaxed);
    }

    /// The number of keys, those of what has no room included.
    pub(super) fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The keys under which something was counted that is not taken yet. Most counts of a large table stand still.
    pub(super) fn changed(&self) -> Vec<K> {
        let counts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let changed = counts.iter().filter(|(_, count)| count.load(Ordering::Relaxed) != 0);
        changed.map(|(key, _)| K::of_key(*key)).collect()
    }

    /// Takes out what was counted under a key.
    pub(super) fn take(&self, key: K) -> u64 {
        let counts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        counts.get(&key.key()).map_or(0, |count| count.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn taken(table: &CounterTable) -> BTreeMap<u64, u64> {
        let all = table.changed().into_iter().map(|key| (key.key(), table.take(key)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn counter_key_survives_its_number() {
        for key in [
            CounterKey::default(),
            CounterKey { policy: u32::MAX, verb: 1, resource: u16::MAX, outcome: 2, ..CounterKey::default() },
            CounterKey { policy: 3, verb: u8::MAX, resource: 4, outcome: u8::MAX, ..CounterKey::default() },
        ] {
            assert_eq!(CounterKey::of_key(key.key()), key);
        }
    }

    #[test]
    fn counts_of_many_threads_are_exact() {
        let (table, total) = (CounterTable::default(), AtomicU64::new(0));
        let add = |counts: BTreeMap<u64, u64>| _ = total.fetch_add(counts.values().sum::<u64>(), Ordering::Relaxed);
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let table = &table;
                scope.spawn(move || {
                    let key = |n: u32| CounterKey { policy: thread + n % 7, ..CounterKey::default() };
                    (0..10_000).for_each(|n| table.count(key(n), |_| true));
                });
            }
            (0..100).for_each(|_| add(taken(&table)));
        });
        add(taken(&table));
        assert_eq!(total.into_inner(), 40_000);
        assert!(taken(&table).is_empty());
    }

    #[test]
    fn full_table_counts_the_rest_together() {
        let table = CounterTable::default();
        for policy in 1..=20_000 {
            let key = CounterKey { policy, outcome: 4, ..CounterKey::default() };
            table.count(key, |key| key.policy <= 5_000);
        }
        let counts = taken(&table);
        assert_eq!(counts.len(), 5_000 + 1);
        assert_eq!(counts[&CounterKey { outcome: 4, ..CounterKey::default() }.key()], 15_000);
    }
}
