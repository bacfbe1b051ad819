//! The dimension on which a node splits.

use super::dimension::{Dimension, Dimensions};
use super::items::{Item, KnownClauses};
use crate::seeded_hash::mix;

/// Number of items that a dimension is chosen by, where a node has many: to look at each of them would be most of the work.
const SAMPLE: usize = 128;
/// One of so many is taken besides, because values that few want are seldom seen in a small sample of many.
const SAMPLED_OF_MORE: usize = 16;
/// From so many items on a sample is taken.
const SAMPLED: usize = 2 * SAMPLE;

/// Counts how well each dimension separates clauses.
#[derive(Debug, Default)]
pub(super) struct SplitCosts {
    by_dimension: [Counts; Dimension::COUNT],
}

#[derive(Debug, Default)]
struct Counts {
    /// Number of items below each value.
    below: Vec<u32>,
    /// The values that occur, so that only they are cleared.
    seen: Vec<u32>,
    /// How many items want a value at all.
    wanting: u64,
}

impl SplitCosts {
    /// The dimension after whose split a request meets the fewest clauses, of those that are not used up. None, if no
    /// clause wants a value in any of them.
    pub(super) fn best_split(
        &mut self,
        known: &KnownClauses<'_>,
        items: &[Item],
        used: Dimensions,
    ) -> Option<Dimension> {
        let is_sampled = items.len() >= SAMPLED;
        let sample = is_sampled.then(|| self.best_of(known, sample(items), used)).flatten();
        sample.or_else(|| self.best_of(known, items.iter(), used))
    }

    fn best_of<'i>(
        &mut self,
        known: &KnownClauses<'_>,
        items: impl Iterator<Item = &'i Item>,
        used: Dimensions,
    ) -> Option<Dimension> {
        let mut all: u64 = 0;
        for item in items {
            all = all.saturating_add(1);
            for (dimension, ids) in known.open_values(*item, used) {
                self.by_dimension.get_mut(dimension.index())?.add(ids);
            }
        }
        let costs = Dimension::ALL.into_iter().zip(&mut self.by_dimension);
        let costs = costs.filter_map(|(dimension, counts)| Some((counts.take_cost(all)?, dimension)));
        // Collected by a fold that visits every dimension, because each visit clears the counts.
        costs
            .fold(None, |best: Option<(u64, Dimension)>, next| best.map_or(Some(next), |best| Some(best.min(next))))
            .map(|(_, dimension)| dimension)
    }
}

/// Some of the items, one of each of [`SAMPLE`] equal parts or a few more. Its place differs from part to part, so that rules of two kinds by
/// turns are both seen.
fn sample(items: &[Item]) -> impl Iterator<Item = &Item> {
    let parts = SAMPLE.saturating_add(items.len() / SAMPLED_OF_MORE);
    let part = items.len().div_ceil(parts);
    items.chunks(part).zip(0..).filter_map(|(part, number)| {
        let place = mix(number, number).checked_rem(part.len() as u64)?;
        part.get(usize::try_from(place).ok()?)
    })
}

impl Counts {
    fn add(&mut self, ids: &[u32]) {
        self.wanting = self.wanting.saturating_add(1);
        for id in ids {
            let at = *id as usize;
            if self.below.len() <= at {
                self.below.resize(at.saturating_add(1), 0);
            }
            if let Some(below) = self.below.get_mut(at) {
                if *below == 0 {
                    self.seen.push(*id);
                }
                *below = below.saturating_add(1);
            }
        }
    }

    /// How many clauses a request meets that has one of the values, each as likely as it is often asked for: those that
    /// want it, and those that want none. Clears the counts.
    fn take_cost(&mut self, all: u64) -> Option<u64> {
        let (mut sum, mut squares) = (0_u64, 0_u64);
        for id in self.seen.drain(..) {
            if let Some(below) = self.below.get_mut(id as usize) {
                let count = u64::from(std::mem::take(below));
                sum = sum.saturating_add(count);
                squares = squares.saturating_add(count.saturating_mul(count));
            }
        }
        let wanting = std::mem::take(&mut self.wanting);
        let met = squares.checked_div(sum)?;
        Some(all.saturating_sub(wanting).saturating_add(1).saturating_mul(met.saturating_add(1)))
    }
}
