//! Counts by combinations of labels of closed sets.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::series_budget::{SeriesBudget, SeriesLease};

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
}

impl CounterKey {
    fn key(self) -> u64 {
        let CounterKey { policy, verb, resource, outcome, .. } = self;
        u64::from(policy) << 32 | u64::from(resource) << 16 | u64::from(verb) << 8 | u64::from(outcome)
    }

    #[allow(clippy::cast_possible_truncation, reason = "takes apart what `key` has put together")]
    const fn of_key(key: u64) -> Self {
        CounterKey {
            policy: (key >> 32) as u32,
            resource: (key >> 16) as u16,
            verb: (key >> 8) as u8,
            scope: 0,
            outcome: key as u8,
        }
    }

    /// The key of everything that has no room of its own; the outcome is kept.
    const fn rest(self) -> Self {
        CounterKey { policy: 0, verb: 0, resource: 0, scope: 0, outcome: self.outcome }
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
#[derive(Debug)]
pub(super) struct CounterTable {
    counts: RwLock<HashMap<u64, AtomicU64, BuildHasherDefault<KeyHasher>>>,
    lease: SeriesLease,
}

impl CounterTable {
    pub(super) fn new(budget: &Arc<SeriesBudget>) -> Self {
        CounterTable { counts: RwLock::default(), lease: SeriesLease::new(budget) }
    }

    pub(super) fn count(&self, key: CounterKey) {
        if !self.count_known(key) {
            self.count_new(key);
        }
    }

    fn count_known(&self, key: CounterKey) -> bool {
        let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
        let known = counts.get(&key.key());
        known.inspect(|count| _ = count.fetch_add(1, Ordering::Relaxed)).is_some()
    }

    #[cold]
    fn count_new(&self, key: CounterKey) {
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = counts.contains_key(&key.key()) || self.lease.extend(1);
        let key = if has_room { key } else { key.rest() };
        counts.entry(key.key()).or_default().fetch_add(1, Ordering::Relaxed);
    }

    /// Takes out what was counted since the last time.
    pub(super) fn take(&self, mut each: impl FnMut(CounterKey, u64)) {
        let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
        for (key, count) in &*counts {
            // Most counts of a large table stand still; a swap would make each of them travel between processors.
            if count.load(Ordering::Relaxed) != 0 {
                each(CounterKey::of_key(*key), count.swap(0, Ordering::Relaxed));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn taken(tally: &CounterTable) -> BTreeMap<u64, u64> {
        let mut all = BTreeMap::new();
        tally.take(|key, count| assert!(all.insert(key.key(), count).is_none()));
        all
    }

    #[test]
    fn counter_key_survives_its_number() {
        for key in [
            CounterKey::default(),
            CounterKey { policy: u32::MAX, verb: 1, resource: u16::MAX, scope: 0, outcome: 2 },
            CounterKey { policy: 3, verb: u8::MAX, resource: 4, scope: 0, outcome: u8::MAX },
        ] {
            assert_eq!(CounterKey::of_key(key.key()), key);
        }
    }

    #[test]
    fn counts_of_many_threads_are_exact() {
        let (tally, total) = (CounterTable::new(&Arc::default()), AtomicU64::new(0));
        let add = |counts: BTreeMap<u64, u64>| _ = total.fetch_add(counts.values().sum::<u64>(), Ordering::Relaxed);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let tally = &tally;
                scope.spawn(move || {
                    (0..10_000)
                        .for_each(|n| tally.count(CounterKey { policy: thread + n % 7, ..CounterKey::default() }))
                });
            }
            (0..100).for_each(|_| add(taken(&tally)));
        });
        add(taken(&tally));
        assert_eq!(total.into_inner(), 40_000);
        assert!(taken(&tally).is_empty());
    }

    #[test]
    fn full_table_counts_the_rest_together() {
        let tally = CounterTable::new(&Arc::new(SeriesBudget::of(16_384)));
        for policy in 1..=20_000 {
            tally.count(CounterKey { policy, outcome: 4, ..CounterKey::default() });
        }
        let counts = taken(&tally);
        assert_eq!(counts.len(), 16_384 + 1);
        assert_eq!(counts[&CounterKey { outcome: 4, ..CounterKey::default() }.key()], 20_000 - 16_384);
    }
}
