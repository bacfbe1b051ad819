//! The growth of counts between two times, compact: 50 gateways report 1,000 clusters of 100 policies, and each growth is kept for
//! a while.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counts::{BUCKETS, ReportedCounts, Sums};
use super::keys::{Cursor, Key, is_conclusive, is_error};
use super::rates::Rates;

/// The growth of all counts of a cluster between two times.
///
/// Counts of a report may sink, as those of a server that was taken away and comes back. Growth is therefore taken count by count,
/// and the growth of sums is that of all counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Growth {
    sums: Sums<u32>,
    /// Packed keys, sorted; the same for several times as a rule. `None` if single counts are not kept, for want of room.
    keys: Option<Arc<[u32]>>,
    /// In the order of the keys.
    values: Values,
}

/// Numbers, most of which are small.
#[derive(Clone, Debug)]
enum Values {
    Small(Box<[u16]>),
    Large(Box<[u32]>),
}

impl Default for Values {
    fn default() -> Self {
        Self::Small(Box::default())
    }
}

impl From<Vec<u32>> for Values {
    fn from(values: Vec<u32>) -> Self {
        let small: Result<Box<[u16]>, _> = values.iter().map(|value| u16::try_from(*value)).collect();
        small.map_or_else(|_| Self::Large(values.into()), Self::Small)
    }
}

impl Values {
    fn get(&self, position: usize) -> u32 {
        match self {
            Self::Small(values) => values.get(position).copied().map(u32::from),
            Self::Large(values) => values.get(position).copied(),
        }
        .unwrap_or_default()
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Small(values) => size_of_val(&**values),
            Self::Large(values) => size_of_val(&**values),
        }
    }
}

/// How much a count has grown; nothing if it has sunk.
fn grown(before: u64, now: u64) -> u32 {
    u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX)
}

impl Growth {
    /// No growth at all.
    pub(super) fn none() -> Self {
        Self { keys: Some(Arc::default()), ..Self::default() }
    }

    /// The growth from one report to the next.
    pub(super) fn between(before: &ReportedCounts, now: &ReportedCounts) -> Self {
        let (Some(keys), Some(_)) = (&now.keys, &before.keys) else {
            return Self { sums: Sums::between(&before.sums, &now.sums), ..Self::default() };
        };
        let (mut sums, mut before, mut now) = (Sums::default(), before.cursor(), now.cursor());
        let values = keys.iter().map(|key| {
            let growth = grown(before.at(*key), now.at(*key));
            sums.count(Key::unpack(*key), growth);
            growth
        });
        let values: Vec<u32> = values.collect();
        Self { sums, keys: Some(Arc::clone(keys)), values: values.into() }
    }

    /// The growth of both, one after the other.
    pub(super) fn and(self, later: Self) -> Self {
        let mut sums = self.sums;
        sums.add(&later.sums);
        let (Some(before), Some(after)) = (&self.keys, &later.keys) else { return Self { sums, ..Self::default() } };
        if before.is_empty() {
            return Self { sums, ..later };
        }
        if before == after || after.is_empty() {
            let values = (0..before.len()).map(|one| self.values.get(one).saturating_add(later.values.get(one)));
            let values: Vec<u32> = values.collect();
            return Self { sums, keys: self.keys.clone(), values: values.into() };
        }
        let mut all = BTreeMap::new();
        self.add_to(&mut all);
        later.add_to(&mut all);
        let (keys, values): (Vec<u32>, Vec<u32>) = all.into_iter().unzip();
        Self { sums, keys: Some(keys.into()), values: values.into() }
    }

    /// Shares the keys of another growth, if they are the same.
    pub(super) fn share_keys(&mut self, others: &Option<Arc<[u32]>>) {
        if self.keys == *others {
            self.keys.clone_from(others);
        }
    }

    /// The keys.
    pub(super) fn keys(&self) -> &Option<Arc<[u32]>> {
        &self.keys
    }

    fn add_to(&self, all: &mut BTreeMap<u32, u32>) {
        let keys = self.keys.as_deref().unwrap_or_default();
        for (position, key) in keys.iter().enumerate() {
            let sum = all.entry(*key).or_default();
            *sum = sum.saturating_add(self.values.get(position));
        }
    }

