use std::cell::RefCell;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};

use portcullis_core::StateStore;
use portcullis_core::bucket::{Rate, TokenBucket};
use portcullis_core::limit::{InFlight, SharedCount};
use portcullis_core::review::CredentialCaches;
use portcullis_core::review::Store;
use portcullis_core::state_store::CacheOwner;
use portcullis_core::weak_map::WeakMap;
use ring::hmac;

use crate::hostcalls::Hostcalls;
use crate::shared_buckets::SharedBucket;
use crate::shared_in_flight::Places;
use crate::shared_table;

const SECRET: &[u8] = b"portcullis/secret";

/// State that outlives configurations: of one VM, and what it shares with the others.
#[derive(Debug)]
pub(crate) struct VmMemory<H> {
    host: H,
    vm: u64,
    /// The same for all VMs, so that they find each other's answers. With it an answer reveals its token.
    secret: hmac::Key,
    pub(crate) store: Store,
    caches: WeakMap<CacheOwner, CredentialCaches>,
    running: WeakMap<(String, String), InFlight>,
    buckets: WeakMap<(String, String, Rate), TokenBucket>,
    places: RefCell<Vec<Weak<Places<H>>>>,
}

impl<H: Hostcalls> VmMemory<H> {
    /// `None` where Envoy has no randomness, or shares nothing.
    pub(crate) fn open(host: &H) -> Option<Self> {
        if !shared_table::prepare(host) {
            return None;
        }
        let random = host.random()?;
        let secret = match host.shared(SECRET) {
            Some((secret, _)) => secret,
            // The first VM is made before any worker runs.
            None => {
                let secret = host.random()?.to_vec();
                host.set_shared(SECRET, &secret, 0).then_some(secret)?
            }
        };
        let secret = hmac::Key::new(hmac::HMAC_SHA256, Some(secret).filter(|secret| secret.len() == 32)?.as_slice());
        Some(VmMemory {
            host: host.clone(),
            vm: random.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?,
            secret,
            store: Store::of_a_worker(),
            caches: WeakMap::default(),
            running: WeakMap::default(),
            buckets: WeakMap::default(),
            places: RefCell::default(),
        })
    }

    /// Says that this VM still holds its places. Whether it holds any.
    pub(crate) fn renew(&self) -> bool {
        let mut places = self.places.borrow_mut();
        places.retain(|places| places.strong_count() > 0);
        let held: Vec<_> = places.iter().filter_map(Weak::upgrade).filter(|places| places.own() > 0).collect();
        held.iter().for_each(|places| places.renew());
        !held.is_empty()
    }
}

/// The permits of one schema, counted over all VMs.
#[derive(Debug)]
struct Counted<H>(Arc<Places<H>>);

impl<H: Hostcalls> SharedCount for Counted<H> {
    fn acquire(&self, max: u32) -> bool {
        self.0.acquire(max)
    }

    fn release(&self) {
        self.0.release();
    }

    fn own(&self) -> u32 {
        self.0.own()
    }
}

impl<H: Hostcalls> StateStore for VmMemory<H> {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        let lifetimes = owner.lifetimes;
        // Everything that makes an owner another one stands in its text, so that no two have the same secret.
        let derived = hmac::sign(&self.secret, format!("{owner:?}").as_bytes());
        let mut secret = [0; 32];
        secret.copy_from_slice(derived.as_ref());
        self.caches.get_or_insert_with(owner, || CredentialCaches::new(&secret, lifetimes, &self.store))
    }

    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight> {
        self.running.get_or_insert_with((cluster.to_owned(), schema.to_owned()), || {
            let id = shared_table::id_of(&[cluster.as_bytes(), schema.as_bytes()]);
            let places = Places { host: self.host.clone(), id, vm: self.vm, own: AtomicU32::new(0) };
            let places = Arc::new(places);
            self.places.borrow_mut().push(Arc::downgrade(&places));
            InFlight::shared(Box::new(Counted(places)))
        })
    }

    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket> {
        self.buckets.get_or_insert_with((cluster.to_owned(), schema.to_owned(), rate), || {
            let numbers = [rate.qps.to_le_bytes(), rate.burst.to_le_bytes()].concat();
            let id = shared_table::id_of(&[cluster.as_bytes(), schema.as_bytes(), &numbers]);
            TokenBucket::shared(rate, Box::new(SharedBucket { host: self.host.clone(), id }))
        })
    }
}
