use super::dimension::count;
use super::static_hash_table::StaticHashTable;
use crate::seeded_hash::mix;

/// Something for some pairs of a place in the tree and a value. Both are numbers of the configuration's making.
#[derive(Debug)]
pub(super) struct EdgeMap<T> {
    buckets: StaticHashTable,
    edges: Box<[Edge<T>]>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Edge<T> {
    pub(super) from: u32,
    pub(super) value: u32,
    pub(super) to: T,
}

impl<T: Copy> EdgeMap<T> {
    /// No pair may be there twice.
    pub(super) fn new(edges: Vec<Edge<T>>) -> Self {
        let hash = |seed, at: u32| edges.get(at as usize).map_or(0, |edge| hash_pair(seed, edge.from, edge.value));
        EdgeMap { buckets: StaticHashTable::build(count(edges.len()), hash), edges: edges.into() }
    }

    pub(super) fn find(&self, from: u32, value: u32) -> Option<T> {
        let hash = hash_pair(self.buckets.seed(), from, value);
        let mut edges = self.buckets.candidates(hash).filter_map(|at| self.edges.get(at));
        edges.find(|edge| edge.from == from && edge.value == value).map(|edge| edge.to)
    }
}

impl<T: Copy> Default for EdgeMap<T> {
    fn default() -> Self {
        EdgeMap::new(Vec::new())
    }
}

fn hash_pair(seed: u64, from: u32, value: u32) -> u64 {
    mix(seed ^ (u64::from(from) << 32 | u64::from(value)), seed)
}
