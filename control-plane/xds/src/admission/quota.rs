//! The usage of one peer, or of all Envoys of one instance together, and its bounds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::common_room::{ByteRoom, CommonRest, InstanceRoom, units};
use crate::limits::Limits;
use crate::lock::lock;
use crate::peer::Peer;

/// The part of the time that passes which makes up for work: of a peer, and of an instance.
const PEER_WORK: f64 = 0.25;
const INSTANCE_WORK: f64 = 0.5;

/// Streams of one node with names that count nothing: the one that it has, and the one before, which may not have ended yet.
const FREE_NAMES_OF_ONE: usize = 2;

/// The room for bytes that are not read.
enum UnreadRoom {
    OfPeer(ByteRoom),
    OfInstance(InstanceRoom),
}

/// Bounds of a [`Quota`].
pub(super) struct QuotaBounds {
    pub(super) connections: usize,
    pub(super) streams: usize,
    pub(super) exchanges: usize,
    unread: UnreadRoom,
    names: usize,
    free_names: usize,
    receiving: ByteRoom,
    openings: f64,
    beginnings: f64,
    bytes: f64,
    work: Duration,
    work_per_second: f64,
}

impl QuotaBounds {
    /// Those of one peer.
    pub(super) fn of_peer(peer: &Peer, limits: &Limits) -> Self {
        Self {
            free_names: if peer.is_of_many() { limits.connections_per_peer } else { FREE_NAMES_OF_ONE },
            connections: limits.connections_per_peer,
            streams: limits.streams_per_peer,
            exchanges: limits.exchanges_per_peer,
            unread: UnreadRoom::OfPeer(ByteRoom::new(limits.unread)),
            names: limits.name_bytes,
            receiving: ByteRoom::new(limits.receiving),
            openings: f64::from(limits.stream_burst),
            beginnings: f64::from(limits.exchange_burst),
            bytes: limits.exchange_bytes as f64,
            work: limits.work,
            work_per_second: PEER_WORK,
        }
    }

    /// Those of all Envoys of one instance. Streams and exchanges are paced for each peer.
    pub(super) fn of_instance(limits: &Limits, rest: &Arc<CommonRest>) -> Self {
        Self {
            free_names: 0,
            connections: limits.connections_per_instance,
            streams: limits.streams_per_instance,
            exchanges: limits.exchanges_per_instance,
            unread: UnreadRoom::OfInstance(InstanceRoom::new(limits, rest)),
            names: limits.name_bytes_per_instance,
            receiving: ByteRoom::new(limits.receiving_per_instance),
            openings: f64::MAX,
            beginnings: f64::MAX,
            bytes: limits.exchange_bytes_per_instance as f64,
            work: limits.work_per_instance,
            work_per_second: INSTANCE_WORK,
        }
    }
}

/// The usage within [`QuotaBounds`].
pub(super) struct Quota {
    pub(super) bounds: QuotaBounds,
    pub(super) connections: AtomicUsize,
    pub(super) streams: AtomicUsize,
    pub(super) exchanges: AtomicUsize,
    /// Streams that may be opened, and when that was so.
    pub(super) openings: Mutex<Bucket>,
    /// Exchanges that may begin, and bytes that may come in them.
    pub(super) beginnings: Mutex<Bucket>,
    pub(super) bytes: Mutex<Bucket>,
    /// Time that requests may take.
    pub(super) work: Mutex<Bucket>,
    /// Units of bytes of names that no resource has.
    pub(super) names: Arc<Semaphore>,
    /// Streams that may still have a free part of these.
    pub(super) free_names: Arc<Semaphore>,
    /// Of a peer, its turn with a response beyond its room.
    beyond: Arc<Semaphore>,
}

impl Quota {
    fn new(bounds: QuotaBounds) -> Self {
        Self {
            connections: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            exchanges: AtomicUsize::new(0),
            openings: Mutex::new(Bucket::new(bounds.openings, 1.0)),
            beginnings: Mutex::new(Bucket::filled_in_two_seconds(bounds.beginnings)),
            bytes: Mutex::new(Bucket::filled_in_two_seconds(bounds.bytes)),
            work: Mutex::new(Bucket::new(bounds.work.as_secs_f64(), bounds.work_per_second)),
            names: Arc::new(Semaphore::new(units(bounds.names))),
            free_names: Arc::new(Semaphore::new(bounds.free_names)),
            beyond: Arc::new(Semaphore::new(1)),
            bounds,
        }
    }

