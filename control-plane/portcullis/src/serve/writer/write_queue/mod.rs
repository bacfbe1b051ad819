use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A moment of the writer's own monotonic clock.
pub(super) type Uptime = Duration;

/// Least time between the end of a write and the next one of the same object.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The time after which a write without a visible effect is repeated: another client wrote over it, or the watch is late.
pub(super) const REPEAT_AFTER: Duration = Duration::from_secs(10);
/// The pause of an object whose status the server refuses.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);
/// The pause of all writes after the first failure, and the longest one.
const FAILURE_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Orders the writes: never one object twice within [`MIN_INTERVAL`], the newest value only, nothing that is there
/// already, and nothing at all while the server is away.
#[derive(Debug)]
pub(super) struct WriteQueue<K, V> {
    objects: BTreeMap<K, Entry<V>>,
    /// Those that are to be written, by the time before which they are not.
    due: BTreeSet<(Uptime, K)>,
    /// When an object is to be wanted anew, although nothing about it has changed: its write may have had no visible effect.
    repeats: BTreeMap<K, Uptime>,
    /// Nothing is written before.
    paused_until: Uptime,
    failures: u32,
}

#[derive(Debug)]
struct Entry<V> {
    wanted: Option<V>,
    in_flight: Option<V>,
    written: Option<(V, Uptime)>,
    not_before: Uptime,
    /// Writes at which the server failed, one after the other.
    failures: u32,
    /// Whether it is to be forgotten when the write that is under way ends.
    is_gone: bool,
    /// The time under which it is among those that are to be written.
    due: Option<Uptime>,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// The server has it.
    Written,
    /// There is no such object, or another one, or its status is another one than the one that was read: the source will show it.
    Gone,
    /// The server will not have it.
    Refused,
    /// The server fails at this object, which may be too large for its store. Others go on.
    Failed,
    /// The server does not answer, or not now.
    Away,
}

impl<K, V> Default for WriteQueue<K, V> {
    fn default() -> Self {
        let (objects, due, repeats) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { objects, due, repeats, paused_until: Uptime::ZERO, failures: 0 }
    }
}

impl<K: Clone + Ord, V: Clone + PartialEq> WriteQueue<K, V> {
    /// Whether the object is in the queue.
    pub(super) fn knows(&self, key: &K) -> bool {
        self.objects.contains_key(key)
    }

    /// Sets the wanted status of an object, and whether the server has it already.
    pub(super) fn want(&mut self, key: &K, value: V, is_there: bool, now: Uptime) {
        let entry = self.objects.entry(key.clone()).or_insert_with(Entry::new);
        // Nothing goes by it any more, and it is as large as the status.
        if entry.written.as_ref().is_some_and(|(_, at)| now >= at.saturating_add(REPEAT_AFTER)) {
            entry.written = None;
        }
        // A write that is under way may have overwritten it already.
        let is_last = entry.in_flight.as_ref().is_none_or(|under_way| *under_way == value);
        let is_written = entry.written.as_ref().is_some_and(|(written, at)| {
            // The watch may not have shown the server's value yet.
            is_last && *written == value && now < at.saturating_add(REPEAT_AFTER)
        });
        let wanted = (!is_there && !is_written).then_some(value);
        if wanted.is_some() && entry.wanted.is_none() {
            // Behind those that wait already: objects that are made anew all the time would go before all others otherwise.
            entry.not_before = entry.not_before.max(now);
        }
        (entry.wanted, entry.is_gone) = (wanted, false);
        let written = entry.written.as_ref().filter(|_| is_written && !is_there);
        match written.map(|(_, at)| at.saturating_add(REPEAT_AFTER)) {
            Some(again) => self.repeats.insert(key.clone(), again),
            None => self.repeats.remove(key),
        };
        self.order(key);
    }

    /// The objects that are to be wanted anew by now, although nothing about them has changed.
    pub(super) fn take_repeats(&mut self, now: Uptime) -> Vec<K> {
        let due: Vec<K> = self.repeats.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        self.repeats.retain(|_, at| *at > now);
        due
    }

