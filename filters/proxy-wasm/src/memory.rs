use std::sync::Arc;

use portcullis_core::Memory;
use portcullis_core::alive::Alive;
use portcullis_core::bucket::{Rate, TokenBucket};
use portcullis_core::cluster::CacheOwner;
use portcullis_core::limit::InFlight;
use portcullis_core::review::CredentialCaches;

/// What outlives configurations, for one VM.
#[derive(Debug, Default)]
pub(crate) struct VmMemory {
    caches: Alive<CacheOwner, CredentialCaches>,
    running: Alive<(String, String), InFlight>,
    buckets: Alive<(String, String, Rate), TokenBucket>,
}

/// The VM's memory, with a secret for caches that are yet to be made: no two have the same.
pub(crate) struct Making<'a> {
    pub(crate) memory: &'a VmMemory,
    pub(crate) secret: [u8; 32],
}

impl Memory for Making<'_> {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        let lifetimes = owner.lifetimes;
        self.memory.caches.find_or_make(owner, || CredentialCaches::new(&self.secret, lifetimes))
    }

    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight> {
        self.memory.running.find_or_make((cluster.to_owned(), schema.to_owned()), InFlight::default)
    }

    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket> {
        let key = (cluster.to_owned(), schema.to_owned(), rate);
        self.memory.buckets.find_or_make(key, || TokenBucket::new(rate))
    }
}
