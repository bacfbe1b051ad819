use super::dimension::{Dimension, Dimensions, count};
use super::request_terms::RequestTerms;
use super::signature::Signature;

/// The constraint of a clause in one dimension. Ids ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition<'i> {
    pub(super) dimension: Dimension,
    pub(super) wants: Polarity,
    pub(super) ids: &'i [u32],
}

impl Condition<'_> {
    /// A place for a condition.
    pub(super) const ANYTHING: Condition<'static> =
        Condition { dimension: Dimension::User, wants: Polarity::NoneOf, ids: &[] };
}

/// Whether one of the ids must be among what a request says, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Polarity {
    AnyOf,
    NoneOf,
}

/// The parts of a clause that are asked for at every node while the tree is built.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClauseDigest {
    pub(super) signature: Signature,
    /// Its number among all.
    pub(super) clause: u32,
    /// The dimensions in which it wants a value, and those in which it wants a single one.
    pub(super) wants: Dimensions,
    pub(super) wants_one: Dimensions,
    /// The dimensions in which it excludes values.
    pub(super) excludes: Dimensions,
}

impl ClauseDigest {
    /// A clause that is not there: it comes last.
    pub(super) const EMPTY: ClauseDigest = ClauseDigest {
        signature: Signature::NONE,
        clause: u32::MAX,
        wants: Dimensions::NONE,
        wants_one: Dimensions::NONE,
        excludes: Dimensions::NONE,
    };
}

/// Ways of matching a policy, each of conditions that must all hold. A clause and all its ids are one piece of memory, in the
/// order of the policies: to look at a clause that is not in the processor's cache costs one wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Clauses {
    heads: Vec<Head>,
    /// Of each condition: its kind, the number of its ids, and the ids.
    words: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    policy: u32,
    /// Start of its words; they end at the start of the next clause's.
    start: u32,
}

/// The conditions of a clause. They are equal if their words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Conditions<'c> {
    words: &'c [u32],
}

impl Clauses {
    /// Adds a clause.
    pub(super) fn push(&mut self, policy: u32, conditions: &mut [Condition<'_>]) {
        conditions.sort_unstable_by_key(|condition| (condition.wants, condition.dimension));
        self.heads.push(Head { policy, start: count(self.words.len()) });
        for condition in conditions {
            self.words.extend([kind(condition.dimension, condition.wants), count(condition.ids.len())]);
            self.words.extend_from_slice(condition.ids);
        }
    }

    pub(super) fn len(&self) -> u32 {
        count(self.heads.len())
    }

    /// Number of words and heads.
    pub(super) fn size(&self) -> usize {
        self.words.len().saturating_add(self.heads.len())
    }

    pub(super) fn policy(&self, clause: u32) -> u32 {
        self.heads.get(clause as usize).map_or(u32::MAX, |head| head.policy)
    }

    pub(super) fn holds(&self, clause: u32, terms: &RequestTerms) -> bool {
        self.conditions(clause).all(|condition| {
            let is_met = intersect(condition.ids, terms.of_dimension(condition.dimension));
            is_met == (condition.wants == Polarity::AnyOf)
        })
    }

    /// The conditions of a clause: those that want a value first.
    pub(super) fn conditions(&self, clause: u32) -> Conditions<'_> {
        let clause = clause as usize;
        let start = self.heads.get(clause).map_or(self.words.len(), |head| head.start as usize);
        let end = self.heads.get(clause.saturating_add(1)).map_or(self.words.len(), |head| head.start as usize);
        Conditions { words: self.words.get(start..end).unwrap_or_default() }
    }

    /// Adds a clause of others.
    pub(super) fn push_copy(&mut self, others: &Clauses, clause: u32) {
        self.heads.push(Head { policy: others.policy(clause), start: count(self.words.len()) });
        self.words.extend_from_slice(others.conditions(clause).words);
    }

    /// The digest of a clause.
    pub(super) fn digest(&self, clause: u32) -> ClauseDigest {
        let mut digest = ClauseDigest { clause, ..ClauseDigest::EMPTY };
        for Condition { dimension, wants, ids } in self.conditions(clause) {
            if wants == Polarity::NoneOf {
                digest.excludes = digest.excludes.with(dimension);
                continue;
            }
            digest.wants = digest.wants.with(dimension);
            digest.signature.want(dimension, ids);
            if ids.len() == 1 {
                digest.wants_one = digest.wants_one.with(dimension);
            }
        }
        digest
    }
}

impl Conditions<'_> {
    /// Number of values, and two more for each condition.
    pub(super) fn size(self) -> usize {
        self.words.len()
    }

    /// Those that exclude values: they come last.
    pub(super) fn exclusions(mut self) -> Self {
        loop {
            let all = self;
            if self.next().is_none_or(|first| first.wants == Polarity::NoneOf) {
                return all;
            }
        }
    }
}

impl<'c> Iterator for Conditions<'c> {
    type Item = Condition<'c>;

    #[inline]
    fn next(&mut self) -> Option<Condition<'c>> {
        let [kind, count, rest @ ..] = self.words else { return None };
        let (ids, rest) = rest.split_at_checked(*count as usize)?;
        self.words = rest;
        let wants = if *kind & NONE_OF == 0 { Polarity::AnyOf } else { Polarity::NoneOf };
        Some(Condition { dimension: *Dimension::ALL.get((*kind & !NONE_OF) as usize)?, wants, ids })
    }
}

/// The bit of a kind that excludes.
const NONE_OF: u32 = 1 << 8;

fn kind(dimension: Dimension, wants: Polarity) -> u32 {
    let excludes = if wants == Polarity::NoneOf { NONE_OF } else { 0 };
    dimension as u32 | excludes
}

/// Whether two ascending lists share a value.
#[inline]
fn intersect(left: &[u32], right: &[u32]) -> bool {
    if left.len().max(right.len()) > 8 {
        return intersect_long(left, right);
    }
    right.iter().any(|id| left.iter().any(|other| other == id))
}

/// The shorter is walked, the longer searched.
fn intersect_long(left: &[u32], right: &[u32]) -> bool {
    let (short, long) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    short.iter().any(|id| long.binary_search(id).is_ok())
}
