//! Builds a [`Tree`] over clauses.

use super::arrangement::{arranged, distinct};
use super::bit_leaf_builder::BitLeavesBuilder;
use super::bit_leaves::MOST;
use super::branches::{Branch, BranchesBuilder};
use super::build_work::BuildWork;
use super::clause::Clauses;
use super::deal::{Below, Dealer, LEAF};
use super::dimension::{Dimension, Dimensions, count};
use super::exclusion_index::LargeLeaf;
use super::exclusion_index_builder::ExclusionIndexBuilder;
use super::items::{Item, KnownClauses};
use super::split_costs::SplitCosts;
use super::tree::{Node, Tree};
use super::value_ranks::ValueRanks;
use std::collections::BTreeMap;
use std::ops::Range;

/// Nodes of so many clauses have copies of them beside each other, which the processor's cache holds: each is read again for
/// each of its own copies below.
const GATHERED: Range<usize> = 256..8192;

/// Builds the tree of all clauses.
pub(super) fn build(clauses: &Clauses) -> Tree {
    let known = KnownClauses::new(clauses);
    let mut builder = TreeBuilder {
        tree: Tree::default(),
        branches: BranchesBuilder::default(),
        bit_leaves: BitLeavesBuilder::of_clauses(clauses.len()),
        exclusions: ExclusionIndexBuilder::default(),
        ranks: ValueRanks::default(),
        work_of_rows: BuildWork::for_all(clauses),
        work_of_sets: BuildWork::for_all(clauses),
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

/// The ways to nodes of these items, among the values of a split.
type SharedWays = BTreeMap<Box<[Item]>, Option<Branch>>;

struct TreeBuilder {
    tree: Tree,
    branches: BranchesBuilder,
    bit_leaves: BitLeavesBuilder,
    exclusions: ExclusionIndexBuilder,
    ranks: ValueRanks,
    work_of_rows: BuildWork,
    work_of_sets: BuildWork,
    costs: SplitCosts,
    dealer: Dealer,
}

impl TreeBuilder {
    /// The way to items that are [`reachable`].
    fn branch(&mut self, known: &KnownClauses<'_>, mut items: Vec<Item>, used: Dimensions) -> Option<Branch> {
        if GATHERED.contains(&items.len()) && !known.are_gathered() && known.are_short(&items) {
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
        self.unsplit(known, items)
    }

    /// Clauses that no further split separates.
    fn unsplit(&mut self, known: &KnownClauses<'_>, items: Vec<Item>) -> u32 {
        let before = items.len();
        let work = &mut self.work_of_sets;
        let items = if work.is_left() { distinct(known, items, work) } else { items };
        if items.len() < before
            && let Some(leaf) = self.small_leaf(known, &items)
        {
            return leaf;
        }
        if items.len() > MOST && items.iter().any(|item| known.wants_more(*item)) {
            return self.parts(known, items);
        }
        self.leaf_of(known, items)
    }

    /// Clauses that want more values in parts that can be compared all at once, the others in a leaf of their own.
    fn parts(&mut self, known: &KnownClauses<'_>, items: Vec<Item>) -> u32 {
        let (wanting, others): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| known.wants_more(*item));
        let mut parts: Vec<Branch> = Vec::new();
        for part in wanting.chunks(MOST).chain([others.as_slice()]) {
            let Some(item) = part.first() else { continue };
            let leaf = self.small_leaf(known, part);
            let node = leaf.unwrap_or_else(|| self.leaf_of(known, part.to_vec()));
            parts.push(Branch { node, first: known.digest(*item).clause });
        }
        parts.sort_unstable_by_key(|part| part.first);
        let start = self.tree.parts.len();
        self.tree.parts.extend(parts);
        self.add(Node::Parts { start: count(start), end: count(self.tree.parts.len()) })
    }

    /// A leaf of clauses to check one by one, if they are few, or all at once.
    fn small_leaf(&mut self, known: &KnownClauses<'_>, items: &[Item]) -> Option<u32> {
        if items.len() <= LEAF {
            return Some(self.leaf_with(known, items, None));
        }
        if items.len() > MOST || !self.work_of_rows.is_left() {
            return None;
        }
        let leaf = self.bit_leaves.add(known, items);
        self.work_of_rows.spend(self.bit_leaves.seen);
        Some(self.add(Node::Bits(leaf?)))
    }

    /// A leaf of clauses to check one by one. Many have sets of those that exclude the same, while there is work left for these.
    fn leaf_of(&mut self, known: &KnownClauses<'_>, mut items: Vec<Item>) -> u32 {
        let mut large_leaf = None;
        if items.len() > LEAF && self.work_of_sets.is_left() {
            self.work_of_sets.spend(self.ranks.rank_all(known, &items));
            if self.ranks.are_worth_sets(items.len()) {
                items = arranged(known, items, &self.ranks);
                large_leaf = Some(self.exclusions.add(known, &items, &self.ranks));
            }
        }
        self.leaf_with(known, &items, large_leaf)
    }

    fn leaf_with(&mut self, known: &KnownClauses<'_>, items: &[Item], large_leaf: Option<LargeLeaf>) -> u32 {
        let start = self.tree.leaves.len();
        items.iter().for_each(|item| self.tree.leaves.push(known.candidate(*item)));
        self.leaf(start..self.tree.leaves.len(), large_leaf)
    }

    /// A leaf of the candidates in this range.
    fn leaf(&mut self, range: Range<usize>, large_leaf: Option<LargeLeaf>) -> u32 {
        self.add(Node::Leaf { start: count(range.start), end: count(range.end), large_leaf })
    }

    fn split(&mut self, known: &KnownClauses<'_>, items: Vec<Item>, (dimension, used): (Dimension, Dimensions)) -> u32 {
        let dealt = self.dealer.deal(known, &items, dimension, &mut self.tree.leaves);
        drop(items);
        let mut ways = Vec::with_capacity(dealt.below.len());
        let mut shared = SharedWays::default();
        for below in dealt.below {
            let value = below.value;
            ways.extend(self.below(known, below, used, &mut shared).map(|to| (value, to)));
        }
        let others = self.branch(known, reachable(known, dealt.others), used).unwrap_or(Branch::NONE);
        let places = self.branches.add(count(self.tree.nodes.len()), &ways);
        self.add(Node::Split { dimension, places, others })
    }

    fn below(
        &mut self,
        known: &KnownClauses<'_>,
        below: Below,
        used: Dimensions,
        shared: &mut SharedWays,
    ) -> Option<Branch> {
        if !below.is_leaf() {
            return self.shared_branch(known, below.items, used, shared);
        }
        let first = self.tree.leaves.candidates(below.candidates()).first_clause()?;
        Some(Branch { node: self.leaf(below.candidates(), None), first })
    }

    /// Long lists are mostly those of a team, the same in all its clauses: then its values lead to one node.
    fn shared_branch(
        &mut self,
        known: &KnownClauses<'_>,
        items: Vec<Item>,
        used: Dimensions,
        shared: &mut SharedWays,
    ) -> Option<Branch> {
        if !items.iter().any(|item| item.is_of_long_list()) {
            return self.branch(known, items, used);
        }
        if let Some(way) = shared.get(items.as_slice()) {
            return *way;
        }
        let key = items.clone().into_boxed_slice();
        let way = self.branch(known, items, used);
        shared.insert(key, way);
        way
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
            Node::Bits(_) | Node::Parts { .. } | Node::Split { .. } => None,
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
        let excluding = |ids: Vec<u32>| vec![condition(Dimension::User, Polarity::NoneOf, ids)];
        let of_own = |n: u32| excluding(vec![n, n + 1000]);
        assert_eq!(leaves(&build(&clauses((0..500).map(of_own)))), [(500, false)]);
        let of_many = |n: u32| excluding(vec![n, 1000 + n % 9]);
        assert_eq!(leaves(&build(&clauses((0..500).map(of_many)))), [(500, true)]);
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
