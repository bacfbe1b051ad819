use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use portcullis_core::StateStore;
use portcullis_core::bucket::{Rate, TokenBucket};
use portcullis_core::limit::InFlight;
use portcullis_core::review::CredentialCaches;
use portcullis_core::review::Store;
use portcullis_core::state_store::CacheOwner;
use portcullis_core::weak_map::WeakMap;
use ring::rand::{SecureRandom, SystemRandom};

static STORE: LazyLock<Store> = LazyLock::new(Store::default);
static CACHES: LazyLock<WeakMap<CacheOwner, CredentialCaches>> = LazyLock::new(WeakMap::default);
static RUNNING: LazyLock<WeakMap<(String, String), InFlight>> = LazyLock::new(WeakMap::default);
static BUCKETS: LazyLock<WeakMap<(String, String, Rate), TokenBucket>> = LazyLock::new(WeakMap::default);
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The time since this process first asked, which only goes forward; the same for all buckets and workers.
pub(crate) fn uptime(now: Instant) -> Duration {
    now.saturating_duration_since(*START)
}

/// Forgets what is too old. Whether anything is remembered.
pub(crate) fn forget_old() -> bool {
    STORE.forget_old(uptime(Instant::now()))
}

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

impl StateStore for ProcessMemory {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        let lifetimes = owner.lifetimes;
        CACHES.get_or_insert_with(owner, || CredentialCaches::new(&self.secret, lifetimes, &STORE))
    }

    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight> {
        RUNNING.get_or_insert_with((cluster.to_owned(), schema.to_owned()), InFlight::default)
    }

    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket> {
        BUCKETS.get_or_insert_with((cluster.to_owned(), schema.to_owned(), rate), || TokenBucket::new(rate))
    }
}
