use super::build::Item;
use super::clause::{Clauses, Polarity};
use super::dimension::{Dimension, Dimensions};

/// Counts how well each dimension tells clauses apart.
#[derive(Debug, Default)]
pub(super) struct Tally {
    by_dimension: [Counts; Dimension::COUNT],
}

#[derive(Debug, Default)]
struct Counts {
    /// How many items stand below each value.
    below: Vec<u32>,
    /// The values that occur, so that only they are cleared.
    seen: Vec<u32>,
    /// How many items want a value at all.
    wanting: u64,
}

impl Tally {
    /// The dimension after whose split a request meets the fewest clauses, of those that are not used up. None, if no
    /// clause wants a value in any of them.
    pub(super) fn best_split(&mut self, clauses: &Clauses, items: &[Item], used: Dimensions) -> Option<Dimension> {
        for item in items {
            for (dimension, wants, ids) in clauses.conditions(item.clause) {
                if wants == Polarity::AnyOf && !used.contains(dimension) && item.may_stand_below(ids.len()) {
                    self.by_dimension.get_mut(dimension.index())?.add(ids);
                }
            }
        }
        let all = items.len() as u64;
        let costs = Dimension::ALL.into_iter().zip(&mut self.by_dimension);
        let costs = costs.filter_map(|(dimension, counts)| Some((counts.take_cost(all)?, dimension)));
        // Collected by a fold that visits every dimension, because each visit clears the counts.
        costs
            .fold(None, |best: Option<(u64, Dimension)>, next| best.map_or(Some(next), |best| Some(best.min(next))))
            .map(|(_, dimension)| dimension)
    }
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
