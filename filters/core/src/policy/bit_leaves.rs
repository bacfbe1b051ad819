//! Leaves whose clauses are compared with a request all at once: for each value that some of them name there is a row of bits,
//! one for each clause that the value lets pass. The bits that are left when the rows of a request's values are joined are the
//! clauses that hold, without a look at any.
//!
//! Such a leaf has up to 512 clauses, in the order of their policies. To split them further would copy each clause of long lists
//! several times more; a row takes one bit for each.

use super::clause::Polarity;
use super::dimension::Dimension;
use super::request_terms::RequestTerms;

/// Bits that are joined in one step.
pub(super) type RowPair = [u64; 2];
/// Clauses in a pair.
pub(super) const PAIR: usize = 128;
/// Pairs in the longest row.
pub(super) const PAIRS: usize = 4;
/// Maximum number of clauses in such a leaf.
pub(super) const MOST: usize = PAIR * PAIRS;
/// With more ids than this those that a field does not know are passed over first.
const FEW_IDS: usize = 8;

/// All of these leaves.
#[derive(Debug, Default)]
pub(super) struct BitLeaves {
    pub(super) clauses: Vec<u32>,
    pub(super) fields: Vec<BitField>,
    pub(super) rows: Vec<RowPair>,
    /// By value, from a field's lowest on: the number of the value's row and 1, or 0.
    pub(super) tables: Vec<u16>,
    /// Values in ascending order, as their rows are.
    pub(super) values: Vec<u32>,
}

/// A leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitLeaf {
    pub(super) clauses: u32,
    pub(super) len: u16,
    /// Number of its fields, and the first of them.
    pub(super) count: u16,
    pub(super) fields: u32,
}

/// The conditions of a leaf's clauses that want, or exclude, values of one dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitField {
    pub(super) dimension: Dimension,
    pub(super) wants: Polarity,
    /// Number of values that have a row. Behind their rows is one of the clauses that want no value, if others do.
    pub(super) count: u16,
    pub(super) lowest: u32,
    pub(super) places: RowPlaces,
    pub(super) rows: u32,
}

/// How the row of a value is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowPlaces {
    Table { start: u32, len: u32 },
    Values { start: u32 },
}

impl BitLeaves {
    /// The first clause of a leaf that holds, if it comes before the best match so far.
    pub(super) fn first(&self, leaf: BitLeaf, terms: &RequestTerms, best: u32) -> Option<u32> {
        let fields = self.fields.get(leaf.fields as usize..)?.get(..usize::from(leaf.count))?;
        let clauses = self.clauses.get(leaf.clauses as usize..)?.get(..usize::from(leaf.len))?;
        let pairs = clauses.len().div_ceil(PAIR);
        // Of most leaves only the beginning comes before a match that is already known.
        let at = match clauses.iter().step_by(PAIR).filter(|first| **first < best).count() {
            1 => self.first_of::<1>(fields, pairs, terms),
            2 => self.first_of::<2>(fields, pairs, terms),
            3 => self.first_of::<3>(fields, pairs, terms),
            PAIRS => self.first_of::<PAIRS>(fields, pairs, terms),
            _ => None,
        };
        // It may be behind the last clause.
        clauses.get(at?).copied().filter(|clause| *clause < best)
    }

    /// The first bit that all fields leave in the first `N` pairs of rows: a number that is known here keeps bits in registers.
    fn first_of<const N: usize>(&self, fields: &[BitField], pairs: usize, terms: &RequestTerms) -> Option<usize> {
        let mut left = [[u64::MAX; 2]; N];
        for field in fields {
            let ids = terms.of_dimension(field.dimension);
            match field.wants {
                Polarity::AnyOf => self.keep_wanting(&mut left, field, pairs, ids),
                Polarity::NoneOf => self.each_row(field, pairs, ids, |row| keep(&mut left, row)),
            }
            if left.iter().flatten().fold(0, |any, word| any | word) == 0 {
                return None;
            }
        }
        let (word, at) = left.iter().flatten().zip(0_usize..).find(|(word, _)| **word != 0)?;
        Some(at * 64 + word.trailing_zeros() as usize)
    }

    /// Keeps the clauses that want one of the ids, or no value.
    #[inline]
    fn keep_wanting<const N: usize>(&self, left: &mut [RowPair; N], field: &BitField, pairs: usize, ids: &[u32]) {
        let others = || self.row(field, pairs, field.count.into());
        if let [id] = ids {
            keep(left, self.row_of(field, pairs, *id).unwrap_or_else(others));
            return;
        }
        let mut wanting = *others();
        self.each_row(field, pairs, ids, |row| add(&mut wanting, row));
        keep(left, &wanting);
    }

    /// Visits the rows of ids, which ascend.
    #[inline]
    fn each_row<'s, const N: usize>(
        &'s self,
        field: &BitField,
        pairs: usize,
        ids: &[u32],
        mut visit: impl FnMut(&'s [RowPair; N]),
    ) {
        let ids = if ids.len() > FEW_IDS { self.known(field, ids) } else { ids };
        for id in ids {
            self.row_of(field, pairs, *id).into_iter().for_each(&mut visit);
        }
    }

    /// The ids from a field's lowest value to its highest.
    #[cold]
    fn known<'i>(&self, field: &BitField, ids: &'i [u32]) -> &'i [u32] {
        let highest = match field.places {
            RowPlaces::Table { len, .. } => field.lowest.saturating_add(len.saturating_sub(1)),
            RowPlaces::Values { .. } => self.values(field).last().copied().unwrap_or(0),
        };
        let start = ids.partition_point(|id| *id < field.lowest);
        let ids = ids.get(start..).unwrap_or_default();
        ids.get(..ids.partition_point(|id| *id <= highest)).unwrap_or_default()
    }

    #[inline]
    fn row_of<const N: usize>(&self, field: &BitField, pairs: usize, id: u32) -> Option<&[RowPair; N]> {
        let number = match field.places {
            RowPlaces::Table { start, len } => {
                let at = id.wrapping_sub(field.lowest);
                let at = if at < len { start.saturating_add(at) } else { return None };
                usize::from(*self.tables.get(at as usize)?).checked_sub(1)?
            }
            RowPlaces::Values { .. } => self.values(field).binary_search(&id).ok()?,
        };
        Some(self.row(field, pairs, number))
    }

    fn values(&self, field: &BitField) -> &[u32] {
        let RowPlaces::Values { start } = field.places else { return &[] };
        let values = self.values.get(start as usize..).unwrap_or_default();
        values.get(..field.count.into()).unwrap_or_default()
    }

    /// The beginning of the row with this number. Were there none, no clause would hold.
    #[inline]
    fn row<const N: usize>(&self, field: &BitField, pairs: usize, number: usize) -> &[RowPair; N] {
        let start = (field.rows as usize).wrapping_add(number.wrapping_mul(pairs));
        self.rows.get(start..).and_then(<[RowPair]>::first_chunk).unwrap_or(&[[0; 2]; N])
    }
}

#[inline]
fn keep<const N: usize>(left: &mut [RowPair; N], row: &[RowPair; N]) {
    left.iter_mut().zip(row).for_each(|([one, other], [with, also])| (*one, *other) = (*one & with, *other & also));
}

#[inline]
fn add<const N: usize>(to: &mut [RowPair; N], row: &[RowPair; N]) {
    to.iter_mut().zip(row).for_each(|([one, other], [with, also])| (*one, *other) = (*one | with, *other | also));
}