    /// Whether it is that of a new one.
    fn is_at_rest(&self, now: Instant) -> bool {
        let is_full = |bucket: &Mutex<Bucket>| {
            let mut bucket = lock(bucket);
            bucket.level(now) >= bucket.size
        };
        self.connections.load(Ordering::Relaxed) == 0
            && self.streams.load(Ordering::Relaxed) == 0
            && self.exchanges.load(Ordering::Relaxed) == 0
            && is_full(&self.openings)
            && is_full(&self.beginnings)
            && is_full(&self.bytes)
            && is_full(&self.work)
    }

    /// Whether bytes or work of before have to be made up for.
    pub(super) fn is_in_debt(&self, now: Instant) -> bool {
        [&self.bytes, &self.work].into_iter().any(|bucket| lock(bucket).level(now) < 0.0)
    }

    /// Whether work of before has to be made up for.
    pub(super) fn owes_work(&self, now: Instant) -> bool {
        lock(&self.work).level(now) < 0.0
    }

    /// Waits for room for so many bytes; one response that is larger than all room goes alone.
    pub(super) async fn unread(&self, bytes: usize) -> Vec<OwnedSemaphorePermit> {
        match &self.bounds.unread {
            UnreadRoom::OfPeer(room) => room.take(bytes).await.into_iter().collect(),
            UnreadRoom::OfInstance(room) => room.take(bytes).await,
        }
    }

    /// Whether a response needs more than the part that the instance has for itself.
    pub(super) fn is_beyond_own(&self, bytes: usize) -> bool {
        match &self.bounds.unread {
            UnreadRoom::OfPeer(_) => false,
            UnreadRoom::OfInstance(room) => room.is_beyond_own(bytes),
        }
    }

    /// Waits for the turn with a response beyond the room of the peer, behind those who came before.
    pub(super) async fn turn_beyond(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.beyond).acquire_owned().await.ok()
    }

    /// Waits for room for a message of so many bytes; one that is larger than all room goes alone.
    pub(super) async fn receive(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.bounds.receiving.take(bytes).await
    }

    /// Records work. Returns the time that the next one has to wait.
    pub(super) fn worked(&self, took: Duration) -> Duration {
        let mut work = lock(&self.work);
        let missing = (-work.take(took.as_secs_f64())).max(0.0) / work.per_second;
        Duration::try_from_secs_f64(missing).unwrap_or_default()
    }
}

/// The quotas of those with a connection. One without stays until its buckets are full again, so that a reconnect does not refill
/// them.
pub(super) struct QuotaTable<K>(Mutex<BTreeMap<K, Arc<Quota>>>);

impl<K> Default for QuotaTable<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone> QuotaTable<K> {
    /// The quota of one, if there is room for another one.
    pub(super) fn get(&self, key: &K, room: usize, bounds: impl FnOnce() -> QuotaBounds) -> Option<Arc<Quota>> {
        let mut open = lock(&self.0);
        if let Some(quota) = open.get(key) {
            return Some(Arc::clone(quota));
        }
        let now = Instant::now();
        // One that is held is about to be used: a second one beside it would be a second share.
        open.retain(|_, quota| Arc::strong_count(quota) > 1 || !quota.is_at_rest(now));
        if open.len() >= room {
            return None;
        }
        let quota = Arc::new(Quota::new(bounds()));
        open.insert(key.clone(), Arc::clone(&quota));
        Some(quota)
    }
}

/// A token bucket: it fills while time passes.
pub(super) struct Bucket {
    pub(super) level: f64,
    size: f64,
    per_second: f64,
    at: Instant,
}

impl Bucket {
    /// Takes more than there is, too, but never more than fills it from empty: all have a bounded time to wait. Returns what is left.
    pub(super) fn take(&mut self, amount: f64) -> f64 {
        self.level = (self.level(Instant::now()) - amount).max(-self.size);
        self.level
    }

    fn new(size: f64, per_second: f64) -> Self {
        Self { level: size, size, per_second, at: Instant::now() }
    }

    fn filled_in_two_seconds(size: f64) -> Self {
        Self::new(size, size / 2.0)
    }

    pub(super) fn level(&mut self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.level = (self.level + passed * self.per_second).min(self.size);
        self.level
    }
}
