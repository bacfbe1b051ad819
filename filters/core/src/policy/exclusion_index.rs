//! Leaves of many clauses. Their wanted values have matched already or do not separate them, so the excluded values decide; and
//! a configuration in which thousands of rules exclude the same user must not make that user's requests thousands of times
//! slower.
//!
//! For each value that clauses of such a leaf exclude there is a set of these clauses, as bits. The union of the sets of a
//! request's values holds all clauses that cannot match: a block of 512 at a time, not a clause. A set of many clauses has all
//! its bits, and a summary of the blocks that it fills, so that 32,768 excluded clauses cost one word; a set of few has the
//! words that are not empty.

use super::dimension::{Dimension, Dimensions, count};
use super::edge_map::EdgeMap;
use super::request_terms::RequestTerms;

/// Clauses whose bits are one word.
pub(super) const WORD: usize = 64;
/// Words in a block.
pub(super) const WORDS: usize = 8;
/// Clauses in a block.
pub(super) const BLOCK: usize = WORD * WORDS;
/// Maximum number of sets of each kind that are joined, the most frequent ones. The others are checked clause by clause.
const MAX_SETS: usize = 16;

/// The bits of a block.
pub(super) type BlockBits = [u64; WORDS];

/// A block of which no clause may hold.
pub(super) const FULL: BlockBits = [u64::MAX; WORDS];

/// Which clauses exclude what, for all large leaves.
#[derive(Debug, Default)]
pub(super) struct ExclusionIndex {
    pub(super) sets: EdgeMap<Set>,
    pub(super) words: Box<[Word]>,
    pub(super) summaries: Box<[u64]>,
    pub(super) blocks: Box<[BlockBits]>,
}

/// The clauses of a leaf that exclude a value. The sets of more frequent values come first among those of their kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Set {
    /// Few: words from and to.
    Sparse { start: u32, end: u32 },
    /// Many: where its summary and its blocks begin.
    Dense { summary: u32, blocks: u32 },
}

/// The members of a set among the leaf's clauses from `number * 64` on. Words without members are left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub(super) number: u32,
    pub(super) members: u64,
}

/// A leaf with many clauses.
#[derive(Clone, Copy, Debug)]
pub(super) struct LargeLeaf {
    pub(super) number: u32,
    pub(super) blocks: u32,
    /// The dimensions of its sets.
    pub(super) excludes: Dimensions,
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
        for set in present.filter_map(|(from, id)| self.sets.find(from, id)) {
            excluded.add(self, set);
        }
        excluded
    }

    /// Bytes of all sets.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.summaries) + size_of_val(&*self.blocks)
    }
}

/// The sets of a request's values.
#[derive(Debug)]
pub(super) struct Excluded<'s> {
    leaf: LargeLeaf,
    /// Of each dense set, which blocks it fills, and its blocks.
    dense: Joined<(&'s [u64], &'s [BlockBits])>,
    /// The words of each sparse set that are still to come.
    sparse: Joined<&'s [Word]>,
}

/// Up to [`MAX_SETS`] sets.
#[derive(Debug)]
struct Joined<S> {
    sets: [S; MAX_SETS],
    /// The start of each: the most frequent set has the lowest.
    starts: [u32; MAX_SETS],
    len: usize,
}

impl<S: Copy> Joined<S> {
    const fn nothing(none: S) -> Self {
        Joined { sets: [none; MAX_SETS], starts: [0; MAX_SETS], len: 0 }
    }

    #[inline]
    fn add(&mut self, start: u32, set: S) {
        let at = self.len;
        if at == MAX_SETS {
            self.replace_least_frequent(start, set);
        } else if let (Some(to), Some(place)) = (self.sets.get_mut(at), self.starts.get_mut(at)) {
            (*to, *place) = (set, start);
            self.len = at.saturating_add(1);
        }
    }

    #[cold]
    fn replace_least_frequent(&mut self, start: u32, set: S) {
        let least = self.starts.iter_mut().zip(&mut self.sets).max_by_key(|(start, _)| **start);
        if let Some((place, to)) = least.filter(|(last, _)| **last > start) {
            (*place, *to) = (start, set);
        }
    }

