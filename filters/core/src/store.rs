//! What is remembered of credentials, of all clusters together: each kind has its room in bytes, however many clusters there are,
//! so that what strangers make a process remember is bounded. Kinds are apart, so that bad answers displace no good ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::review::Answer;
use crate::x509::{LatestChain, RefusedChain, VerifiedChain};

/// Bytes that answers of each kind may take in the process. So many tokens are some 30,000 usual users.
const TOKENS: u64 = 48 << 20;
const CERTIFICATES: u64 = 28 << 20;
const LATEST: u64 = 4 << 20;
const ALLOWED: u64 = 8 << 20;
const BAD: u64 = 4 << 20;

/// Workers whose memories together are as large as a process's.
const WORKERS: u64 = 8;

/// Parts of each cache that are locked apart, and of one that a single worker uses. The largest user takes less than the share of
/// one.
const SHARDS: usize = 32;
const SHARDS_OF_A_WORKER: usize = 4;

/// Bytes that an entry takes beside what it holds: its key, its places in tables and its counts.
const ENTRY: u64 = 192;

/// How often entries are looked through for old ones.
const SWEPT: Duration = Duration::from_secs(10);

/// A digest or keyed hash.
pub(crate) type Key = [u8; 32];

/// Something that is remembered for a while.
pub(crate) trait Aging {
    /// Bytes that it takes, allocations included.
    fn bytes(&self) -> u64;

    /// The uptime from which on it is of no use.
    fn kept_until(&self) -> Duration;
}

/// The memory of a process for credentials.
#[derive(Debug)]
pub struct Store {
    pub(crate) tokens: Arc<Room<Answer>>,
    pub(crate) rejected: Arc<Room<Answer>>,
    pub(crate) allowed: Arc<Room<Answer>>,
    pub(crate) denied: Arc<Room<Answer>>,
    pub(crate) verified: Arc<Room<VerifiedChain>>,
    pub(crate) latest: Arc<Room<LatestChain>>,
    pub(crate) refused: Arc<Room<RefusedChain>>,
    owners: AtomicU64,
    /// The uptime, in milliseconds, at which entries are looked through next.
    next_sweep: AtomicU64,
}

impl Default for Store {
    fn default() -> Self {
        Store::in_parts(1, SHARDS)
    }
}

impl Store {
    /// The memory of a wasm VM, an eighth of what a process has: each of Envoy's workers has a VM, and no VM sees how many others
    /// there are.
    pub fn of_a_worker() -> Self {
        Store::in_parts(WORKERS, SHARDS_OF_A_WORKER)
    }

    fn in_parts(parts: u64, shards: usize) -> Self {
        Store {
            tokens: Room::new(TOKENS / parts, shards),
            rejected: Room::new(BAD / parts, shards),
            allowed: Room::new(ALLOWED / parts, shards),
            denied: Room::new(BAD / parts, shards),
            verified: Room::new(CERTIFICATES / parts, shards),
            latest: Room::new(LATEST / parts, shards),
            refused: Room::new(BAD / parts, shards),
            owners: AtomicU64::new(0),
            next_sweep: AtomicU64::new(0),
        }
    }

    /// A number for somebody who shares the memory, and nothing of what is in it.
    pub(crate) fn owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Forgets what is too old to be of use, if it was not looked for just now. To be called every few seconds while anything is
    /// remembered. Whether anything is.
    pub fn forget_old(&self, uptime: Duration) -> bool {
        let millis = u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX);
        let next = millis.saturating_add(u64::try_from(SWEPT.as_millis()).unwrap_or(u64::MAX));
        let is_due = |due: u64| (due <= millis).then_some(next);
        if self.next_sweep.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_due).is_ok() {
            for room in [&self.tokens, &self.rejected, &self.allowed, &self.denied] {
                room.forget_old(uptime);
            }
            self.verified.forget_old(uptime);
            self.latest.forget_old(uptime);
            self.refused.forget_old(uptime);
        }
        self.bytes() > 0
    }

    /// Bytes that everything takes that is remembered.
    pub fn bytes(&self) -> u64 {
        let answers = [&self.tokens, &self.rejected, &self.allowed, &self.denied].map(|room| room.cache.weight());
        answers
            .iter()
            .sum::<u64>()
            .saturating_add(self.verified.cache.weight())
            .saturating_add(self.latest.cache.weight())
            .saturating_add(self.refused.cache.weight())
    }
}

/// The room of one kind.
#[derive(Debug)]
pub(crate) struct Room<T> {
    cache: Cache<(u64, Key), Arc<Kept<T>>, ByBytes>,
    most: u64,
}

