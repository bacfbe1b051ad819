//! Leaves of many clauses. Their wanted values have matched already or do not separate them, so the excluded values decide; and
//! a configuration in which thousands of rules exclude the same user must not make that user's requests thousands of times
//! slower.
//!
//! For each value that clauses of such a leaf exclude there is a set of these clauses, as bits, 64 in a block. The union of the
//! sets of a request's values holds all clauses that cannot match: a block at a time, not a clause.

use std::collections::BTreeMap;

use super::clause::{Clauses, Polarity, count};
use super::dimension::{Dimension, Dimensions};
use super::edge_map::{Edge, EdgeMap};
use super::request_terms::RequestTerms;

/// Clauses in a block.
pub(super) const BLOCK: usize = 64;
/// Maximum number of sets that are joined; the others are checked clause by clause.
const MAX_SETS: usize = 16;

/// Which clauses exclude what, for all large leaves.
#[derive(Debug, Default)]
pub(super) struct ExclusionIndex {
    sets: EdgeMap<Set>,
    blocks: Box<[Block]>,
}

/// A set's blocks, from and to.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    start: u32,
    end: u32,
}

/// The members of a set among the leaf's clauses from `number * 64` on. Blocks without members are left out.
#[derive(Clone, Copy, Debug)]
struct Block {
    number: u32,
    members: u64,
}

/// A leaf with many clauses.
#[derive(Clone, Copy, Debug)]
pub(super) struct LargeLeaf {
    number: u32,
    excludes: Dimensions,
}

impl ExclusionIndex {
    /// The clauses of a leaf that cannot hold. Blocks are to be asked for in ascending order.
    pub(super) fn excluded<'s>(&'s self, leaf: LargeLeaf, terms: &RequestTerms) -> Excluded<'s> {
        let mut excluded = Excluded { rest: [&[]; MAX_SETS] };
        let dimensions = Dimension::ALL.into_iter().filter(|dimension| leaf.excludes.contains(*dimension));
        let present = dimensions
            .flat_map(|at| terms.of_dimension(at).iter().map(move |id| (leaf_dimension(leaf.number, at), *id)));
        let sets = present.filter_map(|(from, id)| self.sets.find(from, id));
        for (rest, set) in excluded.rest.iter_mut().zip(sets) {
            *rest = self.blocks.get(set.start as usize..set.end as usize).unwrap_or_default();
        }
        excluded
    }
}

/// The sets of a request's values.
#[derive(Debug)]
pub(super) struct Excluded<'s> {
    rest: [&'s [Block]; MAX_SETS],
}

impl Excluded<'_> {
    /// The clauses of a block that cannot hold, as bits.
    pub(super) fn in_block(&mut self, number: u32) -> u64 {
        let mut members = 0;
        for rest in self.rest.iter_mut().take_while(|rest| !rest.is_empty()) {
            while let [block, behind @ ..] = *rest
                && block.number < number
                && !behind.is_empty()
            {
                *rest = behind;
            }
            if let Some(block) = rest.first().filter(|block| block.number == number) {
                members |= block.members;
            }
        }
        members
    }
}

/// Collects large leaves.
#[derive(Debug, Default)]
pub(super) struct ExclusionIndexBuilder {
    leaves: u32,
    sets: Vec<Edge<Set>>,
    blocks: Vec<Block>,
}

impl ExclusionIndexBuilder {
    /// Adds a leaf.
    pub(super) fn add(&mut self, clauses: &Clauses, leaf: impl Iterator<Item = u32>) -> LargeLeaf {
        let number = self.leaves;
        self.leaves = self.leaves.saturating_add(1);
        let mut sets: BTreeMap<(Dimension, u32), Vec<Block>> = BTreeMap::new();
        for (at, clause) in leaf.enumerate() {
            for (dimension, _, ids) in clauses.conditions(clause).filter(|(_, wants, _)| *wants == Polarity::NoneOf) {
                for id in ids {
                    insert(sets.entry((dimension, *id)).or_default(), at);
                }
            }
        }
        let mut excludes = Dimensions::default();
        for ((dimension, value), blocks) in sets {
            excludes = excludes.with(dimension);
            let start = count(self.blocks.len());
            self.blocks.extend(blocks);
            let to = Set { start, end: count(self.blocks.len()) };
            self.sets.push(Edge { from: leaf_dimension(number, dimension), value, to });
        }
        LargeLeaf { number, excludes }
    }

    pub(super) fn finish(self) -> ExclusionIndex {
        ExclusionIndex { sets: EdgeMap::new(self.sets), blocks: self.blocks.into() }
    }
}

fn insert(blocks: &mut Vec<Block>, at: usize) {
    let (number, bit) = (count(at / BLOCK), 1 << (at % BLOCK));
    match blocks.last_mut() {
        Some(block) if block.number == number => block.members |= bit,
        _ => blocks.push(Block { number, members: bit }),
    }
}

/// One number for a leaf and a dimension.
fn leaf_dimension(leaf: u32, dimension: Dimension) -> u32 {
    leaf.saturating_mul(count(Dimension::COUNT)).saturating_add(count(dimension.index()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_joined_block_by_block() {
        let block = |number, members| Block { number, members };
        let (first, second) = ([block(0, 0b1), block(2, 0b101)], [block(2, 0b10), block(3, 0b1)]);
        let excluded = || {
            let mut rest: [&[Block]; MAX_SETS] = [&[]; MAX_SETS];
            rest[..2].copy_from_slice(&[&first, &second]);
            Excluded { rest }
        };
        let mut all = excluded();
        assert_eq!([0, 1, 2, 3, 4].map(|number| all.in_block(number)), [0b1, 0, 0b111, 0b1, 0]);
        assert_eq!(excluded().in_block(3), 0b1);
    }
}
