use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::kept_bytes::{KeptBytes, LoadBytes, Standing};
use super::table_load::{LoadPart, TableLoad};

/// Bytes that replaced loads of one cluster's name may take.
const MAX_BYTES: u64 = 256 << 20;
/// Replaced loads of the present size, with all their editions, that always fit, unless they take more than [`MAX_BYTES_OF_LARGE`].
const MIN_LOADS: u64 = 8;
/// Bytes that replaced loads may take if the newest ones are large.
const MAX_BYTES_OF_LARGE: u64 = 512 << 20;
/// Sets of editions that replaced loads of one cluster's name may have, beside those of the newest ones. Loads that differ in host names
/// alone have one.
const MAX_SETS: usize = 255;
/// Time that counts as disuse of each load, beside its own. Without it loads of edits in geometric distances would all have one
/// proportion, however short they were in use, and an hour's load could end before each of them.
const MIN_DISUSE: Duration = Duration::from_secs(5);
/// Route tables of one cluster's name whose newest load may be in use: as many as a Gateway has listeners. Those of listeners that are
/// gone are kept by streams, too.
const MAX_TABLES: usize = 64;

/// The place of a load, in which the next one replaces it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TablePlace {
    /// Empty for a cluster at its own names.
    pub(crate) listener: Box<str>,
    /// `None` for a load of all variants.
    pub(crate) variant: Option<Box<str>>,
}

/// The loads of one cluster's name that are alive: of every object that has had the name. Without a bound the owner of an object or of a
/// route could fill the memory of a proxy that others share, by one open stream after each edit.
#[derive(Debug, Default)]
pub(super) struct KeptLoads {
    newest: BTreeMap<TablePlace, KeptLoad>,
    /// Those that a later one has replaced, in that order.
    past: Vec<KeptLoad>,
    /// Those whose streams have to end.
    ended: Vec<KeptLoad>,
    bytes: KeptBytes,
}

#[derive(Debug)]
struct KeptLoad {
    load: Weak<TableLoad>,
    parts: Arc<[LoadPart]>,
    /// A digest of its set of editions.
    set: u64,
    first_used: Duration,
    /// The uptime at which it became the newest last.
    since: Duration,
    /// The uptime at which it was replaced last, and the time for which it was the newest until then.
    until: Duration,
    used: Duration,
}

/// How long a load has been replaced, in proportion to the time for which it was the newest.
#[derive(Clone, Copy)]
struct Disuse {
    idle: Duration,
    used: Duration,
}

impl Disuse {
    /// The greatest is the first.
    fn order(self, other: Disuse) -> Ordering {
        let millis = |time: Duration| u128::from(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let product = |idle: Duration, used: Duration| millis(idle).saturating_mul(millis(used).max(1));
        product(other.idle, self.used).cmp(&product(self.idle, other.used))
    }
}

/// Replaced loads of one cluster's name in the order in which they end: that of the greatest disuse first, of equal ones the oldest. The
/// order stays as it is while they end, however many do.
pub(super) struct LoadsByDisuse(std::vec::IntoIter<(usize, KeptLoad)>);

fn set_of(parts: &[LoadPart]) -> u64 {
    let editions: BTreeSet<u64> = parts.iter().map(|part| part.edition).collect();
    let mut hasher = DefaultHasher::new();
    editions.hash(&mut hasher);
    hasher.finish()
}

impl KeptLoad {
    fn new(load: &Arc<TableLoad>) -> Self {
        let since = load.since();
        KeptLoad {
            load: Arc::downgrade(load),
            parts: Arc::clone(load.parts()),
            set: set_of(load.parts()),
            first_used: since,
            since,
            until: since,
            used: Duration::ZERO,
        }
    }

    fn is(&self, load: &Arc<TableLoad>) -> bool {
        std::ptr::eq(self.load.as_ptr(), Arc::as_ptr(load))
    }

    fn is_gone(&self) -> bool {
        self.load.strong_count() == 0
    }

    fn disuse(&self, uptime: Duration) -> Disuse {
        Disuse { idle: uptime.saturating_sub(self.until).saturating_add(MIN_DISUSE), used: self.used }
    }
}

impl KeptLoads {
    /// Notes a load that is in use as the newest of its table. False if it was before.
    pub(super) fn add(&mut self, place: TablePlace, load: &Arc<TableLoad>, uptime: Duration) -> bool {
        if self.newest.get(&place).is_some_and(|newest| newest.is(load)) {
            return false;
        }
        self.forget_gone(uptime);
        let again = self.take(load).map(|known| KeptLoad { since: uptime, ..known });
        let newest = again.unwrap_or_else(|| KeptLoad::new(load));
        let since = newest.since;
        self.bytes.add(&newest.parts, Standing::Newest);
        if let Some(before) = self.newest.insert(place, newest) {
            self.replace(before, since);
        }
        if self.newest.len() > MAX_TABLES {
            let oldest = self.newest.iter().min_by_key(|(_, newest)| newest.since).map(|(place, _)| place.clone());
            let oldest = oldest.and_then(|place| self.newest.remove(&place));
            oldest.into_iter().for_each(|oldest| self.replace(oldest, uptime));
        }
        true
    }

    /// Removes a replaced load that comes into use again.
    fn take(&mut self, load: &Arc<TableLoad>) -> Option<KeptLoad> {
        if let Some(index) = self.past.iter().position(|past| past.is(load)) {
            let past = self.past.remove(index);
            self.bytes.remove(&past.parts, Standing::Past);
            return Some(past);
        }
        let index = self.ended.iter().position(|ended| ended.is(load))?;
        load.go_on();
        Some(self.ended.remove(index))
    }

