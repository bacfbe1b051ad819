//! A map of weak references: a value lives as long as something uses it, across configurations.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Live values by key. A user of a value keeps it alive; the next configuration of the same cluster is compiled before the one
/// that it replaces is gone, and finds the value here.
#[derive(Debug)]
pub struct WeakMap<K, V>(Mutex<Entries<K, V>>);

#[derive(Debug)]
struct Entries<K, V> {
    values: HashMap<K, Weak<V>>,
    /// Number of keys at which dead ones are swept.
    most: usize,
}

/// Fewer keys than this are not worth a look.
const SWEEP_THRESHOLD: usize = 64;

impl<K, V> Default for WeakMap<K, V> {
    fn default() -> Self {
        WeakMap(Mutex::new(Entries { values: HashMap::new(), most: SWEEP_THRESHOLD }))
    }
}

impl<K: Eq + Hash, V> Entries<K, V> {
    /// Removes dead values, not at every call: a configuration with many keys would look through all of them for each.
    fn sweep(&mut self) {
        if self.values.len() >= self.most {
            self.values.retain(|_, value| value.strong_count() > 0);
            self.most = self.values.len().saturating_mul(2).max(SWEEP_THRESHOLD);
        }
    }
}

impl<K: Eq + Hash, V> WeakMap<K, V> {
    /// The value that is alive under the key, or a new one.
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = kept.values.get(&key).and_then(Weak::upgrade) {
            return value;
        }
        kept.sweep();
        let value = Arc::new(make());
        kept.values.insert(key, Arc::downgrade(&value));
        value
    }

    /// The value that is alive under the key.
    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values.get(key)?.upgrade()
    }

    /// Puts another value under the key, and returns the one that was alive there.
    pub(crate) fn replace(&self, key: K, value: &Arc<V>) -> Option<Arc<V>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.sweep();
        kept.values.insert(key, Arc::downgrade(value)).and_then(|former| former.upgrade())
    }

    /// Calls `f` for every value that is alive.
    pub fn for_each(&self, f: impl FnMut(Arc<V>)) {
        let values: Vec<_> = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.values.values().filter_map(Weak::upgrade).collect()
        };
        values.into_iter().for_each(f);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_value_is_dropped_and_made_again() {
        let alive: WeakMap<usize, usize> = WeakMap::default();
        let made = |key| alive.get_or_insert_with(key, || key);
        let used = made(0);
        assert!(Arc::ptr_eq(&used, &made(0)));
        for key in 1..1_000 {
            drop(made(key));
        }
        assert!(Arc::ptr_eq(&used, &made(0)), "whatever was swept meanwhile");
        let kept = alive.0.lock().unwrap().values.len();
        assert!(kept <= SWEEP_THRESHOLD, "{kept}");
        let mut found = Vec::new();
        alive.for_each(|value| found.push(*value));
        assert_eq!(found, [0]);
        let held: Vec<_> = (0..1_000).map(made).collect();
        assert!(held.iter().enumerate().all(|(key, value)| Arc::ptr_eq(value, &made(key))));
    }
}
