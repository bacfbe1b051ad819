//! Leaves of many clauses. Their wanted values have matched already or do not separate them, so the excluded values decide; and
//! a configuration in which thousands of rules exclude the same user must not make that user's requests thousands of times
//! slower.
//!
//! For each value that clauses of such a leaf exclude there is a set of these clauses, as bits. The union of the sets of a
//! request's values holds all clauses that cannot match: a block of 512 at a time, not a clause. A set of many clauses has all
//! its bits, and a summary of the blocks that it fills, so that 32,768 excluded clauses cost one word; a set of few has the
//! words that are not empty.

use std::collections::BTreeMap;

use super::clause::{Clauses, Condition, Polarity, count};
use super::dimension::{Dimension, Dimensions};
use super::edge_map::{Edge, EdgeMap};
use super::request_terms::RequestTerms;

/// Clauses whose bits are one word.
pub(super) const WORD: usize = 64;
/// Words in a block.
const WORDS: usize = 8;
/// Clauses in a block.
pub(super) const BLOCK: usize = WORD * WORDS;
/// Maximum number of sets that are joined; the others are checked clause by clause.
const MAX_SETS: usize = 16;
/// A set with at least one member among so many clauses has all its bits: at most two bytes more for each member.
const MOST_APART: usize = 16;

/// The bits of a block.
pub(super) type BlockBits = [u64; WORDS];

/// A block of which no clause may hold.
const FULL: BlockBits = [u64::MAX; WORDS];

/// Which clauses exclude what, for all large leaves.
#[derive(Debug, Default)]
pub(super) struct ExclusionIndex {
    sets: EdgeMap<Set>,
    words: Box<[Word]>,
    summaries: Box<[u64]>,
    blocks: Box<[BlockBits]>,
}

/// The clauses of a leaf that exclude a value.
#[derive(Clone, Copy, Debug)]
enum Set {
    /// Few: words from and to.
    Sparse { start: u32, end: u32 },
    /// Many: where its summary and its blocks begin.
    Dense { summary: u32, blocks: u32 },
}

/// The members of a set among the leaf's clauses from `number * 64` on. Words without members are left out.
#[derive(Clone, Copy, Debug)]
struct Word {
    number: u32,
    members: u64,
}

/// A leaf with many clauses.
#[derive(Clone, Copy, Debug)]
pub(super) struct LargeLeaf {
    number: u32,
    blocks: u32,
    excludes: Dimensions,
}

impl LargeLeaf {
    fn summary_words(self) -> usize {
        (self.blocks as usize).div_ceil(WORD)
    }
}

impl ExclusionIndex {
    /// The clauses of a leaf that cannot hold.
    pub(super) fn excluded<'s>(&'s self, leaf: LargeLeaf, terms: &RequestTerms) -> Excluded<'s> {
        let mut excluded = Excluded::nothing(leaf);
        let dimensions = Dimension::ALL.into_iter().filter(|dimension| leaf.excludes.contains(*dimension));
        let present = dimensions
            .flat_map(|at| terms.of_dimension(at).iter().map(move |id| (leaf_dimension(leaf.number, at), *id)));
        for set in present.filter_map(|(from, id)| self.sets.find(from, id)).take(MAX_SETS) {
            match set {
                Set::Sparse { start, end } => {
                    excluded.add_sparse(self.words.get(start as usize..end as usize).unwrap_or_default());
                }
                Set::Dense { summary, blocks } => {
                    let summaries = self.summaries.get(summary as usize..).unwrap_or_default();
                    excluded.add_dense(summaries, self.blocks.get(blocks as usize..).unwrap_or_default());
                }
            }
        }
        excluded
    }
}

