use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use portcullis_core::x509::CertificateCache;

/// By a cluster's identity and the digest of its client CA.
type Key = (String, Vec<u8>);

/// Every live cluster's certificate cache, for the whole process: a configuration that replaces another one finds what its
/// predecessor has verified.
static CACHES: LazyLock<Mutex<HashMap<Key, Weak<CertificateCache>>>> = LazyLock::new(Mutex::default);

/// The cache of a cluster, made if there is none.
pub(crate) fn certificates_of(identity: &str, ca_digest: &[u8]) -> Arc<CertificateCache> {
    let mut caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    caches.retain(|_, cache| cache.strong_count() > 0);
    let key = (identity.to_owned(), ca_digest.to_vec());
    if let Some(cache) = caches.get(&key).and_then(Weak::upgrade) {
        return cache;
    }
    let cache = Arc::new(CertificateCache::default());
    caches.insert(key, Arc::downgrade(&cache));
    cache
}
