//! Builds a [`Tree`] over clauses.

use super::arrangement::{arranged, distinct};
use super::bit_leaf_builder::BitLeavesBuilder;
use super::branches::{Branch, BranchesBuilder};
use super::clause::{Clauses, count};
use super::deal::{Below, Dealer, LEAF};
use super::dimension::{Dimension, Dimensions};
use super::exclusion_index::{ExclusionIndexBuilder, LargeLeaf, WORD};
use super::items::{Item, KnownClauses};
use super::split_costs::SplitCosts;
use super::tree::{Node, Tree};
use std::ops::Range;

/// Nodes of so many clauses have copies of them beside each other, which the processor's cache holds: each is read again for
/// each of its own copies below.
const GATHERED: Range<usize> = 256..8192;

/// Builds the tree of all clauses.
pub(super) fn build(clauses: &Clauses) -> Tree {
    let known = KnownClauses::new(clauses);
    let mut builder = TreeBuilder {
        clauses,
        tree: Tree::default(),
        branches: BranchesBuilder::default(),
        bit_leaves: BitLeavesBuilder::of_clauses(clauses.len()),
        exclusions: ExclusionIndexBuilder::default(),
        costs: SplitCosts::default(),
        dealer: Dealer::default(),
    };
    let root = builder.branch(&known, reachable(&known, known.items()), Dimensions::default());
    Tree {
        root,
        branches: builder.branches.finish(),
        bit_leaves: builder.bit_leaves.finish(),
        exclusions: builder.exclusions.finish(),
        ..builder.tree
    }
}

/// The items up to the first that holds for every request that comes here.
fn reachable(known: &KnownClauses<'_>, mut items: Vec<Item>) -> Vec<Item> {
    if let Some(certain) = items.iter().position(|item| known.is_certain(*item)) {
        items.truncate(certain.saturating_add(1));
    }
    items
}

struct TreeBuilder<'c> {
    clauses: &'c Clauses,
    tree: Tree,
    branches: BranchesBuilder,
    bit_leaves: BitLeavesBuilder,
    exclusions: ExclusionIndexBuilder,
    costs: SplitCosts,
    dealer: Dealer,
}

