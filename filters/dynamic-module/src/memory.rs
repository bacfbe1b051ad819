use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use portcullis_core::Memory;
use portcullis_core::alive::Alive;
use portcullis_core::bucket::{Rate, TokenBucket};
use portcullis_core::limit::InFlight;
use portcullis_core::review::CredentialCaches;
use portcullis_core::review::Store;
use portcullis_core::state_store::CacheOwner;
use ring::rand::{SecureRandom, SystemRandom};

static STORE: LazyLock<Store> = LazyLock::new(Store::default);
static CACHES: LazyLock<Alive<CacheOwner, CredentialCaches>> = LazyLock::new(Alive::default);
static RUNNING: LazyLock<Alive<(String, String), InFlight>> = LazyLock::new(Alive::default);
static BUCKETS: LazyLock<Alive<(String, String, Rate), TokenBucket>> = LazyLock::new(Alive::default);
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

impl Memory for ProcessMemory {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        let lifetimes = owner.lifetimes;
        CACHES.find_or_make(owner, || CredentialCaches::new(&self.secret, lifetimes, &STORE))
    }

    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight> {
        RUNNING.find_or_make((cluster.to_owned(), schema.to_owned()), InFlight::default)
    }

    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket> {
        BUCKETS.find_or_make((cluster.to_owned(), schema.to_owned(), rate), || TokenBucket::new(rate))
    }
}
