use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};
use std::time::Duration;

use portcullis_filter_config::{FairQueueConfig, FlowControlSchema};
use ring::hmac;

use super::counts::{RENEWAL_INTERVAL, SharedBucket, SharedInFlight};
use super::{CacheOwner, SharedData, SharedLimits, StateStore, answers, shared_limits, table};
use crate::bucket::{Rate, TokenBucket};
use crate::fair::{FairQueue, WaitingCount};
use crate::flow_limit::FlowLimit;
use crate::limit::{InFlight, SharedCount};
use crate::observe::{RunningRequests, SeriesBudget, SeriesLedger};
use crate::review::{CredentialCaches, Review, ReviewKey, ReviewResult, Store};
use crate::weak_map::WeakMap;

const SECRET: &[u8] = b"portcullis/secret";
/// Interval at which answers that are too old are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// State that outlives configurations in a worker that shares no memory with the others: its own, and the data that all share.
#[derive(Debug)]
pub struct SharedState<H> {
    host: H,
    vm: u64,
    /// The same for all VMs, so that they find each other's answers. With it an answer reveals its token.
    secret: hmac::Key,
    store: Store,
    caches: WeakMap<CacheOwner, CredentialCaches>,
    in_flight: WeakMap<(String, String), InFlight>,
    buckets: WeakMap<(String, String, Rate), TokenBucket>,
    fair_queues: WeakMap<(String, String), FairQueue>,
    waiting: WaitingCount,
    /// The same of each cluster.
    waiting_of_clusters: WeakMap<String, WaitingCount>,
    running: WeakMap<String, RunningRequests>,
    series: Arc<SeriesBudget>,
    ledgers: WeakMap<String, SeriesLedger>,
    permits: RefCell<Vec<Weak<SharedInFlight<H>>>>,
    /// Whether a configuration has exchanges about limits of all gateways.
    has_exchanges: Cell<bool>,
    limits: SharedLimits<H>,
}

impl<H: SharedData> SharedState<H> {
    /// Opens the state of this worker. `None` where the proxy has no randomness, or shares nothing.
    pub fn open(host: &H) -> Option<Self> {
        if !table::prepare(host) || !shared_limits::prepare(host) {
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
        let vm = random.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
        Some(SharedState {
            limits: SharedLimits::new(host, vm, &secret),
            has_exchanges: Cell::new(false),
            host: host.clone(),
            vm,
            secret,
            store: Store::of_a_worker(),
            caches: WeakMap::default(),
            in_flight: WeakMap::default(),
            buckets: WeakMap::default(),
            fair_queues: WeakMap::default(),
            waiting: WaitingCount::default(),
            waiting_of_clusters: WeakMap::default(),
            running: WeakMap::default(),
            series: Arc::default(),
            ledgers: WeakMap::default(),
            permits: RefCell::default(),
        })
    }

    /// Renews the permits that this worker holds, and forgets answers that are too old. Returns after which time it has to be called
    /// again; `None` if there is nothing to renew and to forget.
    pub fn maintain(&self) -> Option<Duration> {
        let mut permits = self.permits.borrow_mut();
        permits.retain(|permits| permits.strong_count() > 0);
        let held: Vec<_> = permits.iter().filter_map(Weak::upgrade).filter(|permits| permits.own() > 0).collect();
        held.iter().for_each(|permits| permits.renew());
        let remembers = self.host.uptime().is_some_and(|uptime| self.store.forget_old(uptime));
        let renewal = (!held.is_empty()).then_some(RENEWAL_INTERVAL);
        renewal.into_iter().chain(remembers.then_some(SWEEP_INTERVAL)).min()
    }

    /// Gives configurations that are loaded from now on parts of limits of all gateways. False if they had them before.
    pub fn begin_exchanges(&self) -> bool {
        !self.has_exchanges.replace(true)
    }

    /// The exchange about limits of all gateways.
    pub fn limits(&self) -> &SharedLimits<H> {
        &self.limits
    }

    /// Shares an answer with the other workers, if requests have waited for it. Each worker checks the tokens that keys verify; one that
    /// a check rejects is shared no longer.
    pub fn share_answer(&self, review: &Review, result: &ReviewResult, body: &[u8], came: Duration) {
        let key = review.key();
        match result {
            ReviewResult::Rejected if review.is_check() => answers::forget(&self.host, &key, |_| true),
            _ if review.is_check() => {}
            _ => answers::put(&self.host, &key, result, body, came.as_secs()),
        }
    }

    /// Looks for an answer of another worker. It is kept from the uptime on at which it came there, so that it is trusted no
    /// longer than there.
    pub fn find_answer(&self, review: &Review) -> bool {
        let found = answers::find(&self.host, &review.key());
        found.is_some_and(|(answer, at)| {
            review.accept_answer(201, &answer, Duration::from_secs(at));
            true
        })
    }

    /// Removes a good answer that the upstream has contradicted, unless it came just now.
    pub fn invalidate_answer(&self, key: &ReviewKey, uptime: Duration) {
        answers::invalidate_if_older(&self.host, key, uptime.as_secs());
    }
}

/// The permits of one schema, counted over all VMs.
#[derive(Debug)]
struct Counted<H>(Arc<SharedInFlight<H>>);

impl<H: SharedData> SharedCount for Counted<H> {
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

impl<H: SharedData> StateStore for SharedState<H> {
    fn caches(&self, owner: CacheOwner) -> Arc<CredentialCaches> {
        let lifetimes = owner.lifetimes;
        // The text of an owner has all its fields, so that no two owners have the same secret.
        let derived = hmac::sign(&self.secret, format!("{owner:?}").as_bytes());
        let mut secret = [0; 32];
        secret.copy_from_slice(derived.as_ref());
        self.caches.get_or_insert_with(owner, || CredentialCaches::new(&secret, lifetimes, &self.store))
    }

