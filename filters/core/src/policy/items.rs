//! The clauses that a tree is built of, on their way to its leaves.

use std::borrow::Cow;

use super::clause::{ClauseDigest, Clauses, Condition, Conditions, Polarity};
use super::dimension::{Dimension, Dimensions, count};
use super::leaves::Candidate;

/// Maximum number of copies of a clause that wants one of several values: one below each value. A further dimension that would
/// exceed it is checked in the leaf instead. The first dimension is free: there a clause has one copy per entry of the
/// configuration.
pub(super) const MAX_COPIES: u32 = 64;

/// Average size of clauses that are gathered.
const GATHERED_SIZE: usize = 64;

/// A clause and its progress in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    clause: u32,
    /// Number of its copies in the tree.
    copies: u32,
    /// The dimensions whose wanted values the splits above have matched.
    met: Dimensions,
}

impl Item {
    fn may_be_copied(self, values: usize) -> bool {
        values == 1 || self.copies == 1 || self.copies.saturating_mul(count(values)) <= MAX_COPIES
    }

    /// Whether its copies are those of one long list, which other clauses may have as well.
    pub(super) fn is_of_long_list(self) -> bool {
        self.copies > MAX_COPIES
    }

    /// The copy that goes below each of so many values.
    pub(super) fn below(self, dimension: Dimension, values: usize) -> Self {
        Item { copies: self.copies.saturating_mul(count(values)), met: self.met.with(dimension), ..self }
    }
}

/// Clauses, with their digests beside each other.
#[derive(Debug)]
pub(super) struct KnownClauses<'c> {
    clauses: Cow<'c, Clauses>,
    digests: Vec<ClauseDigest>,
}

impl<'c> KnownClauses<'c> {
    pub(super) fn new(clauses: &'c Clauses) -> Self {
        let digests = (0..clauses.len()).map(|clause| clauses.digest(clause)).collect();
        KnownClauses { clauses: Cow::Borrowed(clauses), digests }
    }

    /// The items' clauses beside each other. The items are renumbered, and are for these clauses alone.
    pub(super) fn gathered(&self, items: &mut [Item]) -> KnownClauses<'static> {
        let digests = items.iter().map(|item| self.digest(*item)).collect();
        let mut clauses = Clauses::default();
        for item in items {
            let number = clauses.len();
            clauses.push_copy(&self.clauses, std::mem::replace(&mut item.clause, number));
        }
        KnownClauses { clauses: Cow::Owned(clauses), digests }
    }

    /// Whether the items' clauses are short enough to be gathered: those of long lists would be copied once for each of their values.
    pub(super) fn are_short(&self, items: &[Item]) -> bool {
        let sizes = items.iter().map(|item| self.clauses.conditions(item.clause).size());
        sizes.fold(0, usize::saturating_add) <= items.len().saturating_mul(GATHERED_SIZE)
    }

    pub(super) fn are_gathered(&self) -> bool {
        matches!(self.clauses, Cow::Owned(_))
    }

    /// All of them, at the root.
    pub(super) fn items(&self) -> Vec<Item> {
        (0..self.clauses.len()).map(|clause| Item { clause, copies: 1, met: Dimensions::default() }).collect()
    }

    pub(super) fn digest(&self, item: Item) -> ClauseDigest {
        self.digests.get(item.clause as usize).copied().unwrap_or(ClauseDigest::EMPTY)
    }

    pub(super) fn candidate(&self, item: Item) -> Candidate {
        let ClauseDigest { signature, clause, .. } = self.digest(item);
        Candidate { signature, clause }
    }

    /// Whether the item holds for every request that comes here: all later ones are unreachable.
    pub(super) fn is_certain(&self, item: Item) -> bool {
        let digest = self.digest(item);
        digest.excludes.is_empty() && digest.wants.without(item.met).is_empty()
    }

    /// Whether the item wants values that the splits above have not matched.
    pub(super) fn wants_more(&self, item: Item) -> bool {
        !self.digest(item).wants.without(item.met).is_empty()
    }

    /// The conditions that the splits above have not matched.
    pub(super) fn left(&self, item: Item) -> impl Iterator<Item = Condition<'_>> {
        let is_left = move |one: &Condition<'_>| one.wants == Polarity::NoneOf || !item.met.contains(one.dimension);
        self.clauses.conditions(item.clause).filter(is_left)
    }

    /// The conditions of the item that exclude values.
    pub(super) fn exclusions(&self, item: Item) -> Conditions<'_> {
        self.clauses.conditions(item.clause).exclusions()
    }

    /// The dimensions that may still separate the item.
    pub(super) fn open(&self, item: Item, used: Dimensions) -> Dimensions {
        let digest = self.digest(item);
        if item.may_be_copied(2) { digest.wants.without(used) } else { digest.wants_one.without(used) }
    }

    /// The values in each dimension on which a node may split for the item.
    pub(super) fn open_values(&self, item: Item, used: Dimensions) -> impl Iterator<Item = (Dimension, &[u32])> {
        let open = self.open(item, used);
        let conditions = (!open.is_empty()).then(|| self.clauses.conditions(item.clause));
        let wanted = conditions.into_iter().flatten().filter(move |condition| {
            condition.wants == Polarity::AnyOf
                && open.contains(condition.dimension)
                && item.may_be_copied(condition.ids.len())
        });
        wanted.map(|condition| (condition.dimension, condition.ids))
    }

    /// The values below which the item is put when a node splits on the dimension; none if it wants none, or too many.
    pub(super) fn values(&self, item: Item, dimension: Dimension) -> &[u32] {
        let mut conditions = self.clauses.conditions(item.clause);
        let wanted = conditions.find(|one| one.dimension == dimension && one.wants == Polarity::AnyOf);
        wanted.map(|wanted| wanted.ids).filter(|ids| item.may_be_copied(ids.len())).unwrap_or_default()
    }
}
