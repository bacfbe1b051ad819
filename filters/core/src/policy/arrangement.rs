//! The clauses of a leaf that only exclusions distinguish.

use std::collections::HashSet;

use super::build_work::BuildWork;
use super::exclusion_index::BLOCK;
use super::items::{Item, KnownClauses};
use super::value_ranks::ValueRanks;
use crate::seeded_hash::SeededHash;

/// Number of values by which items are ordered.
const KEY: usize = 4;

type OrderKey = [u32; KEY];

/// The items without those that hold only where an earlier one does, because both exclude the same values and nothing else is
/// left of their conditions.
pub(super) fn distinct(known: &KnownClauses<'_>, mut items: Vec<Item>, work: &mut BuildWork) -> Vec<Item> {
    let mut seen = HashSet::with_hasher(SeededHash::default());
    items.retain(|item| {
        if known.wants_more(*item) {
            return true;
        }
        let exclusions = known.exclusions(*item);
        work.spend(exclusions.size());
        seen.insert(exclusions)
    });
    items
}

/// The items in the order in which a value fills most blocks: those beside each other exclude the same values, as far as
/// possible. A request that several values exclude then passes over blocks that one of them fills, and joins few.
///
/// Items ascend in each block, and so do the first items of the blocks.
pub(super) fn arranged(known: &KnownClauses<'_>, mut items: Vec<Item>, ranks: &ValueRanks) -> Vec<Item> {
    if items.len() <= BLOCK || items.iter().any(|item| known.wants_more(*item)) {
        // Not all that no value excludes hold: only the order of the policies checks few of them.
        return items;
    }
    // The last items are the last block, which is not full.
    let last = items.split_off(items.len().saturating_sub(items.len() % BLOCK));
    let mut keyed: Vec<(OrderKey, Item)> = items.into_iter().map(|item| (key(known, item, ranks), item)).collect();
    keyed.sort_by_key(|(key, _)| *key);
    let clause = |item: &Item| known.digest(*item).clause;
    let mut blocks: Vec<Vec<Item>> =
        keyed.chunks(BLOCK).map(|block| block.iter().map(|(_, item)| *item).collect()).collect();
    blocks.iter_mut().for_each(|block| block.sort_unstable_by_key(clause));
    blocks.sort_unstable_by_key(|block| block.first().map(clause));
    blocks.push(last);
    blocks.concat()
}

/// The ranks of the most frequent values that an item excludes, in their order.
fn key(known: &KnownClauses<'_>, item: Item, ranks: &ValueRanks) -> OrderKey {
    let mut key = [u32::MAX; KEY];
    for condition in known.exclusions(item) {
        for rank in condition.ids.iter().filter_map(|id| ranks.rank(condition.dimension, *id)) {
            if let Some(last) = key.last_mut().filter(|last| rank < **last) {
                *last = rank;
                key.sort_unstable();
            }
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::super::clause::{Clauses, Condition, Polarity};
    use super::super::dimension::Dimension;
    use super::*;

    fn excluding(all: impl Iterator<Item = Vec<u32>>) -> Clauses {
        let mut clauses = Clauses::default();
        for (ids, policy) in all.zip(0..) {
            let condition = Condition { dimension: Dimension::UserGroup, wants: Polarity::NoneOf, ids: &ids };
            clauses.push(policy, &mut [condition]);
        }
        clauses
    }

    fn arranged_by_rank(known: &KnownClauses<'_>, items: Vec<Item>) -> Vec<u32> {
        let mut ranks = ValueRanks::default();
        ranks.rank_all(known, &items);
        arranged(known, items, &ranks).iter().map(|item| known.digest(*item).clause).collect()
    }

    #[test]
    fn values_by_turns_fill_blocks_of_their_own() {
        const COUNT: u32 = 10 * 1024 + 100;
        let clauses = excluding((0..COUNT).map(|n| vec![n % 4, 4 + n]));
        let known = KnownClauses::new(&clauses);
        let order = arranged_by_rank(&known, known.items());
        let blocks: Vec<&[u32]> = order.chunks(BLOCK).collect();
        let is_filled = |block: &&&[u32]| block.iter().all(|clause| clause % 4 == block[0] % 4);
        assert!(blocks.iter().filter(is_filled).count() >= blocks.len() - 4);
        assert!(blocks.iter().all(|block| block.is_sorted()) && blocks.is_sorted_by_key(|block| block[0]));
        assert!(blocks[..20].iter().all(|block| block.len() == BLOCK));
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..COUNT));
    }

    #[test]
    fn clauses_that_want_more_stay_as_they_are() {
        let mut clauses = Clauses::default();
        for n in 0..2000 {
            let excluded = Condition { dimension: Dimension::User, wants: Polarity::NoneOf, ids: &[n % 3] };
            let wanted = Condition { dimension: Dimension::Verb, wants: Polarity::AnyOf, ids: &[1, 2] };
            clauses.push(n, &mut [excluded, wanted]);
        }
        let known = KnownClauses::new(&clauses);
        let kept = arranged_by_rank(&known, distinct(&known, known.items(), &mut BuildWork::for_all(&clauses)));
        assert!(kept.into_iter().eq(0..2000));
    }
}
