use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use super::route_update::{RoutePlace, RouteUpdate};
use crate::long_streams::TableLoad;

/// The changes of configurations that a proxy may yet refuse, each with the uptime at which it is applied. A proxy has refused a
/// configuration, and dropped it, before its main thread does anything else: one that is there still at that thread's next turn
/// ([`PendingUpdates::settle`]) was in use, and is applied in its turn however soon others come; likewise one that is there still when the
/// next one comes into its place. Otherwise edits faster than that time would leave running streams without a judge.
#[derive(Debug)]
pub struct PendingUpdates<T> {
    /// By the number that their loads had first, and so by time.
    updates: BTreeMap<u64, (Duration, RouteUpdate<T>)>,
    /// The newest of each place.
    newest: HashMap<RoutePlace, u64>,
    /// The newest of each object, by its cluster's name and the word for it, of which a turn has shown that the proxy took it.
    settled: HashMap<(String, String), u64>,
    /// From this number on the proxy may yet refuse them.
    unsettled: u64,
}

impl<T> Default for PendingUpdates<T> {
    fn default() -> Self {
        PendingUpdates { updates: BTreeMap::new(), newest: HashMap::new(), settled: HashMap::new(), unsettled: 0 }
    }
}

impl<T> PendingUpdates<T> {
    /// Adds the changes of a load, which is newer than all that were added, and is applied no earlier.
    pub fn add(&mut self, update: RouteUpdate<T>, at: Duration) {
        let number = update.number();
        let before = self.newest.insert(update.place(), number);
        if let Some((_, before)) = before.and_then(|before| self.updates.get_mut(&before)) {
            before.keep_beside(&update);
        }
        self.updates.insert(number, (at, update));
    }

    /// Notes that the proxy has refused what it refuses of all that were added, in an earlier turn of its main thread. The others are
    /// kept, and applied at that uptime. Returns those that are refused, to be dropped without a lock.
    pub fn settle(&mut self, at: Duration) -> Vec<RouteUpdate<T>> {
        let of_turn = self.updates.split_off(&self.unsettled);
        let Some((last, _)) = of_turn.last_key_value() else { return Vec::new() };
        self.unsettled = last.saturating_add(1);
        let (mut used, mut refused) = (BTreeMap::new(), Vec::new());
        for (number, (_, mut update)) in of_turn {
            if update.keep() {
                self.settled.insert(update.owner(), number);
                used.insert(number, (at, update));
            } else {
                self.forget_place(number, &update);
                refused.push(update);
            }
        }
        let tables = by_table(used.iter().map(|(number, (_, update))| (*number, update)));
        join_tables(&tables, at);
        number_together(tables);
        self.updates.append(&mut used);
        refused
    }

    /// Whether the proxy can refuse none of them any more.
    pub fn is_settled(&self) -> bool {
        self.updates.last_key_value().is_none_or(|(number, _)| *number < self.unsettled)
    }

    /// Takes the first one by its load, if it is to be applied by then. One at a time: if that fails the others are there. It sets the
    /// servers and numbers of the newest load of its object that the proxy took. If only the newest load set them, nothing would while
    /// edits come faster than they apply.
    pub fn take_due(&mut self, uptime: Duration) -> Option<RouteUpdate<T>> {
        let (_, (at, first)) = self.updates.first_key_value()?;
        if *at > uptime {
            return None;
        }
        // No turn has shown which ones were loaded together: all that there are were.
        if first.is_single() {
            let used = self.updates.iter().filter(|(_, (_, update))| update.is_single());
            join_tables(&by_table(used.map(|(number, (_, update))| (*number, update))), uptime);
        }
        let (number, (_, mut update)) = self.updates.pop_first()?;
        let owner = update.owner();
        let newest = self.settled.get(&owner).and_then(|newest| self.updates.get(newest));
        if let Some((_, newest)) = newest.filter(|(_, newest)| newest.has_same_streams(&update)) {
            update.take_values(newest);
        }
        if self.settled.get(&owner) == Some(&number) {
            self.settled.remove(&owner);
        }
        self.forget_place(number, &update);
        Some(update)
    }

    /// The uptime at which the first one is to be applied.
    pub fn next(&self) -> Option<Duration> {
        self.updates.first_key_value().map(|(_, (at, _))| *at)
    }

    fn forget_place(&mut self, number: u64, update: &RouteUpdate<T>) {
        let place = update.place();
        if self.newest.get(&place) == Some(&number) {
            self.newest.remove(&place);
        }
    }
}

/// Loads by their route tables, each with its number.
type Tables<'a, T> = HashMap<(&'a str, &'a str), Vec<(u64, &'a RouteUpdate<T>)>>;

fn by_table<'a, T: 'a>(loads: impl Iterator<Item = (u64, &'a RouteUpdate<T>)>) -> Tables<'a, T> {
    let mut tables = Tables::new();
    for (number, load) in loads {
        tables.entry(load.table()).or_default().push((number, load));
    }
    tables
}

/// Has the loads of one turn be one load of each table from that uptime on: a stream of one of them keeps all. Those of two route
/// configurations for one table are taken for one, too: both are there until the streams of both are gone.
fn join_tables<T>(tables: &Tables<'_, T>, at: Duration) {
    for loads in tables.values() {
        let table = TableLoad::together(at, loads.iter().map(|(_, load)| load.part()));
        loads.iter().for_each(|(_, load)| load.join(&table));
    }
}

/// Gives the loads of one turn one number for each cluster and listener: a proxy uses them together, and no stream of one is to be judged
/// by another. Not where the listener is not known, or if there are two for one place, which are of two route configurations.
fn number_together<T>(tables: Tables<'_, T>) {
    for ((_, listener), loads) in tables {
        let variants: HashSet<_> = loads.iter().map(|(_, load)| load.variant()).collect();
        let are_one = !listener.is_empty() && variants.len() == loads.len();
        let last = loads.last().filter(|_| are_one).map(|(number, _)| *number);
        if let Some(last) = last {
            loads.iter().for_each(|(_, load)| load.raise_number(last));
        }
    }
}

#[cfg(test)]
#[path = "pending_tests.rs"]
mod tests;
