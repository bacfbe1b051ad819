//! The growth of counts since the first report, compact: 50 gateways report 1,000 clusters of 100 policies, and each growth is kept
//! for several times.

use std::sync::Arc;

use super::counts::{BUCKETS, Counts, MAX_COUNTS, Sums};
use super::keys::{Cursor, Key, is_error};
use super::rates::Rates;

/// How much a count has grown; nothing if it has sunk. Growth in one report is far below the bound.
fn more(before: u64, now: u64) -> u32 {
    u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX)
}

/// The growth of all counts of a cluster until one time.
///
/// Counts of a report may sink, as those of a server that was taken away and comes back. Growth is therefore added up count by
/// count, from report to report, and rates are differences of that. Additions wrap: a difference is right as long as it is
/// below the range.
#[derive(Clone, Debug, Default)]
pub(super) struct Growth {
    sums: Sums<u32>,
    /// Packed keys, sorted; the same for several times as a rule. `None` if single counts are not kept, for want of room.
    keys: Option<Arc<[u32]>>,
    /// In the order of the keys.
    values: Arc<[u32]>,
}

impl Growth {
    /// Until the first report.
    pub(super) fn none(counts: &Counts) -> Self {
        let values = counts.keys.iter().flat_map(|keys| keys.iter().map(|_| 0));
        Self { sums: Sums::default(), keys: counts.keys.clone(), values: values.collect() }
    }

    /// The growth until the report `now`, after this growth until the report `before`.
    pub(super) fn after(&self, before: &Counts, now: &Counts) -> Self {
        let (Some(known), Some(reported), true) = (&self.keys, &now.keys, before.keys.is_some()) else {
            return Self { sums: self.sums.grown(&before.sums, &now.sums), ..Self::none(now) };
        };
        let keys = union(known, reported);
        let (mut sums, mut grown) = (self.sums, self.cursor());
        let (mut before, mut now) = (before.cursor(), now.cursor());
        let values = keys.iter().map(|key| {
            let more = more(before.at(*key), now.at(*key));
            sums.add(Key::unpack(*key), more);
            grown.at(*key).wrapping_add(more)
        });
        let values = values.collect();
        Self { sums, keys: Some(keys), values }
    }

    fn cursor(&self) -> Cursor<'_, u32> {
        Cursor::new(self.keys.as_deref().unwrap_or_default(), &self.values)
    }

    /// The growth since `base` in a second.
    pub(super) fn rates(&self, base: &Self, seconds: f64) -> Rates {
        let rate = |before: u32, now: u32| f64::from(now.wrapping_sub(before)) / seconds;
        let mut latency = [0.0; BUCKETS];
        let counts = self.sums.latency.iter().zip(base.sums.latency);
        latency.iter_mut().zip(counts).for_each(|(sum, (now, before))| *sum = rate(before, *now));
        Rates {
            answers: rate(base.sums.answers, self.sums.answers),
            errors: rate(base.sums.errors, self.sums.errors),
            refusals: rate(base.sums.refusals, self.sums.refusals),
            latency,
            ..Rates::default()
        }
    }

    /// The growth of each count since `base` in a second. Nothing if one of the two was kept without single counts.
    pub(super) fn each<'a>(&'a self, base: &'a Self, seconds: f64) -> impl Iterator<Item = (Key, f64)> + 'a {
        let keys = self.keys.as_deref().filter(|_| base.keys.is_some()).unwrap_or_default();
        let mut base = base.cursor();
        keys.iter()
            .zip(self.values.iter())
            .map(move |(key, value)| (Key::unpack(*key), f64::from(value.wrapping_sub(base.at(*key))) / seconds))
    }

    /// The memory that it takes beside keys that others share.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.values)
    }

    /// The memory of its keys.
    pub(super) fn key_bytes(&self) -> usize {
        self.keys.as_deref().map_or(0, size_of_val)
    }
}

impl Sums<u32> {
    /// With the growth of sums.
    fn grown(&self, before: &Sums<u64>, now: &Sums<u64>) -> Self {
        let add = |sum: u32, before: u64, now: u64| sum.wrapping_add(more(before, now));
        let mut latency = self.latency;
        let counts = before.latency.iter().zip(now.latency);
        latency.iter_mut().zip(counts).for_each(|(sum, (before, now))| *sum = add(*sum, *before, now));
        Self {
            answers: add(self.answers, before.answers, now.answers),
            errors: add(self.errors, before.errors, now.errors),
            refusals: add(self.refusals, before.refusals, now.refusals),
            latency,
        }
    }

    /// Adds the growth of a single count.
    fn add(&mut self, key: Key, growth: u32) {
        let add = |sum: &mut u32| *sum = sum.wrapping_add(growth);
        match key {
            Key::Answers(_, kind) => {
                add(&mut self.answers);
                if is_error(kind) {
                    add(&mut self.errors);
                }
            }
            Key::Latency(_, bucket) => self.latency.get_mut(usize::from(bucket)).into_iter().for_each(add),
            Key::Refused(..) => add(&mut self.refusals),
            Key::Forwarded(_) | Key::Limited(_) => {}
        }
    }
}

/// The keys of both, in one copy if they are the same. Keys that are not reported any more stay as long as there is room: their
/// growth is a part of the sums.
fn union(known: &Arc<[u32]>, reported: &Arc<[u32]>) -> Arc<[u32]> {
    if known == reported {
        return Arc::clone(known);
    }
    let mut keys: Vec<u32> = known.iter().chain(reported.iter()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    match keys.len() {
        length if length == known.len() => Arc::clone(known),
        length if length > MAX_COUNTS => Arc::clone(reported),
        _ => keys.into(),
    }
}