/// The sets of a request's values.
#[derive(Debug)]
pub(super) struct Excluded<'s> {
    leaf: LargeLeaf,
    /// Of each dense set, which blocks it fills.
    summaries: [&'s [u64]; MAX_SETS],
    blocks: [&'s [BlockBits]; MAX_SETS],
    dense: usize,
    /// The words of each sparse set that are still to come.
    rest: [&'s [Word]; MAX_SETS],
    sparse: usize,
}

impl<'s> Excluded<'s> {
    const fn nothing(leaf: LargeLeaf) -> Self {
        Excluded {
            leaf,
            summaries: [&[]; MAX_SETS],
            blocks: [&[]; MAX_SETS],
            dense: 0,
            rest: [&[]; MAX_SETS],
            sparse: 0,
        }
    }

    fn add_dense(&mut self, summary: &'s [u64], blocks: &'s [BlockBits]) {
        if let (Some(to), Some(all)) = (self.summaries.get_mut(self.dense), self.blocks.get_mut(self.dense)) {
            (*to, *all) = (summary, blocks);
            self.dense = self.dense.saturating_add(1);
        }
    }

    fn add_sparse(&mut self, words: &'s [Word]) {
        if let Some(to) = self.rest.get_mut(self.sparse) {
            *to = words;
            self.sparse = self.sparse.saturating_add(1);
        }
    }

    /// The first block from `number` on with clauses that may hold, and its other clauses. Blocks are to be asked for in
    /// ascending order.
    pub(super) fn next_block(&mut self, number: usize) -> Option<(usize, BlockBits)> {
        let mut left = u64::MAX << (number % WORD);
        for word in number / WORD..self.leaf.summary_words() {
            let mut open = !self.filled(word) & left;
            while open != 0 {
                let number = word.saturating_mul(WORD).saturating_add(open.trailing_zeros() as usize);
                if number >= self.leaf.blocks as usize {
                    return None;
                }
                let mut members = self.in_dense_sets(number);
                if members != FULL {
                    self.add_sparse_sets(number, &mut members);
                    return Some((number, members));
                }
                open &= open.wrapping_sub(1);
            }
            left = u64::MAX;
        }
        None
    }

    /// Those of 64 blocks that a set fills.
    fn filled(&self, word: usize) -> u64 {
        let summaries = self.summaries.get(..self.dense).unwrap_or_default();
        summaries.iter().filter_map(|summary| summary.get(word)).fold(0, |filled, bits| filled | bits)
    }

    fn in_dense_sets(&self, number: usize) -> BlockBits {
        let mut members = [0; WORDS];
        for bits in self.blocks.get(..self.dense).unwrap_or_default().iter().filter_map(|blocks| blocks.get(number)) {
            members = std::array::from_fn(|at| word_of(&members, at) | word_of(bits, at));
        }
        members
    }

    fn add_sparse_sets(&mut self, number: usize, members: &mut BlockBits) {
        let first = count(number.saturating_mul(WORDS));
        for rest in self.rest.iter_mut().take(self.sparse) {
            while let [word, behind @ ..] = *rest {
                if word.number >= first {
                    let at = word.number.saturating_sub(first) as usize;
                    let Some(members) = members.get_mut(at) else { break };
                    *members |= word.members;
                }
                *rest = behind;
            }
        }
    }
}

fn word_of(bits: &BlockBits, at: usize) -> u64 {
    bits.get(at).copied().unwrap_or(0)
}

/// Collects large leaves.
#[derive(Debug, Default)]
pub(super) struct ExclusionIndexBuilder {
    leaves: u32,
    sets: Vec<Edge<Set>>,
    words: Vec<Word>,
    summaries: Vec<u64>,
    blocks: Vec<BlockBits>,
}

impl ExclusionIndexBuilder {
    /// Adds a leaf.
    pub(super) fn add(&mut self, clauses: &Clauses, leaf: impl ExactSizeIterator<Item = u32>) -> LargeLeaf {
        let number = self.leaves;
        self.leaves = self.leaves.saturating_add(1);
        let len = leaf.len();
        let mut sets: BTreeMap<(Dimension, u32), Vec<Word>> = BTreeMap::new();
        for (at, clause) in leaf.enumerate() {
            let conditions = clauses.conditions(clause).filter(|condition| condition.wants == Polarity::NoneOf);
            for Condition { dimension, ids, .. } in conditions {
                for id in ids {
                    insert(sets.entry((dimension, *id)).or_default(), at);
                }
            }
        }
        let mut excludes = Dimensions::default();
        for ((dimension, value), words) in sets {
            excludes = excludes.with(dimension);
            let members: usize = words.iter().map(|word| word.members.count_ones() as usize).sum();
            let is_dense = members.saturating_mul(MOST_APART) >= len;
            let to = if is_dense { self.dense(&words, len) } else { self.sparse(words) };
            self.sets.push(Edge { from: leaf_dimension(number, dimension), value, to });
        }
        LargeLeaf { number, blocks: count(len.div_ceil(BLOCK)), excludes }
    }

    fn sparse(&mut self, words: Vec<Word>) -> Set {
        let start = count(self.words.len());
        self.words.extend(words);
        Set::Sparse { start, end: count(self.words.len()) }
    }

    /// Bits behind the last clause are set: no clause is there that could hold.
    fn dense(&mut self, words: &[Word], len: usize) -> Set {
        let mut bits = vec![0; len.div_ceil(BLOCK).saturating_mul(WORDS)];
        for word in words {
            if let Some(bits) = bits.get_mut(word.number as usize) {
                *bits = word.members;
            }
        }
        for (number, bits) in bits.iter_mut().enumerate().skip(len / WORD) {
            let inside = len.saturating_sub(number.saturating_mul(WORD)).min(WORD);
            *bits |= u64::MAX.checked_shl(count(inside)).unwrap_or(0);
        }
        let (blocks, _) = bits.as_chunks::<WORDS>();
        let set = Set::Dense { summary: count(self.summaries.len()), blocks: count(self.blocks.len()) };
        let full = |bits: &BlockBits| u64::from(*bits == FULL);
        let summary = |blocks: &[BlockBits]| blocks.iter().rev().fold(0, |bits, block| bits << 1 | full(block));
        self.summaries.extend(blocks.chunks(WORD).map(summary));
        self.blocks.extend_from_slice(blocks);
        set
    }

    pub(super) fn finish(self) -> ExclusionIndex {
        ExclusionIndex {
            sets: EdgeMap::new(self.sets),
            words: self.words.into(),
            summaries: self.summaries.into(),
            blocks: self.blocks.into(),
        }
    }
}

fn insert(words: &mut Vec<Word>, at: usize) {
    let (number, bit) = (count(at / WORD), 1 << (at % WORD));
    match words.last_mut() {
        Some(word) if word.number == number => word.members |= bit,
        _ => words.push(Word { number, members: bit }),
    }
}

/// One number for a leaf and a dimension.
fn leaf_dimension(leaf: u32, dimension: Dimension) -> u32 {
    leaf.saturating_mul(count(Dimension::COUNT)).saturating_add(count(dimension.index()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets of clauses of a leaf that ends within a word: every third, every third from the second on, one in a thousand, the first 35,000,
    /// and all.
    const LEN: usize = 40_021;
    const SETS: [fn(usize) -> bool; 5] =
        [|at| at % 3 == 0, |at| at % 3 == 1, |at| at % 1000 == 7, |at| at < 35_000, |_| true];

    #[test]
    fn union_of_sets_is_exact_block_by_block() {
        let mut builder = ExclusionIndexBuilder::default();
        let built = SETS.map(|is_member| {
            let mut words = Vec::new();
            (0..LEN).filter(|at| is_member(*at)).for_each(|at| insert(&mut words, at));
            let is_dense =
                words.iter().map(|word| word.members.count_ones() as usize).sum::<usize>() * MOST_APART >= LEN;
            if is_dense { builder.dense(&words, LEN) } else { builder.sparse(words) }
        });
        assert_eq!(built.iter().filter(|set| matches!(set, Set::Dense { .. })).count(), 4);
        let index = builder.finish();
        let leaf = LargeLeaf { number: 0, blocks: count(LEN.div_ceil(BLOCK)), excludes: Dimensions::default() };
        for chosen in 0..1 << SETS.len() {
            let is_chosen = |set: usize| chosen >> set & 1 == 1;
            let mut excluded = Excluded::nothing(leaf);
            for (_, set) in built.iter().enumerate().filter(|(set, _)| is_chosen(*set)) {
                match *set {
                    Set::Sparse { start, end } => excluded.add_sparse(&index.words[start as usize..end as usize]),
                    Set::Dense { summary, blocks } => {
                        excluded.add_dense(&index.summaries[summary as usize..], &index.blocks[blocks as usize..]);
                    }
                }
            }
            let mut left = Vec::new();
            let mut number = 0;
            while let Some((block, bits)) = excluded.next_block(number) {
                left.extend(
                    (block * BLOCK..LEN.min((block + 1) * BLOCK))
                        .filter(|at| bits[at % BLOCK / WORD] >> (at % WORD) & 1 == 0),
                );
                number = block + 1;
            }
            let expected = (0..LEN).filter(|at| !SETS.iter().enumerate().any(|(set, is)| is_chosen(set) && is(*at)));
            assert!(left.iter().copied().eq(expected), "{chosen:b}");
        }
    }

    #[test]
    fn block_that_a_set_fills_is_passed_over() {
        let mut builder = ExclusionIndexBuilder::default();
        let mut words = Vec::new();
        (0..LEN).filter(|at| *at != 39_000).for_each(|at| insert(&mut words, at));
        let Set::Dense { .. } = builder.dense(&words, LEN) else { panic!("few") };
        let index = builder.finish();
        let leaf = LargeLeaf { number: 0, blocks: count(LEN.div_ceil(BLOCK)), excludes: Dimensions::default() };
        let mut excluded = Excluded::nothing(leaf);
        excluded.add_dense(&index.summaries, &index.blocks);
        assert_eq!(excluded.next_block(0).map(|(number, _)| number), Some(39_000 / BLOCK));
        assert_eq!(excluded.next_block(39_000 / BLOCK + 1), None);
    }
}