impl<T: Aging> Room<T> {
    fn new(most: u64, shards: usize) -> Arc<Self> {
        let usual = usize::try_from(most / 512).unwrap_or(usize::MAX);
        let options =
            OptionsBuilder::new().estimated_items_capacity(usual).weight_capacity(most).shards(shards).build().ok();
        let cache = match options {
            Some(options) => {
                Cache::with_options(options, ByBytes, DefaultHashBuilder::default(), DefaultLifecycle::default())
            }
            None => Cache::with_weighter(usual, most, ByBytes),
        };
        Arc::new(Room { cache, most })
    }

    fn forget_old(&self, uptime: Duration) {
        self.cache.retain(|_, kept| uptime < kept.value.kept_until());
    }
}

/// What one owner has remembered of one kind.
#[derive(Debug)]
pub(crate) struct Remembered<T> {
    room: Arc<Room<T>>,
    owner: u64,
    tally: Arc<Tally>,
}

/// What one owner has in one room.
#[derive(Debug, Default)]
struct Tally {
    entries: AtomicU64,
    bytes: AtomicU64,
}

/// A value, counted as its owner's for as long as it is there.
#[derive(Debug)]
struct Kept<T> {
    value: T,
    bytes: u64,
    tally: Arc<Tally>,
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        self.tally.entries.fetch_sub(1, Ordering::Relaxed);
        self.tally.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug)]
struct ByBytes;

impl<T> Weighter<(u64, Key), Arc<Kept<T>>> for ByBytes {
    fn weight(&self, _key: &(u64, Key), kept: &Arc<Kept<T>>) -> u64 {
        kept.bytes
    }
}

impl<T: Aging> Remembered<T> {
    /// Nothing yet, of an owner of the memory.
    pub(crate) fn new(room: &Arc<Room<T>>, owner: u64) -> Self {
        Remembered { room: Arc::clone(room), owner, tally: Arc::default() }
    }

    /// What is remembered, as `read` reads it.
    pub(crate) fn get<R>(&self, key: &Key, read: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        self.room.cache.get(&(self.owner, *key)).and_then(|kept| read(&kept.value))
    }

