//! How much work leaves may take in all: a clause with a long list has as many copies as that has values, and each has all values
//! that the clause excludes. Compiling must not take time by the product of the two.

use super::clause::Clauses;

/// Values that may be looked at for each word of the configuration. The measured shapes need up to six.
const FOR_EACH: u64 = 32;

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
