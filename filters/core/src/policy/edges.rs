use super::buckets::{Buckets, mix};
use super::clause::count;
use super::tree::Branch;

/// The ways from split nodes, by node and value.
#[derive(Debug)]
pub(super) struct Edges {
    buckets: Buckets,
    edges: Box<[Edge]>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) node: u32,
    pub(super) value: u32,
    pub(super) to: Branch,
}

impl Edges {
    pub(super) fn new(edges: Vec<Edge>) -> Self {
        let hash = |seed, at: u32| edges.get(at as usize).map_or(0, |edge| hash_edge(seed, edge.node, edge.value));
        Edges { buckets: Buckets::build(count(edges.len()), hash), edges: edges.into() }
    }

    pub(super) fn find(&self, node: u32, value: u32) -> Option<Branch> {
        let hash = hash_edge(self.buckets.seed(), node, value);
        let edges = self.buckets.candidates(hash).filter_map(|at| self.edges.get(at));
        edges.filter(|edge| edge.node == node && edge.value == value).map(|edge| edge.to).next()
    }
}

impl Default for Edges {
    fn default() -> Self {
        Edges::new(Vec::new())
    }
}

fn hash_edge(seed: u64, node: u32, value: u32) -> u64 {
    mix(seed ^ (u64::from(node) << 32 | u64::from(value)), seed)
}
