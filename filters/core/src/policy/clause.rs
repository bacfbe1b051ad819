use super::dimension::{Dimension, Dimensions};
use super::request_terms::RequestTerms;
use super::signature::Signature;

/// The constraint of a clause in one dimension. Ids ascend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) dimension: Dimension,
    pub(super) wants: Polarity,
    pub(super) ids: Vec<u32>,
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
    pub(super) policy: u32,
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
        policy: u32::MAX,
        wants: Dimensions::NONE,
        wants_one: Dimensions::NONE,
        excludes: Dimensions::NONE,
    };
}

/// Ways of matching a policy, each of conditions that must all hold. They are close together in memory, in the order of their
/// policies.
#[derive(Debug, Default)]
pub(super) struct Clauses {
    heads: Vec<Head>,
    conditions: Vec<Packed>,
    ids: Vec<u32>,
}

#[derive(Debug)]
struct Head {
    policy: u32,
    /// Start of its conditions; they end at the start of the next clause's.
    start: u32,
}

#[derive(Debug)]
struct Packed {
    dimension: Dimension,
    wants: Polarity,
    /// A single id, or where several begin in `ids`.
    at: u32,
    count: u32,
}

impl Clauses {
    pub(super) fn push(&mut self, policy: u32, mut conditions: Vec<&Condition>) {
        conditions.sort_unstable_by_key(|condition| (condition.wants, condition.dimension));
        self.heads.push(Head { policy, start: count(self.conditions.len()) });
        for condition in conditions {
            let at = match condition.ids.as_slice() {
                [id] => *id,
                ids => {
                    let at = count(self.ids.len());
                    self.ids.extend_from_slice(ids);
                    at
                }
            };
            self.conditions.push(Packed {
                dimension: condition.dimension,
                wants: condition.wants,
                at,
                count: count(condition.ids.len()),
            });
        }
    }

    pub(super) fn len(&self) -> u32 {
        count(self.heads.len())
    }

    pub(super) fn policy(&self, clause: u32) -> u32 {
        self.heads.get(clause as usize).map_or(u32::MAX, |head| head.policy)
    }

    pub(super) fn holds(&self, clause: u32, terms: &RequestTerms) -> bool {
        self.packed(clause).iter().all(|packed| {
            let present = terms.of_dimension(packed.dimension);
            let is_met = !present.is_empty() && intersect(self.ids(packed), present);
            is_met == (packed.wants == Polarity::AnyOf)
        })
    }

    /// The dimension, kind and ids of each condition.
    pub(super) fn conditions(&self, clause: u32) -> impl Iterator<Item = (Dimension, Polarity, &[u32])> {
        self.packed(clause).iter().map(|packed| (packed.dimension, packed.wants, self.ids(packed)))
    }

    /// The digest of a clause.
    pub(super) fn digest(&self, clause: u32) -> ClauseDigest {
        let mut digest = ClauseDigest { policy: self.policy(clause), ..ClauseDigest::EMPTY };
        for (dimension, wants, ids) in self.conditions(clause) {
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

    fn packed(&self, clause: u32) -> &[Packed] {
        let clause = clause as usize;
        let start = self.heads.get(clause).map_or(self.conditions.len(), |head| head.start as usize);
        let end = self.heads.get(clause.saturating_add(1)).map_or(self.conditions.len(), |head| head.start as usize);
        self.conditions.get(start..end).unwrap_or_default()
    }

    fn ids<'s>(&'s self, packed: &'s Packed) -> &'s [u32] {
        if packed.count == 1 {
            return std::slice::from_ref(&packed.at);
        }
        let start = packed.at as usize;
        self.ids.get(start..start.saturating_add(packed.count as usize)).unwrap_or_default()
    }
}

/// Counts here are bounded by the configuration's size, far below 2^32.
pub(super) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Whether two ascending lists share a value: the shorter is walked, the longer searched.
fn intersect(left: &[u32], right: &[u32]) -> bool {
    let (short, long) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    if long.len() <= 8 {
        return short.iter().any(|id| long.contains(id));
    }
    short.iter().any(|id| long.binary_search(id).is_ok())
}