    /// Puts an object in its place among those that are to be written.
    fn order(&mut self, key: &K) {
        let Some(entry) = self.objects.get_mut(key) else { return };
        let due = (entry.wanted.is_some() && entry.in_flight.is_none()).then_some(entry.not_before);
        let before = std::mem::replace(&mut entry.due, due);
        if before != due {
            if let Some(at) = before {
                self.due.remove(&(at, key.clone()));
            }
            self.due.extend(due.map(|at| (at, key.clone())));
        }
    }

    /// Forgets objects that are gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(&K) -> bool) {
        let gone: Vec<K> = self.objects.keys().filter(|key| !is_there(key)).cloned().collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    /// Forgets an object that is gone, unless a write of it is under way.
    pub(super) fn remove(&mut self, key: &K) {
        let Some(entry) = self.objects.get_mut(key) else { return };
        self.repeats.remove(key);
        (entry.wanted, entry.is_gone) = (None, true);
        let is_under_way = entry.in_flight.is_some();
        self.order(key);
        if !is_under_way {
            self.objects.remove(key);
        }
    }

    /// All objects.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.objects.keys()
    }

    /// Forgets everything but what is under way.
    pub(super) fn forget(&mut self) {
        self.keep(|_| false);
    }

    /// The next thing to write, if it is time. [`WriteQueue::done`] has to follow.
    pub(super) fn take(&mut self, now: Uptime) -> Option<(K, V)> {
        if now < self.paused_until {
            return None;
        }
        // The one that has waited longest, so that none starves.
        let key = self.due.first().filter(|(at, _)| *at <= now).map(|(_, key)| key.clone())?;
        let entry = self.objects.get_mut(&key)?;
        let value = entry.wanted.clone()?;
        entry.in_flight = Some(value.clone());
        self.order(&key);
        Some((key, value))
    }

    /// When [`WriteQueue::take`] is worth asking again, if nothing else happens.
    pub(super) fn next(&self) -> Option<Uptime> {
        self.due.first().map(|(at, _)| (*at).max(self.paused_until))
    }

    /// Takes the outcome of a write.
    pub(super) fn done(&mut self, key: &K, outcome: WriteOutcome, now: Uptime) {
        match outcome {
            WriteOutcome::Away => {
                let (first, most) = FAILURE_PAUSES;
                let pause = first.saturating_mul(1 << self.failures.min(10)).min(most);
                self.failures = self.failures.saturating_add(1);
                self.paused_until = self.paused_until.max(now.saturating_add(pause));
            }
            _ => self.failures = 0,
        }
        let Some(entry) = self.objects.get_mut(key) else { return };
        let Some(value) = entry.in_flight.take() else { return };
        // From the end on, so that the server sees them apart however long each of them travels.
        entry.not_before = now.saturating_add(MIN_INTERVAL);
        let is_newest = entry.wanted.as_ref() == Some(&value);
        match outcome {
            WriteOutcome::Written | WriteOutcome::Gone if is_newest => entry.wanted = None,
            WriteOutcome::Refused => entry.not_before = now.saturating_add(REFUSED_PAUSE),
            WriteOutcome::Failed => {
                let pause = MIN_INTERVAL.saturating_mul(1 << entry.failures.min(10)).min(REFUSED_PAUSE);
                entry.not_before = now.saturating_add(pause);
            }
            _ => {}
        }
        entry.failures = if outcome == WriteOutcome::Failed { entry.failures.saturating_add(1) } else { 0 };
        entry.written = (outcome == WriteOutcome::Written).then_some((value, now));
        if entry.is_gone {
            return self.remove(key);
        }
        let again = match outcome {
            WriteOutcome::Written => Some(REPEAT_AFTER),
            WriteOutcome::Gone => Some(Uptime::ZERO),
            // It is wanted still.
            WriteOutcome::Refused | WriteOutcome::Failed | WriteOutcome::Away => None,
        };
        self.repeats.extend(again.map(|after| (key.clone(), now.saturating_add(after))));
        self.order(key);
    }

    /// Whether the last write found the server away.
    pub(super) fn is_away(&self) -> bool {
        self.failures > 0
    }
}

impl<V> Entry<V> {
    fn new() -> Self {
        Self {
            wanted: None,
            in_flight: None,
            written: None,
            not_before: Uptime::ZERO,
            failures: 0,
            is_gone: false,
            due: None,
        }
    }
}

#[cfg(test)]
mod tests;