    /// Rates of several, one after the other, that took so many seconds.
    pub(super) fn rates<'a>(all: impl Iterator<Item = &'a Self>, seconds: f64) -> Rates {
        let mut sums = Sums::default();
        all.for_each(|one| sums.add(&one.sums));
        let rate = |growth: u32| f64::from(growth) / seconds;
        Rates {
            answers: rate(sums.answers),
            errors: rate(sums.errors),
            conclusive: rate(sums.conclusive),
            refusals: rate(sums.refusals),
            latency: sums.latency.map(rate),
            ..Rates::default()
        }
    }

    /// The rate of each count of several, one after the other, that took so many seconds. Nothing if one of them was kept without
    /// single counts.
    pub(super) fn each<'a>(all: impl Iterator<Item = &'a Self> + Clone, seconds: f64) -> Vec<(Key, f64)> {
        if all.clone().any(|one| one.keys.is_none()) {
            return Vec::new();
        }
        let mut sums = BTreeMap::new();
        all.for_each(|one| one.add_to(&mut sums));
        sums.into_iter().map(|(key, growth)| (Key::unpack(key), f64::from(growth) / seconds)).collect()
    }

    /// The memory that it takes beside keys that others share.
    pub(super) fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

impl ReportedCounts {
    fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self.keys.as_deref().unwrap_or_default(), &self.values)
    }
}

impl Sums<u32> {
    /// The growth of sums.
    fn between(before: &Sums<u64>, now: &Sums<u64>) -> Self {
        let mut latency = [0; BUCKETS];
        let counts = before.latency.iter().zip(now.latency);
        latency.iter_mut().zip(counts).for_each(|(sum, (before, now))| *sum = grown(*before, now));
        Self {
            answers: grown(before.answers, now.answers),
            errors: grown(before.errors, now.errors),
            conclusive: grown(before.conclusive, now.conclusive),
            refusals: grown(before.refusals, now.refusals),
            latency,
        }
    }

    fn add(&mut self, other: &Self) {
        let add = |sum: &mut u32, more: u32| *sum = sum.saturating_add(more);
        add(&mut self.answers, other.answers);
        add(&mut self.errors, other.errors);
        add(&mut self.conclusive, other.conclusive);
        add(&mut self.refusals, other.refusals);
        self.latency.iter_mut().zip(other.latency).for_each(|(sum, more)| add(sum, more));
    }

    /// Adds the growth of a single count.
    fn count(&mut self, key: Key, growth: u32) {
        let add = |sum: &mut u32| *sum = sum.saturating_add(growth);
        match key {
            Key::Answers(server, kind) => {
                add(&mut self.answers);
                if is_error(server, kind) {
                    add(&mut self.errors);
                }
                if is_conclusive(server, kind) {
                    add(&mut self.conclusive);
                }
            }
            Key::Latency(_, bucket) => self.latency.get_mut(usize::from(bucket)).into_iter().for_each(add),
            Key::Refused(..) => add(&mut self.refusals),
            Key::Forwarded(_) | Key::Limited(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A growth of forwarded requests, by policy.
    fn growth(policies: &[(u16, u32)]) -> Growth {
        let (keys, values): (Vec<u32>, Vec<u32>) =
            policies.iter().map(|(policy, growth)| (Key::Forwarded(*policy).pack(), *growth)).unzip();
        Growth { keys: Some(keys.into()), values: values.into(), ..Growth::default() }
    }

    fn each(all: &[Growth]) -> Vec<(Key, f64)> {
        Growth::each(all.iter(), 1.0)
    }

    #[test]
    fn growth_of_two_times_is_that_of_each_count() {
        let (one, two) = (Key::Forwarded(1), Key::Forwarded(2));
        for (first, second, expected) in [
            (growth(&[(1, 5), (2, 7)]), growth(&[(1, 1), (2, 2)]), vec![(one, 6.0), (two, 9.0)]),
            (growth(&[(1, 5)]), growth(&[(2, 70_000)]), vec![(one, 5.0), (two, 70_000.0)]),
            (Growth::none(), growth(&[(2, 2)]), vec![(two, 2.0)]),
            (growth(&[(1, 65_535)]), growth(&[(1, 1)]), vec![(one, 65_536.0)]),
            (growth(&[(1, 1)]), Growth::none(), vec![(one, 1.0)]),
        ] {
            assert_eq!(each(&[first.clone(), second.clone()]), expected);
            assert_eq!(each(&[first.and(second)]), expected);
        }
        assert_eq!(each(&[growth(&[(1, 1)]), Growth::default()]), [], "the latter is without single counts");
    }

    #[test]
    fn small_growth_takes_two_bytes() {
        assert_eq!(growth(&[(1, 65_535), (2, 0)]).bytes(), 4);
        assert_eq!(growth(&[(1, 65_536), (2, 0)]).bytes(), 8);
    }
}
