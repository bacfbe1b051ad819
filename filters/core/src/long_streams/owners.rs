use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::StreamRegistry;
use super::kept_bytes::LoadBytes;
use super::kept_loads::{KeptLoads, LoadsByDisuse, TablePlace};
use super::table_load::TableLoad;

/// Fewer names than this are not worth a look.
const SWEEP_THRESHOLD: usize = 64;
/// Bytes that replaced loads of all names may take; as many as the newest ones, if these take more: an edit of all clusters ends no stream.
const MAX_BYTES: u64 = 1 << 30;
/// Bytes that they may take however much the newest ones take: those of tables that are gone, which streams keep, are among these.
const MAX_BYTES_OF_MANY: u64 = 4 * MAX_BYTES;
/// Bytes by which they grow beyond that before all names are looked through, and by which they are fewer afterwards if there were too many.
const LOOK_AGAIN: u64 = MAX_BYTES / 16;

/// The long-running streams of all objects, by the cluster's name and the word for its object: a name's next owner says nothing
/// about the servers and the sessions of the one before, but its lists may deny their senders. Streams live as long as something
/// uses them, over all edits. And the loads that streams keep, by the cluster's name.
#[derive(Debug)]
pub struct StreamOwners<T> {
    names: Mutex<OwnerNames<T>>,
    ended: AtomicU64,
}

/// The word for an object, and its streams.
type Owner<T> = (String, Weak<StreamRegistry<T>>);

#[derive(Debug)]
struct OwnerNames<T> {
    names: HashMap<String, OwnerName<T>>,
    /// Number of names at which unused ones are swept.
    most: usize,
    /// Loads whose streams have to end.
    ended: Vec<EndedLoad>,
    /// The memory of the loads of all names.
    bytes: LoadBytes,
    /// Bytes of replaced loads at which all names are looked through.
    look_at: u64,
}

#[derive(Debug)]
struct OwnerName<T> {
    /// Rarely more than one.
    objects: Vec<Owner<T>>,
    loads: KeptLoads,
}

#[derive(Debug)]
struct EndedLoad {
    load: Weak<TableLoad>,
    /// That of [`StreamOwners::ended`] at its last end.
    number: u64,
}

/// Loads whose streams have to end, by the groups of these ([`crate::exchange::RouteConfig::stream_group`]).
#[derive(Debug, Default)]
pub struct EndedLoads(BTreeMap<u64, u64>);

impl EndedLoads {
    /// Whether the streams of a group have to end.
    pub fn contains(&self, group: u64) -> bool {
        self.0.range(..=group).next_back().is_some_and(|(_, last)| group <= *last)
    }
}

impl<T> Default for OwnerName<T> {
    fn default() -> Self {
        OwnerName { objects: Vec::new(), loads: KeptLoads::default() }
    }
}

impl<T> OwnerName<T> {
    fn is_used(&self) -> bool {
        !self.loads.are_gone() || self.objects.iter().any(|(_, streams)| streams.strong_count() > 0)
    }

    fn alive(&self) -> impl Iterator<Item = (&str, Arc<StreamRegistry<T>>)> {
        self.objects.iter().filter_map(|(object, streams)| Some((object.as_str(), streams.upgrade()?)))
    }
}

impl<T> Default for StreamOwners<T> {
    fn default() -> Self {
        let names = OwnerNames {
            names: HashMap::new(),
            most: SWEEP_THRESHOLD,
            ended: Vec::new(),
            bytes: LoadBytes::default(),
            look_at: MAX_BYTES,
        };
        StreamOwners { names: Mutex::new(names), ended: AtomicU64::new(0) }
    }
}

impl<T> StreamOwners<T> {
    /// The streams of an object.
    pub fn of(&self, name: &str, object: &str) -> Arc<StreamRegistry<T>> {
        let mut names = self.lock();
        names.sweep();
        let objects = &mut names.names.entry(name.to_owned()).or_default().objects;
        objects.retain(|(_, streams)| streams.strong_count() > 0);
        if let Some(known) = objects.iter().find(|(known, _)| known == object).and_then(|(_, known)| known.upgrade()) {
            return known;
        }
        let new = Arc::default();
        objects.push((object.to_owned(), Arc::downgrade(&new)));
        new
    }

    /// The streams of other objects of the name.
    pub(crate) fn others(&self, name: &str, object: &str) -> Vec<Arc<StreamRegistry<T>>> {
        let names = self.lock();
        let others = names.names.get(name).into_iter().flat_map(OwnerName::alive).filter(|(other, _)| *other != object);
        others.map(|(_, streams)| streams).collect()
    }

    /// Calls `f` for the streams of every object.
    pub fn for_each(&self, f: impl FnMut(Arc<StreamRegistry<T>>)) {
        let all: Vec<_> =
            self.lock().names.values().flat_map(|name| name.alive().map(|(_, streams)| streams)).collect();
        all.into_iter().for_each(f);
    }

