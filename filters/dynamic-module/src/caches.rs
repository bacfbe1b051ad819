use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use portcullis_core::cluster::CacheOwner;
use portcullis_core::review::CredentialCaches;
use ring::rand::{SecureRandom, SystemRandom};

/// Every live cluster's caches, for the whole process: a configuration that replaces another one finds what its
/// predecessor has learnt.
static CACHES: LazyLock<Mutex<HashMap<CacheOwner, Weak<CredentialCaches>>>> = LazyLock::new(Mutex::default);

/// A secret for caches that are yet to be made. `None` if the system has no randomness to give.
pub(crate) fn secret() -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).ok()?;
    Some(secret)
}

/// The caches of an owner, made with the secret if there are none.
pub(crate) fn of(owner: CacheOwner, secret: &[u8; 32]) -> Arc<CredentialCaches> {
    let mut caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    caches.retain(|_, cache| cache.strong_count() > 0);
    if let Some(cache) = caches.get(&owner).and_then(Weak::upgrade) {
        return cache;
    }
    let cache = Arc::new(CredentialCaches::new(secret, owner.lifetimes));
    caches.insert(owner, Arc::downgrade(&cache));
    cache
}
