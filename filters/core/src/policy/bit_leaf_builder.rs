//! Makes the rows of a [`BitLeaf`].

use super::bit_leaves::{BitField, BitLeaf, BitLeaves, MOST, PAIR, RowPair, RowPlaces};
use super::clause::Polarity;
use super::dimension::{Dimension, count};
use super::exclusion_index::WORD;
use super::items::{Item, KnownClauses};

/// Bytes that a leaf may take for each clause: where its clauses have few values in common, to split them further takes less.
const BYTES_FOR_EACH: usize = 24;
/// Bytes of a row besides its bits, and of a field besides its rows: what its places and itself take.
const ROW_BYTES: usize = 8;
const FIELD_BYTES: usize = 24;
/// A table may have so many places for each value; otherwise values are searched.
const PLACES_FOR_EACH: u32 = 8;
/// Words in the longest row, and in a pair.
const WORDS: usize = MOST / WORD;
const PAIR_WORDS: usize = PAIR / WORD;

/// Makes leaves.
#[derive(Debug, Default)]
pub(super) struct BitLeavesBuilder {
    leaves: BitLeaves,
    /// Those that want values, and those that exclude some.
    wanted: [FieldRows; Dimension::COUNT],
    excluded: [FieldRows; Dimension::COUNT],
    /// Number of values that were looked at for the last leaf.
    pub(super) seen: usize,
}

/// The rows of a field of the leaf that is being made.
#[derive(Debug, Default)]
struct FieldRows {
    /// By value: where its row begins and 1, or 0.
    places: Vec<u32>,
    /// The value of each row.
    values: Vec<u32>,
    /// The rows, each behind the other.
    words: Vec<u64>,
    /// The clauses with such a condition.
    having: [u64; WORDS],
    /// Number of the clauses with such a condition, and of the values in these.
    conditions: usize,
    members: usize,
}

/// A clause's bit in each row of a leaf.
#[derive(Clone, Copy, Debug)]
struct RowBit {
    word: usize,
    bit: u64,
}

/// The memory that rows of a leaf may take.
#[derive(Debug)]
struct RowRoom {
    /// Words of each row.
    words: usize,
    /// Bytes that are left for rows.
    bytes: usize,
}

impl BitLeavesBuilder {
    /// A builder for leaves of so many clauses. Memory of this size, which is not touched before it is needed, grows without a copy.
    pub(super) fn of_clauses(clauses: u32) -> Self {
        let mut builder = BitLeavesBuilder::default();
        builder.leaves.clauses.reserve(clauses as usize);
        builder.leaves.rows.reserve((clauses as usize * BYTES_FOR_EACH).div_ceil(size_of::<RowPair>()));
        builder
    }

    /// Makes a leaf of items, unless it would take too much memory.
    pub(super) fn add(&mut self, known: &KnownClauses<'_>, items: &[Item]) -> Option<BitLeaf> {
        if items.len() > MOST {
            return None;
        }
        let pairs = items.len().div_ceil(PAIR);
        let mut room = RowRoom { words: pairs * PAIR_WORDS, bytes: items.len() * BYTES_FOR_EACH };
        let fits = items.iter().zip(0..).all(|(item, at)| self.add_item(known, *item, RowBit::of(at), &mut room));
        let leaf = fits.then(|| self.leaf(known, items, pairs));
        let fields = || self.wanted.iter().chain(&self.excluded);
        self.seen = fields().map(|field| field.members).sum();
        self.wanted.iter_mut().chain(&mut self.excluded).for_each(FieldRows::clear);
        leaf
    }

    fn add_item(&mut self, known: &KnownClauses<'_>, item: Item, at: RowBit, room: &mut RowRoom) -> bool {
        known.left(item).all(|condition| {
            let fields = if condition.wants == Polarity::AnyOf { &mut self.wanted } else { &mut self.excluded };
            let field = fields.get_mut(condition.dimension.index());
            field.is_some_and(|field| !condition.ids.is_empty() && field.add(condition.ids, at, room))
        })
    }

    fn leaf(&mut self, known: &KnownClauses<'_>, items: &[Item], pairs: usize) -> BitLeaf {
        let (clauses, fields) = (count(self.leaves.clauses.len()), self.leaves.fields.len());
        self.leaves.clauses.extend(items.iter().map(|item| known.digest(*item).clause));
        let mut inside = [0; WORDS];
        (0..items.len()).for_each(|at| RowBit::of(at).set(&mut inside));
        let mut of_leaf = Vec::new();
        for (wants, fields) in [(Polarity::AnyOf, &self.wanted), (Polarity::NoneOf, &self.excluded)] {
            let named = Dimension::ALL.into_iter().zip(fields).filter(|(_, field)| !field.values.is_empty());
            of_leaf
                .extend(named.map(|(dimension, field)| (field.passing(wants, items.len()), wants, dimension, field)));
        }
        of_leaf.sort_unstable_by_key(|(passing, wants, dimension, _)| (*passing, *wants, *dimension));
        for (_, wants, dimension, field) in of_leaf {
            self.leaves.add_field((dimension, wants), field, &inside, pairs);
        }
        let count_of_fields = self.leaves.fields.len().saturating_sub(fields);
        BitLeaf { clauses, len: short(items.len()), count: short(count_of_fields), fields: count(fields) }
    }

