use std::collections::BTreeMap;
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
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// The server has it.
    Written,
    /// There is no such object, or another one of its name: the source will show it.
    Gone,
    /// The server will not have it.
    Refused,
    /// The server does not answer, or not now.
    Away,
}

impl<K, V> Default for WriteQueue<K, V> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), paused_until: Uptime::ZERO, failures: 0 }
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
        let is_written = entry.written.as_ref().is_some_and(|(written, at)| {
            // The watch may not have shown the server's value yet.
            *written == value && now < at.saturating_add(REPEAT_AFTER)
        });
        entry.wanted = (!is_there && !is_written).then_some(value);
    }

    /// Forgets objects that are gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(&K) -> bool) {
        self.objects.retain(|key, entry| entry.in_flight.is_some() || is_there(key));
    }

    /// Forgets everything but what is under way.
    pub(super) fn forget(&mut self) {
        self.objects.values_mut().for_each(|entry| entry.wanted = None);
        self.keep(|_| false);
    }

    /// The next thing to write, if it is time. [`WriteQueue::done`] has to follow.
    pub(super) fn take(&mut self, now: Uptime) -> Option<(K, V)> {
        if now < self.paused_until {
            return None;
        }
        let is_due = |entry: &Entry<V>| entry.wanted.is_some() && entry.in_flight.is_none() && entry.not_before <= now;
        // The one that has waited longest, so that none starves.
        let (key, entry) =
            self.objects.iter_mut().filter(|(_, one)| is_due(one)).min_by_key(|(_, one)| one.not_before)?;
        let value = entry.wanted.clone()?;
        entry.in_flight = Some(value.clone());
        Some((key.clone(), value))
    }

    /// When [`WriteQueue::take`] is worth asking again, if nothing else happens.
    pub(super) fn next(&self) -> Option<Uptime> {
        let waiting = self.objects.values().filter(|entry| entry.wanted.is_some() && entry.in_flight.is_none());
        waiting.map(|entry| entry.not_before.max(self.paused_until)).min()
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
            _ => {}
        }
        entry.written = (outcome == WriteOutcome::Written).then_some((value, now));
    }

    /// Whether the last write found the server away.
    pub(super) fn is_away(&self) -> bool {
        self.failures > 0
    }
}

impl<V> Entry<V> {
    fn new() -> Self {
        Self { wanted: None, in_flight: None, written: None, not_before: Uptime::ZERO }
    }
}

#[cfg(test)]
mod tests;
