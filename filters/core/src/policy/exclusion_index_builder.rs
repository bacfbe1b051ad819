//! Makes the sets of an [`ExclusionIndex`].

use super::clause::Condition;
use super::dimension::{Dimensions, count};
use super::edge_map::{Edge, EdgeMap};
use super::exclusion_index::{
    BLOCK, BlockBits, ExclusionIndex, FULL, LargeLeaf, Set, WORD, WORDS, Word, leaf_dimension,
};
use super::items::{Item, KnownClauses};
use super::value_ranks::{RankedValue, ValueRanks};

/// A set with at least one member among so many clauses has all its bits: at most two bytes more for each member.
const MOST_APART: usize = 16;
/// Bytes that the sets of a leaf may take for each of its clauses: a clause may exclude a thousand values, in each of its leaves.
const BYTES_FOR_EACH: usize = 64;
/// Bytes of a set besides its bits, for finding it.
const SET_BYTES: usize = 40;

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
    /// Adds a leaf of items, with sets of the values that most of them exclude.
    pub(super) fn add(&mut self, known: &KnownClauses<'_>, items: &[Item], ranks: &ValueRanks) -> LargeLeaf {
        let number = self.leaves;
        self.leaves = self.leaves.saturating_add(1);
        let values = fitting(ranks.values(), items.len());
        let mut sets: Vec<Vec<Word>> =
            values.iter().map(|value| Vec::with_capacity(words_of(value, items.len()))).collect();
        for (item, at) in items.iter().zip(0..) {
            for Condition { dimension, ids, .. } in known.exclusions(*item) {
                for rank in ids.iter().filter_map(|id| ranks.rank(dimension, *id)) {
                    sets.get_mut(rank as usize).into_iter().for_each(|words| insert(words, at));
                }
            }
        }
        let mut excludes = Dimensions::default();
        for (RankedValue { dimension, value, .. }, words) in values.iter().zip(sets) {
            excludes = excludes.with(*dimension);
            let to = self.set(words, items.len());
            self.sets.push(Edge { from: leaf_dimension(number, *dimension), value: *value, to });
        }
        LargeLeaf { number, blocks: count(items.len().div_ceil(BLOCK)), excludes }
    }

    /// The set of the clauses in these words, of so many.
    pub(super) fn set(&mut self, words: Vec<Word>, len: usize) -> Set {
        let members: usize = words.iter().map(|word| word.members.count_ones() as usize).sum();
        if is_dense(members, len) { self.dense(&words, len) } else { self.sparse(words) }
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

/// The values whose sets fit into the leaf's memory, of values of which the most frequent comes first.
fn fitting(ranked: &[RankedValue], len: usize) -> &[RankedValue] {
    let mut left = len.saturating_mul(BYTES_FOR_EACH);
    let mut fits = |value: &&RankedValue| {
        let after = left.checked_sub(SET_BYTES.saturating_add(bytes_of(value, len)));
        after.map(|after| left = after).is_some()
    };
    let fitting = ranked.iter().take_while(&mut fits).count();
    ranked.get(..fitting).unwrap_or_default()
}

/// Maximum number of bytes of the value's set.
fn bytes_of(value: &RankedValue, len: usize) -> usize {
    if !is_dense(value.members as usize, len) {
        return words_of(value, len).saturating_mul(size_of::<Word>());
    }
    let blocks = len.div_ceil(BLOCK);
    let summary = blocks.div_ceil(WORD).saturating_mul(size_of::<u64>());
    blocks.saturating_mul(size_of::<BlockBits>()).saturating_add(summary)
}

/// Maximum number of words with members.
fn words_of(value: &RankedValue, len: usize) -> usize {
    len.div_ceil(WORD).min(value.members as usize)
}

fn is_dense(members: usize, len: usize) -> bool {
    members.saturating_mul(MOST_APART) >= len
}

pub(super) fn insert(words: &mut Vec<Word>, at: usize) {
    let (number, bit) = (count(at / WORD), 1 << (at % WORD));
    match words.last_mut() {
        Some(word) if word.number == number => word.members |= bit,
        _ => words.push(Word { number, members: bit }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::clause::{Clauses, Polarity};
    use super::super::dimension::Dimension;
    use super::*;

    fn bytes(index: &ExclusionIndex) -> usize {
        size_of_val(&*index.words) + size_of_val(&*index.summaries) + size_of_val(&*index.blocks)
    }

    #[test]
    fn sets_of_a_leaf_have_bounded_memory() {
        for (len, values) in [(33, 100), (400, 3), (1000, 300), (5000, 3000)] {
            let mut clauses = Clauses::default();
            for n in 0..len {
                let mut ids: Vec<u32> = (0..300).map(|at| (n * 7 + at * 11) % values).collect();
                ids.sort_unstable();
                ids.dedup();
                clauses.push(n, &mut [Condition { dimension: Dimension::User, wants: Polarity::NoneOf, ids: &ids }]);
            }
            let known = KnownClauses::new(&clauses);
            let (mut ranks, mut builder) = (ValueRanks::default(), ExclusionIndexBuilder::default());
            ranks.rank_all(&known, &known.items());
            let leaf = builder.add(&known, &known.items(), &ranks);
            let index = builder.finish();
            assert!(bytes(&index) <= len as usize * 64, "{len} {values}: {}", bytes(&index));
            let most_frequent = ranks.values()[0].value;
            assert!(index.sets.find(leaf_dimension(leaf.number, Dimension::User), most_frequent).is_some());
        }
    }
}