    pub(super) fn finish(self) -> BitLeaves {
        let mut leaves = self.leaves;
        leaves.clauses.shrink_to_fit();
        leaves.rows.shrink_to_fit();
        leaves.tables.shrink_to_fit();
        leaves
    }
}

impl BitLeaves {
    fn add_field(&mut self, kind: (Dimension, Polarity), field: &FieldRows, inside: &[u64; WORDS], pairs: usize) {
        let (dimension, wants) = kind;
        let rows = count(self.rows.len());
        let mut order: Vec<(u32, usize)> = field.values.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let mut others = *inside;
        others.iter_mut().zip(field.having).for_each(|(others, having)| *others &= !having);
        let (others, _) = others.as_chunks();
        let others = others.get(..pairs).unwrap_or_default();
        let (all, _) = field.words.as_chunks();
        for (_, number) in &order {
            let row = all.get(number * pairs..).unwrap_or_default().iter().take(pairs);
            match wants {
                Polarity::AnyOf => self.rows.extend(row.zip(others).map(|(row, others)| or(row, others))),
                Polarity::NoneOf => self.rows.extend(row.map(|row| not(*row))),
            }
        }
        if wants == Polarity::AnyOf {
            self.rows.extend_from_slice(others);
        }
        let values = order.iter().map(|(value, _)| *value);
        let (lowest, places) = self.add_places(values);
        self.fields.push(BitField { dimension, wants, count: short(order.len()), lowest, places, rows });
    }

    /// The lowest of values that ascend, and their places.
    fn add_places(&mut self, values: impl ExactSizeIterator<Item = u32> + Clone) -> (u32, RowPlaces) {
        let lowest = values.clone().next().unwrap_or(0);
        let len = values.clone().last().unwrap_or(0).saturating_sub(lowest).saturating_add(1);
        if len > count(values.len()).saturating_mul(PLACES_FOR_EACH) {
            let start = count(self.values.len());
            self.values.extend(values);
            return (lowest, RowPlaces::Values { start });
        }
        let start = self.tables.len();
        self.tables.resize(start.saturating_add(len as usize), 0);
        let table = self.tables.get_mut(start..).unwrap_or_default();
        for (value, number) in values.zip(1..) {
            table.get_mut(value.saturating_sub(lowest) as usize).into_iter().for_each(|place| *place = number);
        }
        (lowest, RowPlaces::Table { start: count(start), len })
    }
}

impl FieldRows {
    /// How many of so many clauses one value lets pass, on average. The field that fewest pass comes first: mostly no other has
    /// to be looked at.
    fn passing(&self, wants: Polarity, clauses: usize) -> usize {
        let of_value = self.members.checked_div(self.values.len()).unwrap_or(0);
        match wants {
            Polarity::AnyOf => clauses.saturating_sub(self.conditions).saturating_add(of_value),
            Polarity::NoneOf => clauses.saturating_sub(of_value),
        }
    }

    /// Adds a clause to the rows of values, if there is room for rows that are new.
    fn add(&mut self, values: &[u32], at: RowBit, room: &mut RowRoom) -> bool {
        at.set(&mut self.having);
        self.conditions += 1;
        self.members += values.len();
        values.iter().all(|value| {
            let known = self.places.get(*value as usize).and_then(|place| place.checked_sub(1));
            let Some(start) = known.or_else(|| self.new_row(*value, room)) else { return false };
            at.in_row(start as usize).set(&mut self.words);
            true
        })
    }

    /// Start of the row of a value that has none so far, if there is room.
    #[cold]
    fn new_row(&mut self, value: u32, room: &mut RowRoom) -> Option<u32> {
        let of_field = if self.values.is_empty() { FIELD_BYTES } else { 0 };
        room.bytes = room.bytes.checked_sub(room.words * size_of::<u64>() + ROW_BYTES + of_field)?;
        let (place, start) = (value as usize, self.words.len());
        if self.places.len() <= place {
            self.places.resize(place.saturating_add(1), 0);
        }
        *self.places.get_mut(place)? = count(start).saturating_add(1);
        self.values.push(value);
        self.words.resize(start + room.words, 0);
        Some(count(start))
    }

