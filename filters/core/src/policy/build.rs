//! Builds a [`Tree`] over clauses.

use super::clause::{Clauses, count};
use super::deal::{Below, Dealer, LEAF};
use super::dimension::{Dimension, Dimensions};
use super::edge_map::{Edge, EdgeMap};
use super::exclusion_index::{ExclusionIndexBuilder, WORD};
use super::items::{Item, KnownClauses};
use super::split_costs::SplitCosts;
use super::tree::{Branch, Node, Tree};
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
        edges: Vec::new(),
        exclusions: ExclusionIndexBuilder::default(),
        costs: SplitCosts::default(),
        dealer: Dealer::default(),
    };
    let root = builder.branch(&known, known.items(), Dimensions::default());
    Tree { root, edges: EdgeMap::new(builder.edges), exclusions: builder.exclusions.finish(), ..builder.tree }
}

struct TreeBuilder<'c> {
    clauses: &'c Clauses,
    tree: Tree,
    edges: Vec<Edge<Branch>>,
    exclusions: ExclusionIndexBuilder,
    costs: SplitCosts,
    dealer: Dealer,
}

impl TreeBuilder<'_> {
    fn branch(&mut self, known: &KnownClauses<'_>, mut items: Vec<Item>, used: Dimensions) -> Option<Branch> {
        if let Some(certain) = items.iter().position(|item| known.is_certain(*item)) {
            items.truncate(certain.saturating_add(1));
        }
        if GATHERED.contains(&items.len()) && !known.are_gathered() {
            let gathered = known.gathered(&mut items);
            return self.branch(&gathered, items, used);
        }
        let first = known.digest(*items.first()?).clause;
        let split = if items.len() <= LEAF { None } else { self.costs.best_split(known, &items, used) };
        let node = match split {
            Some(dimension) => self.split(known, items, (dimension, used.with(dimension))),
            None => self.leaf_of(known, &items),
        };
        Some(Branch { node, first })
    }

    fn leaf_of(&mut self, known: &KnownClauses<'_>, items: &[Item]) -> u32 {
        let start = self.tree.leaves.len();
        items.iter().for_each(|item| self.tree.leaves.push(known.candidate(*item)));
        let excludes = items.iter().any(|item| known.excludes(*item));
        self.leaf(start..self.tree.leaves.len(), excludes)
    }

    /// A leaf of the candidates in this range.
    fn leaf(&mut self, range: Range<usize>, excludes: bool) -> u32 {
        let is_large = excludes && range.len() > WORD;
        let (start, end) = (count(range.start), count(range.end));
        let clauses = self.clauses;
        let candidates = self.tree.leaves.candidates(range);
        let large_leaf = is_large.then(|| self.exclusions.add(clauses, candidates.clauses()));
        self.add(Node::Leaf { start, end, large_leaf })
    }

    fn split(&mut self, known: &KnownClauses<'_>, items: Vec<Item>, at: (Dimension, Dimensions)) -> u32 {
        let (dimension, used) = at;
        let dealt = self.dealer.deal(known, &items, at, &mut self.tree.leaves);
        drop(items);
        let node = self.add(Node::Split { dimension, others: None });
        for below in dealt.below {
            let value = below.value;
            if let Some(to) = self.below(known, below, used) {
                self.edges.push(Edge { from: node, value, to });
            }
        }
        let others = self.branch(known, dealt.others, used);
        if let Some(split) = self.tree.nodes.get_mut(node as usize) {
            *split = Node::Split { dimension, others };
        }
        node
    }

    fn below(&mut self, known: &KnownClauses<'_>, below: Below, used: Dimensions) -> Option<Branch> {
        if !below.is_leaf() {
            return self.branch(known, below.items, used);
        }
        let first = self.tree.leaves.candidates(below.candidates()).first_clause()?;
        Some(Branch { node: self.leaf(below.candidates(), below.excludes), first })
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

    /// The clauses in each leaf, and whether it is a large one.
    fn leaves(tree: &Tree) -> Vec<(u32, bool)> {
        let leaf = |node: &Node| match node {
            Node::Leaf { start, end, large_leaf } => Some((end - start, large_leaf.is_some())),
            Node::Split { .. } => None,
        };
        tree.nodes.iter().filter_map(leaf).collect()
    }

    #[test]
    fn clauses_that_differ_are_split() {
        let of_ten = |n| {
            vec![
                condition(Dimension::User, Polarity::AnyOf, vec![n / 40]),
                condition(Dimension::Verb, Polarity::AnyOf, vec![n % 40 / 4]),
                condition(Dimension::Namespace, Polarity::NoneOf, vec![n]),
            ]
        };
        let tree = build(&clauses((0..4000).map(of_ten)));
        assert!(leaves(&tree).iter().all(|(len, is_large)| *len as usize <= LEAF && !is_large));
        assert_eq!(tree.leaves.len(), 4000);
    }

    #[test]
    fn clauses_that_only_exclude_share_a_leaf() {
        let excluding = |n| vec![condition(Dimension::User, Polarity::NoneOf, vec![n])];
        assert_eq!(leaves(&build(&clauses((0..500).map(excluding)))), [(500, true)]);
    }

    #[test]
    fn behind_a_clause_that_always_holds_nothing_is_kept() {
        let only_one = |n| if n == 3 { vec![] } else { vec![condition(Dimension::User, Polarity::AnyOf, vec![n])] };
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
        let tree = build(&clauses((0..300).map(short)));
        assert!(tree.leaves.len() <= 300 * MAX_COPIES as usize, "{}", tree.leaves.len());
    }
}