    fn in_flight(&self, cluster: &str, schema: &str) -> Arc<InFlight> {
        self.in_flight.get_or_insert_with((cluster.to_owned(), schema.to_owned()), || {
            let id = table::row_id(&self.secret, &[cluster.as_bytes(), schema.as_bytes()]);
            let permits = SharedInFlight { host: self.host.clone(), id, vm: self.vm, own: AtomicU32::new(0) };
            let permits = Arc::new(permits);
            self.permits.borrow_mut().push(Arc::downgrade(&permits));
            InFlight::shared(Box::new(Counted(permits)))
        })
    }

    fn host_limit(&self, cluster: &str, schema: &FlowControlSchema) -> Option<FlowLimit> {
        if !self.has_exchanges.get() {
            return None;
        }
        self.limits.part(cluster, schema, || self.in_flight(cluster, &schema.name)).map(FlowLimit::shared)
    }

    /// Seats are counted by each worker alone.
    fn fair_queue(&self, cluster: &str, config: &FairQueueConfig) -> Arc<FairQueue> {
        let mut secret = [0; 32];
        secret.copy_from_slice(hmac::sign(&self.secret, b"fair queues").as_ref());
        let key = (cluster.to_owned(), config.name.clone());
        self.fair_queues.get_or_insert_with(key, || {
            let waiting = || self.waiting.of_cluster();
            let waiting = self.waiting_of_clusters.get_or_insert_with(cluster.to_owned(), waiting);
            FairQueue::new(&secret, &waiting, config)
        })
    }

    fn running(&self, cluster: &str) -> Arc<RunningRequests> {
        self.running.get_or_insert_with(cluster.to_owned(), RunningRequests::default)
    }

    fn ledger(&self, cluster: &str) -> Arc<SeriesLedger> {
        self.ledgers.get_or_insert_with(cluster.to_owned(), || SeriesLedger::new(&self.series))
    }

    fn token_bucket(&self, cluster: &str, schema: &str, rate: Rate) -> Arc<TokenBucket> {
        self.buckets.get_or_insert_with((cluster.to_owned(), schema.to_owned(), rate), || {
            let numbers = [rate.qps.to_le_bytes(), rate.burst.to_le_bytes()].concat();
            let id = table::row_id(&self.secret, &[cluster.as_bytes(), schema.as_bytes(), &numbers]);
            TokenBucket::shared(rate, Box::new(SharedBucket { host: self.host.clone(), id, rate }))
        })
    }
}