    fn clear(&mut self) {
        for value in self.values.drain(..) {
            self.places.get_mut(value as usize).into_iter().for_each(|place| *place = 0);
        }
        self.words.clear();
        self.having = [0; WORDS];
        (self.conditions, self.members) = (0, 0);
    }
}

impl RowBit {
    fn of(at: usize) -> Self {
        RowBit { word: at / WORD, bit: 1 << (at % WORD) }
    }

    /// The bit in the row that begins there.
    fn in_row(self, start: usize) -> Self {
        RowBit { word: start.wrapping_add(self.word), ..self }
    }

    #[inline]
    fn set(self, row: &mut [u64]) {
        row.get_mut(self.word).into_iter().for_each(|word| *word |= self.bit);
    }
}

fn or([one, other]: &RowPair, [with, also]: &RowPair) -> RowPair {
    [one | with, other | also]
}

fn not([one, other]: RowPair) -> RowPair {
    [!one, !other]
}

/// Numbers here are bounded by [`MOST`] and the memory for it, below 2^16.
fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::clause::{Clauses, Condition};
    use super::super::request_terms::RequestTerms;
    use super::*;

    /// Conditions by the clause's number: values in a table and values far apart, several at once, and every fifth clause with none.
    fn conditions(n: u32) -> Vec<(Dimension, Polarity, Vec<u32>)> {
        let mut all = vec![(Dimension::UserGroup, Polarity::NoneOf, vec![n % 7 * 1000, n % 7 * 1000 + 3])];
        if n % 5 != 4 {
            all.push((Dimension::UserGroup, Polarity::AnyOf, vec![n % 3, 3 + n % 11]));
            all.push((Dimension::Verb, Polarity::AnyOf, vec![10 + n % 8]));
        }
        all
    }

    fn clauses(len: u32) -> Clauses {
        let mut clauses = Clauses::default();
        for n in 0..len {
            let conditions = conditions(n);
            let conditions = conditions.iter().map(|(dimension, wants, ids)| Condition {
                dimension: *dimension,
                wants: *wants,
                ids,
            });
            clauses.push(n, &mut conditions.collect::<Vec<_>>());
        }
        clauses
    }

    #[test]
    fn first_clause_that_holds_is_found() {
        for len in [65, 127, 128, 129, 300, 511, 512] {
            let clauses = clauses(len);
            let known = KnownClauses::new(&clauses);
            let mut builder = BitLeavesBuilder::default();
            let other = builder.add(&known, &known.items()[..64]);
            let leaf = builder.add(&known, &known.items()).unwrap();
            let leaves = builder.finish();
            for chosen in 0..1 << 10 {
                let of = [0, 2, 3, 8, 1000, 3003, 6000].into_iter().zip(0..).filter(|(_, bit)| chosen >> bit & 1 == 1);
                let groups: Vec<u32> = of.map(|(group, _)| group).collect();
                let verb = [&[10][..], &[13], &[17], &[99], &[], &[], &[], &[]][chosen as usize >> 7];
                let terms = RequestTerms::of_ids([(Dimension::UserGroup, &groups), (Dimension::Verb, verb)]);
                let expected = (0..len).find(|clause| clauses.holds(*clause, &terms));
                for best in [0, 1, 63, 64, 127, 128, 129, 256, 384, 385, len - 1, len, u32::MAX] {
                    let before = expected.filter(|clause| *clause < best);
                    assert_eq!(leaves.first(leaf, &terms, best), before, "{groups:?} {verb:?} before {best}");
                }
                assert_eq!(
                    other.and_then(|other| leaves.first(other, &terms, u32::MAX)),
                    expected.filter(|clause| *clause < 64)
                );
            }
            let many: Vec<u32> = (2..4000).collect();
            let terms = RequestTerms::of_ids([(Dimension::UserGroup, &many), (Dimension::Verb, &[13])]);
            assert_eq!(leaves.first(leaf, &terms, u32::MAX), (0..len).find(|clause| clauses.holds(*clause, &terms)));
        }
    }

    #[test]
    fn leaf_without_values_in_common_is_refused() {
        let mut clauses = Clauses::default();
        for n in 0..400 {
            let ids = [n, n + 1000];
            clauses.push(n, &mut [Condition { dimension: Dimension::User, wants: Polarity::NoneOf, ids: &ids }]);
        }
        let known = KnownClauses::new(&clauses);
        let mut builder = BitLeavesBuilder::default();
        assert!(builder.add(&known, &known.items()).is_none());
        assert!(builder.add(&known, &known.items()[..1]).is_none());
        let fresh = BitLeavesBuilder::default();
        assert!(builder.excluded.iter().zip(&fresh.excluded).all(|(one, other)| one.values == other.values));
        assert!(builder.excluded.iter().all(|field| field.places.iter().all(|place| *place == 0)));
    }
}
