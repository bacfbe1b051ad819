//! Builds a [`Tree`] over clauses.

use super::clause::{ClauseDigest, Clauses, Polarity, count};
use super::dimension::{Dimension, Dimensions};
use super::edge_map::{Edge, EdgeMap};
use super::exclusion_index::{ExclusionIndexBuilder, WORD};
use super::tree::{Branch, Candidate, Node, Tree};

/// Below this many clauses a linear scan beats another split.
const LEAF: usize = 32;
/// Maximum number of copies of a clause that wants one of several values: one below each value. A further dimension that would
/// exceed it is checked in the leaf instead. The first dimension is free: there a clause has one copy per entry of the
/// configuration.
const MAX_COPIES: u32 = 64;

/// A clause and its progress in the tree.
#[derive(Clone, Copy, Debug, Default)]
struct Item {
    clause: u32,
    /// Number of its copies in the tree.
    copies: u32,
    /// The dimensions whose wanted values the splits above have matched.
    met: Dimensions,
}

/// Builds the tree of all clauses.
pub(super) fn build(clauses: &Clauses) -> Tree {
    let items = (0..clauses.len()).map(|clause| Item { clause, copies: 1, met: Dimensions::default() }).collect();
    let mut builder = TreeBuilder {
        known: KnownClauses::new(clauses),
        tree: Tree::default(),
        edges: Vec::new(),
        exclusions: ExclusionIndexBuilder::default(),
        costs: SplitCosts::default(),
    };
    let root = builder.branch(items, Dimensions::default());
    Tree { root, edges: EdgeMap::new(builder.edges), exclusions: builder.exclusions.finish(), ..builder.tree }
}

struct TreeBuilder<'c> {
    known: KnownClauses<'c>,
    tree: Tree,
    edges: Vec<Edge<Branch>>,
    exclusions: ExclusionIndexBuilder,
    costs: SplitCosts,
}

/// All clauses, with their digests beside each other.
struct KnownClauses<'c> {
    clauses: &'c Clauses,
    digests: Vec<ClauseDigest>,
}

impl<'c> KnownClauses<'c> {
    fn new(clauses: &'c Clauses) -> Self {
        KnownClauses { clauses, digests: (0..clauses.len()).map(|clause| clauses.digest(clause)).collect() }
    }

    fn digest(&self, item: Item) -> ClauseDigest {
        self.digests.get(item.clause as usize).copied().unwrap_or(ClauseDigest::EMPTY)
    }

    /// The dimensions that may still separate the item.
    fn open(&self, item: Item, used: Dimensions) -> Dimensions {
        let digest = self.digest(item);
        let may_be_copied = item.may_be_copied(2);
        if may_be_copied { digest.wants.without(used) } else { digest.wants_one.without(used) }
    }

    /// The values below which the item is put when a node splits on the dimension; none if it wants none, or too many.
    fn values(&self, item: Item, dimension: Dimension) -> &'c [u32] {
        let mut conditions = self.clauses.conditions(item.clause);
        let wanted = conditions.find(|(at, wants, _)| *at == dimension && *wants == Polarity::AnyOf);
        wanted.map(|(_, _, ids)| ids).filter(|ids| item.may_be_copied(ids.len())).unwrap_or_default()
    }
}

impl Item {
    fn may_be_copied(&self, values: usize) -> bool {
        self.copies == 1 || self.copies.saturating_mul(count(values)) <= MAX_COPIES
    }

    fn below(self, dimension: Dimension, values: usize) -> Self {
        Item { copies: self.copies.saturating_mul(count(values)), met: self.met.with(dimension), ..self }
    }
}

impl TreeBuilder<'_> {
    fn branch(&mut self, mut items: Vec<Item>, used: Dimensions) -> Option<Branch> {
        self.drop_unreachable(&mut items);
        let first = self.known.digest(*items.first()?).policy;
        let split = if items.len() <= LEAF { None } else { self.costs.best_split(&self.known, &items, used) };
        let node = match split {
            Some(dimension) => self.split(items, dimension, used.with(dimension)),
            None => self.leaf(&items),
        };
        Some(Branch { node, first })
    }

    /// A clause that always matches here makes all later ones unreachable.
    fn drop_unreachable(&self, items: &mut Vec<Item>) {
        let is_certain = |item: &Item| {
            let digest = self.known.digest(*item);
            digest.excludes.is_empty() && digest.wants.without(item.met).is_empty()
        };
        if let Some(certain) = items.iter().position(is_certain) {
            items.truncate(certain.saturating_add(1));
        }
    }

    fn leaf(&mut self, items: &[Item]) -> u32 {
        let start = count(self.tree.leaves.len());
        let mut excludes = false;
        self.tree.leaves.extend(items.iter().map(|item| {
            let digest = self.known.digest(*item);
            excludes |= !digest.excludes.is_empty();
            Candidate { signature: digest.signature, clause: item.clause, policy: digest.policy }
        }));
        let is_large = excludes && items.len() > WORD;
        let clauses = self.known.clauses;
        let large_leaf = is_large.then(|| self.exclusions.add(clauses, items.iter().map(|item| item.clause)));
        self.add(Node::Leaf { start, end: count(self.tree.leaves.len()), large_leaf })
    }

    fn split(&mut self, items: Vec<Item>, dimension: Dimension, used: Dimensions) -> u32 {
        let (below, others) = self.costs.by_value(&self.known, &items, dimension);
        drop(items);
        let node = self.add(Node::Split { dimension, others: None });
        for (value, items) in below {
            if let Some(to) = self.branch(items, used) {
                self.edges.push(Edge { from: node, value, to });
            }
        }
        let others = self.branch(others, used);
        if let Some(split) = self.tree.nodes.get_mut(node as usize) {
            *split = Node::Split { dimension, others };
        }
        node
    }

    fn add(&mut self, node: Node) -> u32 {
        self.tree.nodes.push(node);
        count(self.tree.nodes.len()).saturating_sub(1)
    }
}

