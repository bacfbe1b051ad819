use super::bit_leaves::{BitLeaf, BitLeaves};
use super::branches::{Branch, BranchPlaces, Branches};
use super::clause::Clauses;
use super::dimension::Dimension;
use super::exclusion_index::{BLOCK, ExclusionIndex, LargeLeaf, WORD};
use super::leaves::{Candidate, Candidates, Leaves};
use super::request_terms::RequestTerms;

#[derive(Debug)]
pub(super) enum Node {
    /// Clauses to check one by one, in the order of their policies: `leaves[start..end]`.
    Leaf { start: u32, end: u32, large_leaf: Option<LargeLeaf> },
    /// Clauses that are compared all at once.
    Bits(BitLeaf),
    /// Leaves to look into one after the other, by their first clauses: `parts[start..end]`.
    Parts { start: u32, end: u32 },
    /// A way on for each value of the dimension that the request has, and one for the clauses that want none there.
    Split { dimension: Dimension, places: BranchPlaces, others: Branch },
}

/// Finds the clauses that can match a request, without looking at the rest.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) root: Option<Branch>,
    pub(super) nodes: Vec<Node>,
    pub(super) parts: Vec<Branch>,
    pub(super) leaves: Leaves,
    pub(super) bit_leaves: BitLeaves,
    pub(super) branches: Branches,
    pub(super) exclusions: ExclusionIndex,
}

/// The best match so far, in a search that only looks for better ones.
struct Search<'s> {
    tree: &'s Tree,
    clauses: &'s Clauses,
    terms: &'s RequestTerms,
    /// Its clause.
    best: u32,
    /// Number of clauses that were looked at one by one.
    #[cfg(test)]
    checked: usize,
}

impl Tree {
    /// The first policy that has a clause which holds.
    pub(super) fn first_match(&self, clauses: &Clauses, terms: &RequestTerms) -> Option<u32> {
        let mut search = Search::new(self, clauses, terms);
        search.follow(self.root?);
        (search.best != u32::MAX).then(|| clauses.policy(search.best))
    }

    /// Number of clauses that a search looks at one by one.
    #[cfg(test)]
    pub(super) fn checked(&self, clauses: &Clauses, terms: &RequestTerms) -> usize {
        let mut search = Search::new(self, clauses, terms);
        self.root.into_iter().for_each(|root| search.follow(root));
        search.checked
    }
}

impl<'s> Search<'s> {
    #[inline]
    fn new(tree: &'s Tree, clauses: &'s Clauses, terms: &'s RequestTerms) -> Self {
        Search {
            tree,
            clauses,
            terms,
            best: u32::MAX,
            #[cfg(test)]
            checked: 0,
        }
    }

    /// Looks behind a branch, if something better can be there.
    #[inline]
    fn follow(&mut self, branch: Branch) {
        if branch.first < self.best {
            self.enter(branch);
        }
    }

    /// No deeper than there are dimensions and one more: no way splits twice on one.
    fn enter(&mut self, branch: Branch) {
        match self.tree.nodes.get(branch.node as usize) {
            Some(Node::Leaf { start, end, large_leaf }) => {
                let leaf = self.tree.leaves.candidates(*start as usize..*end as usize);
                match large_leaf {
                    None => self.check(leaf.iter()),
                    Some(large_leaf) => self.check_large_leaf(leaf, *large_leaf),
                }
            }
            Some(Node::Bits(leaf)) => {
                let found = self.tree.bit_leaves.first(*leaf, self.terms, self.best);
                self.best = self.best.min(found.unwrap_or(u32::MAX));
            }
            Some(Node::Split { dimension, places, others }) => {
                self.follow_split(branch.node, (*dimension, *places), *others);
            }
            Some(Node::Parts { start, end }) => {
                let parts = self.tree.parts.get(*start as usize..*end as usize).unwrap_or_default();
                parts.iter().for_each(|part| self.follow(*part));
            }
            None => {}
        }
    }

    /// The node with the earlier policy comes first: a match there spares more of the rest.
    fn follow_split(&mut self, node: u32, (dimension, places): (Dimension, BranchPlaces), mut others: Branch) {
        let mut before = u32::MAX;
        for id in self.terms.of_dimension(dimension) {
            let branch = self.tree.branches.find(node, places, *id);
            // The groups of a team lead to one node.
            if branch.first >= self.best || branch.node == before {
                continue;
            }
            before = branch.node;
            if others.first < branch.first {
                self.follow(std::mem::replace(&mut others, Branch::NONE));
            }
            self.follow(branch);
        }
        self.follow(others);
    }

    fn check_large_leaf(&mut self, leaf: Candidates<'_>, large_leaf: LargeLeaf) {
        let mut excluded = self.tree.exclusions.excluded(large_leaf, self.terms);
        let mut next = 0;
        while let Some((number, excluded)) = excluded.next_block(next) {
            let mut block = leaf.from(number.saturating_mul(BLOCK));
            if block.first_clause().is_none_or(|clause| clause >= self.best) {
                return;
            }
            for out in excluded {
                if out != u64::MAX {
                    let left = block.iter().zip(0..WORD).filter(|(_, at)| out >> at & 1 == 0);
                    self.check(left.map(|(candidate, _)| candidate));
                }
                block = block.from(WORD);
            }
            next = number.saturating_add(1);
        }
    }

    /// Checks clauses in their order, which is the policies', up to the first that holds.
    fn check(&mut self, candidates: impl Iterator<Item = Candidate>) {
        for Candidate { signature, clause } in candidates {
            if clause >= self.best {
                return;
            }
            #[cfg(test)]
            {
                self.checked += 1;
            }
            if self.terms.signature.may_meet(signature) && self.clauses.holds(clause, self.terms) {
                self.best = clause;
                return;
            }
        }
    }
}
