//! The ways on from the nodes of a tree, by the values on which they split.

use super::dimension::count;
use super::edge_map::{Edge, EdgeMap};

/// The next node of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) node: u32,
    /// The first clause below: nothing there is better than a match that is already known to come before it.
    pub(super) first: u32,
}

impl Branch {
    /// A way that leads nowhere.
    pub(super) const NONE: Branch = Branch { node: u32::MAX, first: u32::MAX };
}

/// A table may have so many places for each way on: it takes no more memory than a hash table then.
const PLACES_FOR_EACH: usize = 4;

/// How the way on for a value is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum BranchPlaces {
    /// One place for each of `len` values from `lowest` on.
    Table { lowest: u32, start: u32, len: u32 },
    /// Values are far from each other.
    Hashed,
}

/// The ways on from all nodes.
#[derive(Debug, Default)]
pub(super) struct Branches {
    tables: Box<[Branch]>,
    hashed: EdgeMap<Branch>,
}

impl Branches {
    /// The way on from a node for a value.
    #[inline]
    pub(super) fn find(&self, node: u32, places: BranchPlaces, value: u32) -> Branch {
        let found = match places {
            BranchPlaces::Table { lowest, start, len } => {
                let at = value.wrapping_sub(lowest);
                let at = if at < len { start.saturating_add(at) } else { u32::MAX };
                self.tables.get(at as usize).copied()
            }
            BranchPlaces::Hashed => self.hashed.find(node, value),
        };
        found.unwrap_or(Branch::NONE)
    }
}

/// Collects the ways on.
#[derive(Debug, Default)]
pub(super) struct BranchesBuilder {
    tables: Vec<Branch>,
    hashed: Vec<Edge<Branch>>,
}

impl BranchesBuilder {
    /// Adds the ways on from a node. No value may be there twice.
    pub(super) fn add(&mut self, node: u32, ways: &[(u32, Branch)]) -> BranchPlaces {
        let values = || ways.iter().map(|(value, _)| *value);
        let (lowest, highest) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
        let len = highest.saturating_sub(lowest).saturating_add(1);
        if len as usize > ways.len().saturating_mul(PLACES_FOR_EACH) {
            self.hashed.extend(ways.iter().map(|(value, to)| Edge { from: node, value: *value, to: *to }));
            return BranchPlaces::Hashed;
        }
        let start = self.tables.len();
        self.tables.resize(start.saturating_add(len as usize), Branch::NONE);
        let table = self.tables.get_mut(start..).unwrap_or_default();
        for (value, to) in ways {
            table.get_mut(value.saturating_sub(lowest) as usize).into_iter().for_each(|place| *place = *to);
        }
        BranchPlaces::Table { lowest, start: count(start), len }
    }

    pub(super) fn finish(self) -> Branches {
        Branches { tables: self.tables.into(), hashed: EdgeMap::new(self.hashed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_found_for_values_near_and_far() {
        let values: [&[u32]; 5] = [&[7], &[3, 5, 4, 9], &[0, 1_000_000], &[u32::MAX - 1, u32::MAX], &[]];
        let mut builder = BranchesBuilder::default();
        let to = |node: u32, value: u32| Branch { node, first: value / 2 };
        let places: Vec<_> = (0_u32..)
            .zip(values)
            .map(|(node, values)| {
                let ways: Vec<_> = values.iter().map(|value| (*value, to(node, *value))).collect();
                builder.add(node, &ways)
            })
            .collect();
        assert!(matches!(places[1], BranchPlaces::Table { lowest: 3, len: 7, .. }));
        assert!(matches!(places[2], BranchPlaces::Hashed));
        let branches = builder.finish();
        for ((node, places), values) in (0..).zip(places).zip(values) {
            for value in (0..20).chain([999_999, 1_000_000, u32::MAX - 2, u32::MAX - 1, u32::MAX]) {
                let expected = if values.contains(&value) { to(node, value) } else { Branch::NONE };
                assert_eq!(branches.find(node, places, value), expected, "{node} {value}");
            }
        }
    }
}
