//! Values that are remembered for a while, in a room of bounded bytes that several owners share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// Bytes that an entry takes beside its value: its key, its places in tables and its counts.
const ENTRY_BYTES: u64 = 192;

/// A digest or keyed hash.
pub(crate) type Key = [u8; 32];

/// Something that is remembered for a while.
pub(crate) trait Aging {
    /// Bytes that it takes, allocations included.
    fn bytes(&self) -> u64;

    /// The uptime from which on it is of no use.
    fn kept_until(&self) -> Duration;
}

/// The room of one kind.
#[derive(Debug)]
pub(crate) struct Room<T> {
    cache: Cache<(u64, Key), Arc<RoomEntry<T>>, ByBytes>,
    most: u64,
}

impl<T: Aging> Room<T> {
    pub(crate) fn new(most: u64, shards: usize) -> Arc<Self> {
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

    /// Forgets values that are of no use any more.
    pub(crate) fn forget_old(&self, uptime: Duration) {
        self.cache.retain(|_, kept| uptime < kept.value.kept_until());
    }

    /// Bytes that all values may take.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> u64 {
        self.most
    }

    /// Bytes that all values take.
    pub(crate) fn bytes(&self) -> u64 {
        self.cache.weight()
    }
}

/// The values of one owner in the room of one kind.
#[derive(Debug)]
pub(crate) struct Remembered<T> {
    room: Arc<Room<T>>,
    owner: u64,
    usage: Arc<Usage>,
}

/// The size of one owner's values in one room.
#[derive(Debug, Default)]
struct Usage {
    entries: AtomicU64,
    bytes: AtomicU64,
}

/// A value, counted as its owner's for as long as it is there.
#[derive(Debug)]
struct RoomEntry<T> {
    value: T,
    bytes: u64,
    usage: Arc<Usage>,
}

impl<T> Drop for RoomEntry<T> {
    fn drop(&mut self) {
        self.usage.entries.fetch_sub(1, Ordering::Relaxed);
        self.usage.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug)]
struct ByBytes;

impl<T> Weighter<(u64, Key), Arc<RoomEntry<T>>> for ByBytes {
    fn weight(&self, _key: &(u64, Key), kept: &Arc<RoomEntry<T>>) -> u64 {
        kept.bytes
    }
}

impl<T: Aging> Remembered<T> {
    /// Nothing yet, of an owner of the memory.
    pub(crate) fn new(room: &Arc<Room<T>>, owner: u64) -> Self {
        Remembered { room: Arc::clone(room), owner, usage: Arc::default() }
    }

    /// A value, as `read` reads it.
    pub(crate) fn get<R>(&self, key: &Key, read: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        self.room.cache.get(&(self.owner, *key)).and_then(|kept| read(&kept.value))
    }

    /// Whether anything is remembered, too old or not.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.room.cache.contains_key(&(self.owner, *key))
    }

    /// Remembers a value, in the place of what was there. An owner that has half of the room keeps nothing more until some of it
    /// is forgotten, so that the others have the other half. Whether it was kept.
    pub(crate) fn insert(&self, key: &Key, value: T) -> bool {
        let bytes = value.bytes().saturating_add(ENTRY_BYTES);
        let replaced = self.room.cache.get(&(self.owner, *key)).map_or(0, |kept| kept.bytes);
        let others = self.usage.bytes.load(Ordering::Relaxed).saturating_sub(replaced);
        if others.saturating_add(bytes) > self.room.most / 2 {
            self.remove(key);
            return false;
        }
        self.usage.entries.fetch_add(1, Ordering::Relaxed);
        self.usage.bytes.fetch_add(bytes, Ordering::Relaxed);
        let kept = RoomEntry { value, bytes, usage: Arc::clone(&self.usage) };
        self.room.cache.insert((self.owner, *key), Arc::new(kept));
        true
    }

    /// Remembers a value unless there is one already, which then stays as it is. An owner that has half of the room keeps none.
    pub(crate) fn insert_new(&self, key: &Key, value: impl FnOnce() -> T) {
        let entry = || {
            let value = value();
            let bytes = value.bytes().saturating_add(ENTRY_BYTES);
            if self.usage.bytes.load(Ordering::Relaxed).saturating_add(bytes) > self.room.most / 2 {
                return Err(());
            }
            self.usage.entries.fetch_add(1, Ordering::Relaxed);
            self.usage.bytes.fetch_add(bytes, Ordering::Relaxed);
            Ok(Arc::new(RoomEntry { value, bytes, usage: Arc::clone(&self.usage) }))
        };
        let _ = self.room.cache.get_or_insert_with(&(self.owner, *key), entry);
    }

    /// Forgets a value.
    pub(crate) fn remove(&self, key: &Key) {
        self.room.cache.remove(&(self.owner, *key));
    }

    /// How many values are remembered; those that are too old count until they are forgotten.
    pub(crate) fn entries(&self) -> u64 {
        self.usage.entries.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARDS: usize = 32;
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
    fn room_holds_no_more_bytes_than_it_has() {
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
    fn owner_takes_at_most_half_of_a_room() {
        let room: Arc<Room<Thing>> = Room::new(1 << 20, SHARDS);
        let (quiet, loud) = (Remembered::new(&room, 0), Remembered::new(&room, 1));
        assert!((0..100).all(|number| quiet.insert(&key(number), Thing(100, NOTHING))));
        let kept = (0..20_000).filter(|number| loud.insert(&key(*number), Thing(100, NOTHING))).count();
        assert_eq!(kept as u64, loud.entries());
        assert_eq!(quiet.entries(), 100);
        assert!(loud.usage.bytes.load(Ordering::Relaxed) <= 1 << 19);
        assert!(loud.entries() > 1_500, "{}", loud.entries());
    }

    #[test]
    fn value_that_is_replaced_counts_once() {
        let room: Arc<Room<Thing>> = Room::new(1 << 20, SHARDS);
        let (one, other) = (Remembered::new(&room, 0), Remembered::new(&room, 1));
        assert!((0..100).all(|bytes| one.insert(&key(7), Thing(bytes, NOTHING))));
        assert_eq!((one.entries(), one.usage.bytes.load(Ordering::Relaxed)), (1, 99 + ENTRY_BYTES));
        assert_eq!(one.get(&key(7), |thing| Some(thing.0)), Some(99));
        assert!(!other.contains(&key(7)), "another owner shares the room, not what is in it");
        one.remove(&key(7));
        assert_eq!((one.entries(), room.cache.weight()), (0, 0));
    }
}
