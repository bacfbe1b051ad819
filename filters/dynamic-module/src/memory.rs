use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use portcullis_core::Memory;
use portcullis_core::cluster::CacheOwner;
use portcullis_core::limit::InFlight;
use portcullis_core::review::CredentialCaches;
use ring::rand::{SecureRandom, SystemRandom};

/// What is alive, by its key. Whoever uses a value keeps it alive; the next configuration of the same cluster is compiled
/// before the one that it replaces is gone, and finds it here.
type Alive<K, V> = LazyLock<Mutex<HashMap<K, Weak<V>>>>;

static CACHES: Alive<CacheOwner, CredentialCaches> = LazyLock::new(Mutex::default);
static RUNNING: Alive<(String, String), InFlight> = LazyLock::new(Mutex::default);

/// The process's memory, with a secret for caches that are yet to be made.
pub(crate) struct ProcessMemory {
    secret: [u8; 32],
}

impl ProcessMemory {
    /// `None` if the system has no randomness to give.
    pub(crate) fn new() -> Option<Self> {
        let mut secret = [0; 32];
        SystemRandom::new().fill(&mut secret).ok()?;
        Some(ProcessMemory { secret })
    }
}

impl Memory for ProcessMemory {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        let lifetimes = owner.lifetimes;
        find_or_make(&CACHES, owner, || CredentialCaches::new(&self.secret, lifetimes))
    }

    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight> {
        find_or_make(&RUNNING, (cluster.to_owned(), schema.to_owned()), InFlight::default)
    }
}

fn find_or_make<K: Eq + Hash, V>(alive: &Alive<K, V>, key: K, make: impl FnOnce() -> V) -> Arc<V> {
    let mut alive = alive.lock().unwrap_or_else(PoisonError::into_inner);
    alive.retain(|_, value| value.strong_count() > 0);
    if let Some(value) = alive.get(&key).and_then(Weak::upgrade) {
        return value;
    }
    let value = Arc::new(make());
    alive.insert(key, Arc::downgrade(&value));
    value
}