    /// Whether anything is remembered, too old or not.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.room.cache.contains_key(&(self.owner, *key))
    }

    /// Remembers a value, in the place of what was there. An owner that has half of the room keeps nothing more until some of it
    /// is forgotten, so that the others have the other half.
    pub(crate) fn insert(&self, key: &Key, value: T) {
        let bytes = value.bytes().saturating_add(ENTRY);
        self.remove(key);
        if self.tally.bytes.load(Ordering::Relaxed).saturating_add(bytes) > self.room.most / 2 {
            return;
        }
        self.tally.entries.fetch_add(1, Ordering::Relaxed);
        self.tally.bytes.fetch_add(bytes, Ordering::Relaxed);
        let kept = Kept { value, bytes, tally: Arc::clone(&self.tally) };
        self.room.cache.insert((self.owner, *key), Arc::new(kept));
    }

    /// Forgets a value.
    pub(crate) fn remove(&self, key: &Key) {
        self.room.cache.remove(&(self.owner, *key));
    }

    /// How many values are remembered; those that are too old count until they are forgotten.
    pub(crate) fn entries(&self) -> u64 {
        self.tally.entries.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{UpstreamUser, UserInfo};
    use crate::review::{CredentialCaches, Lifetimes};

    const NOTHING: Duration = Duration::ZERO;

    struct Thing(u64, Duration);

    impl Aging for Thing {
        fn bytes(&self) -> u64 {
            self.0
        }

        fn kept_until(&self) -> Duration {
            self.1
        }
    }

    fn key(number: u32) -> Key {
        let mut key = Key::default();
        key[..4].copy_from_slice(&number.to_le_bytes());
        key
    }

    #[test]
    fn a_room_holds_no_more_bytes_than_it_has() {
        let room: Arc<Room<Thing>> = Room::new(1 << 20, SHARDS);
        let owners: Vec<_> = (0..100).map(|owner| Remembered::new(&room, owner)).collect();
        for number in 0..20_000 {
            owners[number as usize % owners.len()].insert(&key(number), Thing(u64::from(number) % 2_000, NOTHING));
            assert!(room.cache.weight() <= 1 << 20);
        }
        let entries: u64 = owners.iter().map(Remembered::entries).sum();
        assert_eq!(entries, room.cache.len() as u64, "what was displaced counts no more");
        assert!(entries > 500, "{entries}");
    }

    #[test]
    fn an_owner_takes_at_most_half_of_a_room() {
        let room: Arc<Room<Thing>> = Room::new(1 << 20, SHARDS);
        let (quiet, loud) = (Remembered::new(&room, 0), Remembered::new(&room, 1));
        (0..100).for_each(|number| quiet.insert(&key(number), Thing(100, NOTHING)));
        (0..20_000).for_each(|number| loud.insert(&key(number), Thing(100, NOTHING)));
        assert_eq!(quiet.entries(), 100);
        assert!(loud.tally.bytes.load(Ordering::Relaxed) <= 1 << 19);
        assert!(loud.entries() > 1_500, "{}", loud.entries());
    }

    #[test]
    fn stores_of_eight_workers_hold_as_much_as_a_process() {
        let rooms = |store: &Store| {
            let answers = [&store.tokens, &store.rejected, &store.allowed, &store.denied].map(|room| room.most);
            answers.iter().sum::<u64>() + store.verified.most + store.latest.most + store.refused.most
        };
        assert_eq!(rooms(&Store::of_a_worker()) * 8, rooms(&Store::default()));
        assert_eq!(rooms(&Store::default()), 100 << 20);
    }

    /// The largest user takes 64 KiB.
    /// A user of as many groups and as long words as a certificate or a review may have.
    const LARGEST: u64 = 230 << 10;

    #[test]
    fn largest_user_is_remembered_by_a_worker() {
        let store = Store::of_a_worker();
        for most in [store.tokens.most, store.verified.most] {
            let room: Arc<Room<Thing>> = Room::new(most, SHARDS_OF_A_WORKER);
            let owner = Remembered::new(&room, 0);
            owner.insert(&key(1), Thing(LARGEST, NOTHING));
            assert!(owner.contains(&key(1)), "{most}");
        }
    }

    #[test]
    fn a_value_that_is_replaced_counts_once() {
        let room: Arc<Room<Thing>> = Room::new(1 << 20, SHARDS);
        let (one, other) = (Remembered::new(&room, 0), Remembered::new(&room, 1));
        (0..100).for_each(|bytes| one.insert(&key(7), Thing(bytes, NOTHING)));
        assert_eq!((one.entries(), one.tally.bytes.load(Ordering::Relaxed)), (1, 99 + ENTRY));
        assert_eq!(one.get(&key(7), |thing| Some(thing.0)), Some(99));
        assert!(!other.contains(&key(7)), "another owner shares the room, not what is in it");
        one.remove(&key(7));
        assert_eq!((one.entries(), room.cache.weight()), (0, 0));
    }

    #[test]
    fn old_entries_give_their_room_back() {
        let store = Store::default();
        let caches = Arc::new(CredentialCaches::new(&[0; 32], Lifetimes::default(), &store));
        let review =
            |token: String| crate::review::Review::of_token(token.as_bytes(), &crate::testing::reviewer(), &caches);
        let answer = |user: Option<usize>, number: usize| {
            let body = match user {
                Some(length) => format!(r#"{{"authenticated":true,"user":{{"username":"{}"}}}}"#, "u".repeat(length)),
                None => r#"{"authenticated":false}"#.to_owned(),
            };
            let body = format!(r#"{{"kind":"TokenReview","status":{body}}}"#);
            review(format!("{user:?}{number}")).settle(201, body.as_bytes(), NOTHING);
        };
        (0..1_000).for_each(|number| answer(None, number));
        (1..=100).for_each(|number| answer(Some(number * 500), number));
        assert!(store.bytes() > 2_000_000, "{}", store.bytes());
        let kinds = || caches.entries().map(|(_, entries)| entries);
        assert_eq!(kinds()[..2], [100, 1_000]);
        let seconds = Duration::from_secs;
        assert!(store.forget_old(seconds(9)), "all are believed");
        assert_eq!(kinds()[..2], [100, 1_000]);
        assert!(store.forget_old(seconds(15)), "it is too soon to look again");
        assert_eq!(kinds()[..2], [100, 1_000]);
        assert!(store.forget_old(seconds(19)));
        assert_eq!(kinds()[..2], [100, 0], "users are kept for a while, to be reviewed where strangers wait");
        assert!(!store.forget_old(seconds(800)));
        assert_eq!((kinds(), store.bytes()), ([0; 6], 0));
    }

    /// Counted by hand: the user's texts twice, with a line for each.
    #[test]
    fn a_user_weighs_what_it_takes() {
        let bytes = |groups: usize| {
            let groups = (0..groups).map(|number| format!("group-{number:04}")).collect();
            let user = UserInfo { name: "alice".into(), groups, ..UserInfo::default() };
            UpstreamUser::new(user).unwrap().bytes()
        };
        assert!((400..1_000).contains(&bytes(0)), "{}", bytes(0));
        let of_group = (bytes(200) - bytes(100)) / 100;
        assert!((100..400).contains(&of_group), "{of_group}");
    }
}
