//! How much work leaves may take in all: copies of a clause with long lists are as many as its wanted values, and each has all its
//! exclusions. Their product is no size that a configuration has a right to.

use super::clause::Clauses;
use super::items::MAX_COPIES;

/// Values that may be looked at for each word of the configuration. No measured shape needs a tenth of it.
const FOR_EACH: u64 = MAX_COPIES as u64;

/// Values that may still be looked at while a tree is built.
#[derive(Debug)]
pub(super) struct BuildWork {
    left: u64,
}

impl BuildWork {
    /// As much as these clauses may take.
    pub(super) fn for_all(clauses: &Clauses) -> Self {
        BuildWork { left: FOR_EACH.saturating_mul(clauses.size() as u64) }
    }

    /// Counts values that were looked at.
    pub(super) fn spend(&mut self, values: usize) {
        self.left = self.left.saturating_sub(values as u64);
    }

    pub(super) fn is_left(&self) -> bool {
        self.left > 0
    }
}