    fn replace(&mut self, mut newest: KeptLoad, at: Duration) {
        newest.used = newest.used.saturating_add(at.saturating_sub(newest.since));
        newest.until = at;
        self.bytes.remove(&newest.parts, Standing::Newest);
        self.bytes.add(&newest.parts, Standing::Past);
        self.past.push(newest);
    }

    /// Forgets what the proxy has freed. Ended loads that are in use after all have been so all the time.
    pub(super) fn forget_gone(&mut self, uptime: Duration) {
        let bytes = &mut self.bytes;
        self.newest.retain(|_, newest| {
            let is_gone = newest.is_gone();
            if is_gone {
                bytes.remove(&newest.parts, Standing::Newest);
            }
            !is_gone
        });
        self.past.extract_if(.., |past| past.is_gone()).for_each(|gone| bytes.remove(&gone.parts, Standing::Past));
        self.ended.retain(|ended| !ended.is_gone());
        let was_used = |ended: &mut KeptLoad| ended.load.upgrade().is_some_and(|load| load.was_used_after_its_end());
        for mut used in self.ended.extract_if(.., was_used) {
            used.used = uptime.saturating_sub(used.first_used);
            used.until = uptime;
            bytes.add(&used.parts, Standing::Past);
            self.past.push(used);
        }
    }

    /// Ends loads as long as there is too much of what was replaced, and returns them.
    pub(super) fn end_excess(&mut self, uptime: Duration) -> Vec<Weak<TableLoad>> {
        let most = self.most_bytes();
        let mut ended = Vec::new();
        if self.bytes.sums().past > most {
            let mut loads = self.take_by_disuse(uptime);
            while self.bytes.sums().past > most
                && let Some(one) = self.end_next(&mut loads)
            {
                ended.push(one);
            }
            self.put_back(loads);
        }
        let sets = self.excess_sets(uptime);
        if !sets.is_empty() {
            let of_sets: Vec<_> = self.past.extract_if(.., |past| sets.contains(&past.set)).collect();
            ended.extend(of_sets.into_iter().map(|one| self.end(one)));
        }
        ended
    }

    /// Takes the replaced loads, which count still, to end some of them. [`KeptLoads::put_back`] follows.
    pub(super) fn take_by_disuse(&mut self, uptime: Duration) -> LoadsByDisuse {
        let mut loads: Vec<_> = std::mem::take(&mut self.past).into_iter().enumerate().collect();
        loads.sort_by(|(_, one), (_, other)| one.disuse(uptime).order(other.disuse(uptime)));
        LoadsByDisuse(loads.into_iter())
    }

    /// Ends the load that was the newest for the least part of its time.
    pub(super) fn end_next(&mut self, loads: &mut LoadsByDisuse) -> Option<Weak<TableLoad>> {
        loads.0.next().map(|(_, one)| self.end(one))
    }

    /// Takes back those that go on.
    pub(super) fn put_back(&mut self, loads: LoadsByDisuse) {
        let mut left: Vec<_> = loads.0.collect();
        left.sort_unstable_by_key(|(index, _)| *index);
        self.past = left.into_iter().map(|(_, load)| load).collect();
    }

    fn end(&mut self, ended: KeptLoad) -> Weak<TableLoad> {
        self.bytes.remove(&ended.parts, Standing::Past);
        if let Some(load) = ended.load.upgrade() {
            load.end();
        }
        let load = Weak::clone(&ended.load);
        self.ended.push(ended);
        load
    }

    fn most_bytes(&self) -> u64 {
        self.bytes.sums().present.saturating_mul(MIN_LOADS).clamp(MAX_BYTES, MAX_BYTES_OF_LARGE)
    }

    /// The sets of editions that have to go, if there are too many.
    fn excess_sets(&self, uptime: Duration) -> HashSet<u64> {
        if self.past.len() <= MAX_SETS {
            return HashSet::new();
        }
        let newest: BTreeSet<u64> = self.newest.values().map(|newest| newest.set).collect();
        let mut sets: HashMap<u64, (usize, Disuse)> = HashMap::new();
        for (index, past) in self.past.iter().enumerate().filter(|(_, past)| !newest.contains(&past.set)) {
            let Disuse { idle, used } = past.disuse(uptime);
            let (_, of_set) = sets.entry(past.set).or_insert((index, Disuse { idle, used: Duration::ZERO }));
            *of_set = Disuse { idle: of_set.idle.min(idle), used: of_set.used.saturating_add(used) };
        }
        let excess = sets.len().saturating_sub(MAX_SETS);
        let mut sets: Vec<_> = sets.into_iter().collect();
        sets.sort_unstable_by(|(_, (first, one)), (_, (second, other))| one.order(*other).then(first.cmp(second)));
        sets.into_iter().take(excess).map(|(set, _)| set).collect()
    }

    pub(super) fn bytes(&self) -> LoadBytes {
        self.bytes.sums()
    }

    /// Whether none is alive.
    pub(super) fn are_gone(&self) -> bool {
        self.newest.values().chain(&self.past).chain(&self.ended).all(KeptLoad::is_gone)
    }
}

#[cfg(test)]
#[path = "kept_loads_tests.rs"]
mod tests;