impl TreeBuilder<'_> {
    /// The way to items that are [`reachable`].
    fn branch(&mut self, known: &KnownClauses<'_>, mut items: Vec<Item>, used: Dimensions) -> Option<Branch> {
        if GATHERED.contains(&items.len()) && !known.are_gathered() {
            let gathered = known.gathered(&mut items);
            return self.branch(&gathered, items, used);
        }
        let first = known.digest(*items.first()?).clause;
        Some(Branch { node: self.node(known, items, used), first })
    }

    fn node(&mut self, known: &KnownClauses<'_>, items: Vec<Item>, used: Dimensions) -> u32 {
        if let Some(leaf) = self.small_leaf(known, &items) {
            return leaf;
        }
        if let Some(dimension) = self.costs.best_split(known, &items, used) {
            return self.split(known, items, (dimension, used.with(dimension)));
        }
        let before = items.len();
        let items = distinct(known, items);
        let are_fewer = items.len() < before;
        let leaf = are_fewer.then(|| self.small_leaf(known, &items)).flatten();
        leaf.unwrap_or_else(|| self.leaf_of(known, &arranged(known, items)))
    }

    /// A leaf of clauses to check one by one, if they are few, or all at once.
    fn small_leaf(&mut self, known: &KnownClauses<'_>, items: &[Item]) -> Option<u32> {
        if items.len() <= LEAF {
            return Some(self.leaf_of(known, items));
        }
        let leaf = self.bit_leaves.add(known, items)?;
        Some(self.add(Node::Bits(leaf)))
    }

    fn leaf_of(&mut self, known: &KnownClauses<'_>, items: &[Item]) -> u32 {
        let start = self.tree.leaves.len();
        items.iter().for_each(|item| self.tree.leaves.push(known.candidate(*item)));
        let range = start..self.tree.leaves.len();
        let is_large = range.len() > WORD && items.iter().any(|item| known.excludes(*item));
        let clauses = self.tree.leaves.candidates(range.clone()).clauses();
        let large_leaf = is_large.then(|| self.exclusions.add(self.clauses, clauses));
        self.leaf(range, large_leaf)
    }

    /// A leaf of the candidates in this range.
    fn leaf(&mut self, range: Range<usize>, large_leaf: Option<LargeLeaf>) -> u32 {
        self.add(Node::Leaf { start: count(range.start), end: count(range.end), large_leaf })
    }

    fn split(&mut self, known: &KnownClauses<'_>, items: Vec<Item>, (dimension, used): (Dimension, Dimensions)) -> u32 {
        let dealt = self.dealer.deal(known, &items, dimension, &mut self.tree.leaves);
        drop(items);
        let mut ways = Vec::with_capacity(dealt.below.len());
        for below in dealt.below {
            let value = below.value;
            ways.extend(self.below(known, below, used).map(|to| (value, to)));
        }
        let others = self.branch(known, reachable(known, dealt.others), used).unwrap_or(Branch::NONE);
        let places = self.branches.add(count(self.tree.nodes.len()), &ways);
        self.add(Node::Split { dimension, places, others })
    }

    fn below(&mut self, known: &KnownClauses<'_>, below: Below, used: Dimensions) -> Option<Branch> {
        if !below.is_leaf() {
            return self.branch(known, below.items, used);
        }
        let first = self.tree.leaves.candidates(below.candidates()).first_clause()?;
        Some(Branch { node: self.leaf(below.candidates(), None), first })
    }

    fn add(&mut self, node: Node) -> u32 {
        self.tree.nodes.push(node);
        count(self.tree.nodes.len()).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::clause::{Condition, Polarity};
    use super::super::deal::LEAF;
    use super::super::items::MAX_COPIES;
    use super::*;

    type Wanted = (Dimension, Polarity, Vec<u32>);

    fn condition(dimension: Dimension, wants: Polarity, ids: Vec<u32>) -> Wanted {
        (dimension, wants, ids)
    }

    fn clauses(all: impl Iterator<Item = Vec<Wanted>>) -> Clauses {
        let mut clauses = Clauses::default();
        for (conditions, policy) in all.zip(0..) {
            let conditions = conditions.iter().map(|(dimension, wants, ids)| Condition {
                dimension: *dimension,
                wants: *wants,
                ids,
            });
            clauses.push(policy, &mut conditions.collect::<Vec<_>>());
        }
        clauses
    }

    /// The clauses in each leaf, and whether it is a large one; those that are compared at once are left out.
    fn leaves(tree: &Tree) -> Vec<(u32, bool)> {
        let leaf = |node: &Node| match node {
            Node::Leaf { start, end, large_leaf } => Some((end - start, large_leaf.is_some())),
            Node::Bits(_) | Node::Split { .. } => None,
        };
        tree.nodes.iter().filter_map(leaf).collect()
    }

    fn count_of(tree: &Tree, is: fn(&Node) -> bool) -> usize {
        tree.nodes.iter().filter(|node| is(node)).count()
    }

    #[test]
    fn clauses_that_differ_are_split() {
        let of_ten = |n: u32| {
            vec![
                condition(Dimension::User, Polarity::AnyOf, vec![n / 40]),
                condition(Dimension::Verb, Polarity::AnyOf, vec![n % 40 / 4]),
                condition(Dimension::Namespace, Polarity::NoneOf, (n * 10..n * 10 + 10).collect()),
            ]
        };
        let tree = build(&clauses((0..4000).map(of_ten)));
        assert!(leaves(&tree).iter().all(|(len, is_large)| *len as usize <= LEAF && !is_large));
        assert_eq!((tree.leaves.len(), count_of(&tree, |node| matches!(node, Node::Bits(_)))), (4000, 0));
    }

    #[test]
    fn clauses_with_values_in_common_are_compared_at_once() {
        let of_ten = |n: u32| {
            vec![
                condition(Dimension::User, Polarity::AnyOf, vec![n / 400]),
                condition(Dimension::Verb, Polarity::AnyOf, vec![n % 5, n % 5 + 1]),
                condition(Dimension::Resource, Polarity::AnyOf, vec![n % 4, 4 + n % 4]),
            ]
        };
        let tree = build(&clauses((0..4000).map(of_ten)));
        let kinds = [count_of(&tree, |node| matches!(node, Node::Bits(_))), tree.nodes.len(), tree.leaves.len()];
        assert_eq!(kinds, [10, 11, 0]);
    }

    #[test]
    fn clauses_that_only_exclude_share_a_leaf() {
        let excluding = |n: u32| vec![condition(Dimension::User, Polarity::NoneOf, vec![n])];
        assert_eq!(leaves(&build(&clauses((0..500).map(excluding)))), [(500, true)]);
    }

    #[test]
    fn clauses_that_exclude_the_same_are_kept_once() {
        let excluding = |n: u32| vec![condition(Dimension::User, Polarity::NoneOf, vec![n % 9, 9])];
        assert_eq!(leaves(&build(&clauses((0..5000).map(excluding)))), [(9, false)]);
    }

    #[test]
    fn behind_a_clause_that_always_holds_nothing_is_kept() {
        let only_one =
            |n: u32| if n == 3 { vec![] } else { vec![condition(Dimension::User, Polarity::AnyOf, vec![n])] };
        let tree = build(&clauses((0..500).map(only_one)));
        assert_eq!((tree.leaves.len(), tree.nodes.len()), (4, 1));
    }

    #[test]
    fn long_lists_are_multiplied_out_only_so_far() {
        let list = |n: u32| (n..n + 100).collect::<Vec<_>>();
        let wide = |n| {
            [Dimension::User, Dimension::Namespace, Dimension::Resource]
                .map(|dimension| condition(dimension, Polarity::AnyOf, list(n)))
                .into()
        };
        let tree = build(&clauses((0..300).map(wide)));
        assert!((300..=300 * 100).contains(&tree.leaves.len()), "{}", tree.leaves.len());
        let short = |n: u32| {
            [Dimension::User, Dimension::Namespace, Dimension::Resource, Dimension::Verb]
                .map(|dimension| condition(dimension, Polarity::AnyOf, (n % 50..n % 50 + 6).collect()))
                .into()
        };
        let tree = build(&clauses((0..6000).map(short)));
        let copies = tree.leaves.len() + tree.bit_leaves.clauses.len();
        assert!((6000..=6000 * MAX_COPIES as usize).contains(&copies), "{copies}");
    }
}