    /// Notes a load that is in use as the newest of its table. Returns the streams of all objects of which some have to end because of it:
    /// [`StreamRegistry::expire`] ends those that run for long.
    pub(crate) fn use_load(
        &self,
        name: &str,
        place: TablePlace,
        load: &Arc<TableLoad>,
        uptime: Duration,
    ) -> Vec<Arc<StreamRegistry<T>>> {
        let mut names = self.lock();
        let use_it = |loads: &mut KeptLoads| loads.add(place, load, uptime).then(|| loads.end_excess(uptime));
        let Some(of_name) = names.with_loads(name, use_it) else { return Vec::new() };
        let mut ended: BTreeMap<String, Vec<_>> = BTreeMap::from([(name.to_owned(), of_name)]);
        for (name, load) in names.end_excess(uptime) {
            ended.entry(name).or_default().push(load);
        }
        ended.retain(|_, loads| !loads.is_empty());
        if ended.is_empty() {
            return Vec::new();
        }
        let concerned = ended.keys().filter_map(|name| names.names.get(name)).flat_map(OwnerName::alive);
        let concerned = concerned.map(|(_, streams)| streams).collect();
        // Under the lock: a worker that sees the number finds its loads.
        let number = self.ended().saturating_add(1);
        names.note_ended(ended.into_values().flatten(), number);
        self.ended.store(number, Ordering::Release);
        concerned
    }

    /// A number that changes whenever streams of further loads have to end ([`StreamOwners::ended_loads`]).
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// The loads whose streams have to end since [`StreamOwners::ended`] was `seen`, as far as something keeps them. Streams that run for
    /// long are ended without the host's help; others are the host's to find, once for each end of their load.
    pub fn ended_loads(&self, seen: u64) -> EndedLoads {
        let names = self.lock();
        let further = names.ended.iter().filter(|ended| ended.number > seen);
        let loads = further.filter_map(|ended| ended.load.upgrade());
        let ended: Vec<_> = loads.filter(|load| load.is_ended()).collect();
        drop(names);
        let ids = ended.iter().flat_map(|load| load.ids());
        EndedLoads(ids.map(|ids| (*ids.start(), *ids.end())).collect())
    }

    fn lock(&self) -> MutexGuard<'_, OwnerNames<T>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> OwnerNames<T> {
    fn sweep(&mut self) {
        // Not at every call: a configuration with many clusters would look through all of them for each.
        if self.names.len() >= self.most {
            let bytes = &mut self.bytes;
            self.names.retain(|_, name| {
                let is_used = name.is_used();
                if !is_used {
                    bytes.subtract(name.loads.bytes());
                }
                is_used
            });
            self.most = self.names.len().saturating_mul(2).max(SWEEP_THRESHOLD);
        }
    }

    /// Works on the loads of a name.
    fn with_loads<R>(&mut self, name: &str, work: impl FnOnce(&mut KeptLoads) -> R) -> R {
        let loads = &mut self.names.entry(name.to_owned()).or_default().loads;
        self.bytes.subtract(loads.bytes());
        let result = work(loads);
        self.bytes.add(loads.bytes());
        result
    }

    /// Ends loads of the names whose replaced ones take most, if those of all names take too much. Each with its name.
    fn end_excess(&mut self, uptime: Duration) -> Vec<(String, Weak<TableLoad>)> {
        let look_at = |past: u64| past.saturating_add(LOOK_AGAIN).max(MAX_BYTES);
        if self.bytes.past <= self.look_at {
            self.look_at = self.look_at.min(look_at(self.bytes.past));
            return Vec::new();
        }
        // Loads of other names that the proxy has freed are counted still.
        self.bytes = LoadBytes::default();
        for name in self.names.values_mut() {
            name.loads.forget_gone(uptime);
            self.bytes.add(name.loads.bytes());
        }
        let most = self.bytes.present.clamp(MAX_BYTES, MAX_BYTES_OF_MANY);
        let is_excess = self.bytes.past > most;
        let ended = if is_excess { self.end_until(most.saturating_sub(LOOK_AGAIN), uptime) } else { Vec::new() };
        self.look_at = look_at(self.bytes.past);
        ended
    }

    fn end_until(&mut self, most: u64, uptime: Duration) -> Vec<(String, Weak<TableLoad>)> {
        let past = self.names.iter().map(|(name, owner)| (owner.loads.bytes().past, name.clone()));
        let mut by_past: BinaryHeap<(u64, String)> = past.collect();
        let mut taken: HashMap<String, LoadsByDisuse> = HashMap::new();
        let mut ended = Vec::new();
        while self.bytes.past > most
            && let Some((_, name)) = by_past.pop()
        {
            let end = |loads: &mut KeptLoads| {
                let by_disuse = taken.entry(name.clone()).or_insert_with(|| loads.take_by_disuse(uptime));
                (loads.end_next(by_disuse), loads.bytes().past)
            };
            if let (Some(load), past) = self.with_loads(&name, end) {
                ended.push((name.clone(), load));
                by_past.push((past, name));
            }
        }
        for (name, left) in taken {
            self.with_loads(&name, |loads| loads.put_back(left));
        }
        ended
    }

    fn note_ended(&mut self, loads: impl Iterator<Item = Weak<TableLoad>>, number: u64) {
        self.ended.extend(loads.map(|load| EndedLoad { load, number }));
        self.ended.retain(|ended| ended.load.strong_count() > 0);
        // One that went on in between has the number of its last end.
        self.ended.sort_unstable_by_key(|ended| (ended.load.as_ptr().addr(), Reverse(ended.number)));
        self.ended.dedup_by(|one, other| Weak::ptr_eq(&one.load, &other.load));
    }
}

#[cfg(test)]
#[path = "owners_tests.rs"]
mod tests;