/// Counts how well each dimension separates clauses.
#[derive(Debug, Default)]
struct SplitCosts {
    by_dimension: [Counts; Dimension::COUNT],
}

#[derive(Debug, Default)]
struct Counts {
    /// Number of items below each value.
    below: Vec<u32>,
    /// The values that occur, so that only they are cleared.
    seen: Vec<u32>,
    /// How many items want a value at all.
    wanting: u64,
}

impl SplitCosts {
    /// The dimension after whose split a request meets the fewest clauses, of those that are not used up. None, if no
    /// clause wants a value in any of them.
    fn best_split(&mut self, known: &KnownClauses<'_>, items: &[Item], used: Dimensions) -> Option<Dimension> {
        for item in items {
            let open = known.open(*item, used);
            if open.is_empty() {
                continue;
            }
            for (dimension, wants, ids) in known.clauses.conditions(item.clause) {
                if wants == Polarity::AnyOf && open.contains(dimension) && item.may_be_copied(ids.len()) {
                    self.by_dimension.get_mut(dimension.index())?.add(ids);
                }
            }
        }
        let all = items.len() as u64;
        let costs = Dimension::ALL.into_iter().zip(&mut self.by_dimension);
        let costs = costs.filter_map(|(dimension, counts)| Some((counts.take_cost(all)?, dimension)));
        // Collected by a fold that visits every dimension, because each visit clears the counts.
        costs
            .fold(None, |best: Option<(u64, Dimension)>, next| best.map_or(Some(next), |best| Some(best.min(next))))
            .map(|(_, dimension)| dimension)
    }

    /// The items below each value of the dimension, and those that want none there; each in the order of their clauses.
    fn by_value(
        &mut self,
        known: &KnownClauses<'_>,
        items: &[Item],
        dimension: Dimension,
    ) -> (Vec<(u32, Vec<Item>)>, Vec<Item>) {
        let Some(counts) = self.by_dimension.get_mut(dimension.index()) else { return (Vec::new(), items.to_vec()) };
        let values: Vec<&[u32]> = items.iter().map(|item| known.values(*item, dimension)).collect();
        values.iter().for_each(|values| counts.add(values));
        let mut below = counts.take_places();
        let mut others = Vec::new();
        for (item, values) in items.iter().zip(values) {
            if values.is_empty() {
                others.push(*item);
            }
            for value in values {
                if let Some((_, items)) = counts.place(*value).and_then(|place| below.get_mut(place)) {
                    items.push(item.below(dimension, values.len()));
                }
            }
        }
        counts.clear(below.iter().map(|(value, _)| *value));
        (below, others)
    }
}

impl Counts {
    fn add(&mut self, ids: &[u32]) {
        self.wanting = self.wanting.saturating_add(1);
        for id in ids {
            let at = *id as usize;
            if self.below.len() <= at {
                self.below.resize(at.saturating_add(1), 0);
            }
            if let Some(below) = self.below.get_mut(at) {
                if *below == 0 {
                    self.seen.push(*id);
                }
                *below = below.saturating_add(1);
            }
        }
    }

    /// A list for each value, with room for its items. Until they are cleared the counts are the numbers of the lists, from 1.
    fn take_places(&mut self) -> Vec<(u32, Vec<Item>)> {
        self.wanting = 0;
        let seen = self.seen.drain(..).zip(1..);
        let list = |(value, place): (u32, u32)| {
            let room = self.below.get_mut(value as usize).map_or(0, |below| std::mem::replace(below, place));
            (value, Vec::with_capacity(room as usize))
        };
        seen.map(list).collect()
    }

    fn place(&self, value: u32) -> Option<usize> {
        self.below.get(value as usize)?.checked_sub(1).map(|place| place as usize)
    }

    fn clear(&mut self, values: impl Iterator<Item = u32>) {
        for value in values {
            if let Some(below) = self.below.get_mut(value as usize) {
                *below = 0;
            }
        }
    }

    /// How many clauses a request meets that has one of the values, each as likely as it is often asked for: those that
    /// want it, and those that want none. Clears the counts.
    fn take_cost(&mut self, all: u64) -> Option<u64> {
        let (mut sum, mut squares) = (0_u64, 0_u64);
        for id in self.seen.drain(..) {
            if let Some(below) = self.below.get_mut(id as usize) {
                let count = u64::from(std::mem::take(below));
                sum = sum.saturating_add(count);
                squares = squares.saturating_add(count.saturating_mul(count));
            }
        }
        let wanting = std::mem::take(&mut self.wanting);
        let met = squares.checked_div(sum)?;
        Some(all.saturating_sub(wanting).saturating_add(1).saturating_mul(met.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::clause::Condition;
    use super::*;

    fn condition(dimension: Dimension, wants: Polarity, ids: Vec<u32>) -> Condition {
        Condition { dimension, wants, ids }
    }

    fn clauses(all: impl Iterator<Item = Vec<Condition>>) -> Clauses {
        let mut clauses = Clauses::default();
        for (conditions, policy) in all.zip(0..) {
            clauses.push(policy, conditions.iter().collect());
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
