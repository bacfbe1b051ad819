//! What outlives the configuration that made it, for as long as anything uses it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What is alive, by its key. Whoever uses a value keeps it alive; the next configuration of the same cluster is compiled
/// before the one that it replaces is gone, and finds it here.
#[derive(Debug)]
pub struct Alive<K, V>(Mutex<HashMap<K, Weak<V>>>);

impl<K, V> Default for Alive<K, V> {
    fn default() -> Self {
        Alive(Mutex::default())
    }
}

impl<K: Eq + Hash, V> Alive<K, V> {
    /// The value that is alive under the key, or a new one.
    pub fn find_or_make(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        let mut alive = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        alive.retain(|_, value| value.strong_count() > 0);
        if let Some(value) = alive.get(&key).and_then(Weak::upgrade) {
            return value;
        }
        let value = Arc::new(make());
        alive.insert(key, Arc::downgrade(&value));
        value
    }
}
