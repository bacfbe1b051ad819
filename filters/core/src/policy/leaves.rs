use std::ops::Range;

use super::signature::Signature;

/// A clause in a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) signature: Signature,
    pub(super) clause: u32,
}

/// The clauses in all leaves. Signatures are beside each other: most clauses are excluded without reading more.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    signatures: Vec<Signature>,
    clauses: Vec<u32>,
}

/// Some of them, in the order of their policies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates<'t> {
    signatures: &'t [Signature],
    clauses: &'t [u32],
}

impl Leaves {
    pub(super) fn len(&self) -> usize {
        self.clauses.len()
    }

    pub(super) fn push(&mut self, candidate: Candidate) {
        self.signatures.push(candidate.signature);
        self.clauses.push(candidate.clause);
    }

    /// Makes places up to this one.
    pub(super) fn extend_to(&mut self, len: usize) {
        self.signatures.resize(len, Signature::NONE);
        self.clauses.resize(len, u32::MAX);
    }

    pub(super) fn put(&mut self, at: usize, candidate: Candidate) {
        if let (Some(signature), Some(clause)) = (self.signatures.get_mut(at), self.clauses.get_mut(at)) {
            (*signature, *clause) = (candidate.signature, candidate.clause);
        }
    }

    pub(super) fn candidates(&self, range: Range<usize>) -> Candidates<'_> {
        let signatures = self.signatures.get(range.clone()).unwrap_or_default();
        Candidates { signatures, clauses: self.clauses.get(range).unwrap_or_default() }
    }
}

impl<'t> Candidates<'t> {
    pub(super) fn first_clause(self) -> Option<u32> {
        self.clauses.first().copied()
    }

    /// Those from a place on.
    pub(super) fn from(self, start: usize) -> Self {
        let signatures = self.signatures.get(start..).unwrap_or_default();
        Candidates { signatures, clauses: self.clauses.get(start..).unwrap_or_default() }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Candidate> {
        let both = self.signatures.iter().zip(self.clauses);
        both.map(|(signature, clause)| Candidate { signature: *signature, clause: *clause })
    }
}
