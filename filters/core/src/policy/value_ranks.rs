//! The values that many clauses of a leaf exclude, the most frequent first.

use std::cmp::Reverse;

use super::clause::Condition;
use super::dimension::Dimension;
use super::exclusion_index::WORD;
use super::items::{Item, KnownClauses};

/// A value that fewer clauses exclude has no rank: a request that says it meets no more than these.
pub(super) const FEWEST: u32 = 8;

/// A value with the number of clauses that exclude it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankedValue {
    pub(super) dimension: Dimension,
    pub(super) value: u32,
    pub(super) members: u32,
}

/// The ranks of one leaf's values at a time: their memory is used again for the next.
#[derive(Debug, Default)]
pub(super) struct ValueRanks {
    /// By dimension and value, while clauses are counted: how many exclude it. Then its rank and 1, or 0.
    by_dimension: [Vec<u32>; Dimension::COUNT],
    ranked: Vec<RankedValue>,
}

impl ValueRanks {
    /// Ranks the values that these items exclude. Returns the number of values that were looked at.
    pub(super) fn rank_all(&mut self, known: &KnownClauses<'_>, items: &[Item]) -> usize {
        self.clear();
        let mut seen = 0_usize;
        for condition in items.iter().flat_map(|item| known.exclusions(*item)) {
            seen = seen.saturating_add(condition.ids.len());
            self.count(condition);
        }
        let by_dimension = &mut self.by_dimension;
        self.ranked.retain_mut(|value| {
            value.members = place(by_dimension, value).map_or(0, std::mem::take);
            value.members >= FEWEST
        });
        self.ranked.sort_unstable_by_key(|value| (Reverse(value.members), value.dimension, value.value));
        for (value, rank) in self.ranked.iter().zip(1..) {
            place(by_dimension, value).into_iter().for_each(|place| *place = rank);
        }
        seen
    }

    /// Whether sets spare a leaf of so many clauses more checks than it takes to find them.
    pub(super) fn are_worth_sets(&self, clauses: usize) -> bool {
        let half = if clauses <= WORD { clauses / 2 } else { 0 };
        self.ranked.first().is_some_and(|most_frequent| most_frequent.members as usize >= half)
    }

    /// The values in the order of their ranks.
    pub(super) fn values(&self) -> &[RankedValue] {
        &self.ranked
    }

    /// The rank of a value: 0 is the most frequent one's.
    pub(super) fn rank(&self, dimension: Dimension, value: u32) -> Option<u32> {
        self.by_dimension.get(dimension.index())?.get(value as usize)?.checked_sub(1)
    }

    fn count(&mut self, Condition { dimension, ids, .. }: Condition<'_>) {
        let Some(counts) = self.by_dimension.get_mut(dimension.index()) else { return };
        for id in ids {
            let at = *id as usize;
            if counts.len() <= at {
                counts.resize(at.saturating_add(1), 0);
            }
            let Some(count) = counts.get_mut(at) else { return };
            if *count == 0 {
                self.ranked.push(RankedValue { dimension, value: *id, members: 0 });
            }
            *count = count.saturating_add(1);
        }
    }

    fn clear(&mut self) {
        for value in self.ranked.drain(..) {
            place(&mut self.by_dimension, &value).into_iter().for_each(|place| *place = 0);
        }
    }
}

fn place<'p>(by_dimension: &'p mut [Vec<u32>; Dimension::COUNT], value: &RankedValue) -> Option<&'p mut u32> {
    by_dimension.get_mut(value.dimension.index())?.get_mut(value.value as usize)
}

#[cfg(test)]
mod tests {
    use super::super::clause::{Clauses, Polarity};
    use super::*;

    #[test]
    fn values_of_many_clauses_are_ranked() {
        let mut clauses = Clauses::default();
        for n in 0..40 {
            let (users, groups) = ([n], [50 + n % 3, 60 + n % 8]);
            let excluding = |dimension, ids| Condition { dimension, wants: Polarity::NoneOf, ids };
            clauses.push(n, &mut [excluding(Dimension::User, &users), excluding(Dimension::UserGroup, &groups)]);
        }
        let known = KnownClauses::new(&clauses);
        let mut ranks = ValueRanks::default();
        for (items, expected) in [(40, vec![(50, 14), (51, 13), (52, 13)]), (24, vec![(50, 8), (51, 8), (52, 8)])] {
            ranks.rank_all(&known, &known.items()[..items]);
            let ranked = ranks.values().iter().map(|value| (value.value, value.members));
            assert!(ranked.eq(expected), "{ranks:?}");
            assert_eq!([50, 52, 60].map(|value| ranks.rank(Dimension::UserGroup, value)), [Some(0), Some(2), None]);
            assert_eq!([3, 50].map(|value| ranks.rank(Dimension::User, value)), [None, None]);
        }
        ranks.rank_all(&known, &[]);
        assert!(ranks.by_dimension.iter().flatten().all(|place| *place == 0));
    }
}