    fn all(&self) -> &[S] {
        self.sets.get(..self.len).unwrap_or_default()
    }
}

impl<'s> Excluded<'s> {
    const fn nothing(leaf: LargeLeaf) -> Self {
        Excluded { leaf, dense: Joined::nothing((&[], &[])), sparse: Joined::nothing(&[]) }
    }

    fn add(&mut self, index: &'s ExclusionIndex, set: Set) {
        match set {
            Set::Sparse { start, end } => {
                self.sparse.add(start, index.words.get(start as usize..end as usize).unwrap_or_default());
            }
            Set::Dense { summary, blocks } => {
                let summaries = index.summaries.get(summary as usize..).unwrap_or_default();
                self.dense.add(summary, (summaries, index.blocks.get(blocks as usize..).unwrap_or_default()));
            }
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
        self.dense.all().iter().filter_map(|(summary, _)| summary.get(word)).fold(0, |filled, bits| filled | bits)
    }

    fn in_dense_sets(&self, number: usize) -> BlockBits {
        let mut members = [0; WORDS];
        for bits in self.dense.all().iter().filter_map(|(_, blocks)| blocks.get(number)) {
            members = std::array::from_fn(|at| word_of(&members, at) | word_of(bits, at));
        }
        members
    }

    fn add_sparse_sets(&mut self, number: usize, members: &mut BlockBits) {
        let first = count(number.saturating_mul(WORDS));
        for rest in self.sparse.sets.iter_mut().take(self.sparse.len) {
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

/// One number for a leaf and a dimension.
pub(super) fn leaf_dimension(leaf: u32, dimension: Dimension) -> u32 {
    leaf.saturating_mul(count(Dimension::COUNT)).saturating_add(count(dimension.index()))
}

#[cfg(test)]
mod tests {
    use super::super::exclusion_index_builder::{ExclusionIndexBuilder, insert};
    use super::*;

    /// Sets of clauses of a leaf that ends within a word: every third, every third from the second on, one in a thousand, the first 35,000,
    /// all, and those from within the first 64 blocks to within the next ones.
    const LEN: usize = 40_021;
    const SETS: [fn(usize) -> bool; 6] = [
        |at| at % 3 == 0,
        |at| at % 3 == 1,
        |at| at % 1000 == 7,
        |at| at < 35_000,
        |_| true,
        |at| (5_120..33_000).contains(&at),
    ];

    #[test]
    fn union_of_sets_is_exact_block_by_block() {
        let mut builder = ExclusionIndexBuilder::default();
        let built = SETS.map(|is_member| {
            let mut words = Vec::new();
            (0..LEN).filter(|at| is_member(*at)).for_each(|at| insert(&mut words, at));
            builder.set(words, LEN)
        });
        assert_eq!(built.iter().filter(|set| matches!(set, Set::Dense { .. })).count(), 5);
        let index = builder.finish();
        let leaf = LargeLeaf { number: 0, blocks: count(LEN.div_ceil(BLOCK)), excludes: Dimensions::default() };
        for chosen in 0..1 << SETS.len() {
            let is_chosen = |set: usize| chosen >> set & 1 == 1;
            let mut excluded = Excluded::nothing(leaf);
            for (_, set) in built.iter().enumerate().filter(|(set, _)| is_chosen(*set)) {
                excluded.add(&index, *set);
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
        let set = builder.set(words, LEN);
        let index = builder.finish();
        let leaf = LargeLeaf { number: 0, blocks: count(LEN.div_ceil(BLOCK)), excludes: Dimensions::default() };
        let mut excluded = Excluded::nothing(leaf);
        excluded.add(&index, set);
        assert_eq!(excluded.next_block(0).map(|(number, _)| number), Some(39_000 / BLOCK));
        assert_eq!(excluded.next_block(39_000 / BLOCK + 1), None);
    }
    #[test]
    fn most_frequent_sets_are_joined() {
        let mut joined = Joined::nothing(0);
        (0..40).map(|n| (n * 7 + 3) % 40).for_each(|start| joined.add(start, start * 2));
        let mut sets = joined.all().to_vec();
        sets.sort_unstable();
        assert!(sets.into_iter().eq((0..16).map(|start| start * 2)));
    }
}
