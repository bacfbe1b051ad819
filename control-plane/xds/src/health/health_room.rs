//! The room for reports about health: nodes and bytes, for each owner.

use std::collections::BTreeMap;

use super::AckStates;
use super::endpoints::{Endpoints, UnhealthyServer};
use crate::node_name::node_owner;
use crate::owner_bytes::{InstanceShares, OwnerBytes};

/// Most nodes of one instance that are remembered.
pub(super) const MAX_NODES_OF_INSTANCE: usize = 100;

/// Bytes of the reports of instances. One with 1,000 clusters has some 0.5 MiB for each Envoy. Reports of what belongs to none are
/// bounded by the number of their nodes and of the clusters that are served to these.
pub(super) const SHARES: InstanceShares = InstanceShares { own: 2 << 20, rest: 128 << 20, most: 34 << 20 };

/// Most that is remembered of the reports of some nodes.
#[derive(Debug)]
pub(super) struct ReportBounds {
    /// Nodes that belong to no owner.
    of_none: usize,
    /// Nodes of one owner.
    pub(super) of_one: usize,
    /// Nodes of all owners together.
    of_all: usize,
    /// Bytes of an owner's reports.
    pub(super) shares: InstanceShares,
}

/// Those of Envoys that belong to an instance or to nothing.
pub(super) static OF_INSTANCES: ReportBounds =
    ReportBounds { of_none: 1_000, of_one: MAX_NODES_OF_INSTANCE, of_all: 10_000, shares: SHARES };

/// Those of Envoys of Gateways, by namespace. They have pools of the clusters behind routes alone, some 160 bytes for each.
pub(super) static OF_GATEWAYS: ReportBounds = ReportBounds {
    of_none: 0,
    of_one: 100,
    of_all: 10_000,
    shares: InstanceShares { own: 128 << 10, rest: 8 << 20, most: 2 << 20 },
};

/// Bytes that an entry of a map takes beside its texts.
pub(super) const ENTRY: usize = 96;

/// The room for the reports of some nodes, by the owners of these.
#[derive(Debug)]
pub(super) struct HealthRoom {
    bounds: &'static ReportBounds,
    bytes: OwnerBytes,
}

impl HealthRoom {
    pub(super) fn new(bounds: &'static ReportBounds) -> Self {
        Self { bounds, bytes: OwnerBytes::default() }
    }

    /// Counts anew: the weights of all reports, by the names of their nodes.
    pub(super) fn count<'n>(&mut self, weights: impl Iterator<Item = (&'n String, usize)>) {
        self.bytes = OwnerBytes::default();
        weights.for_each(|(node, bytes)| self.change(node, 0, bytes));
    }

    /// Whether there is no place for another node of that name beside these.
    pub(super) fn is_crowded<'n>(&self, names: impl Iterator<Item = &'n String> + Clone, name: &str) -> bool {
        let (owner, owners) = (node_owner(name), || names.clone().map(|name| node_owner(name)));
        let most = if owner.is_some() { self.bounds.of_one } else { self.bounds.of_none };
        owners().filter(|one| *one == owner).count() >= most
            || (owner.is_some() && owners().flatten().count() >= self.bounds.of_all)
    }

    /// Whether a node may have so many bytes in the place of others.
    pub(super) fn has_room(&self, node: &str, freed: usize, taken: usize) -> bool {
        taken <= freed || self.bytes.has_room(node_owner(node), taken - freed, usize::MAX, &self.bounds.shares)
    }

    /// Counts bytes that were freed, and others that were taken.
    pub(super) fn change(&mut self, node: &str, freed: usize, taken: usize) {
        self.bytes.change(node_owner(node), freed, taken);
    }
}

/// Bytes of what a node sees of clusters.
pub(super) fn weight_of_clusters(clusters: &BTreeMap<String, Endpoints>) -> usize {
    let of_server = |one: &UnhealthyServer| one.server.capacity() + size_of::<UnhealthyServer>();
    let servers = |seen: &Endpoints| seen.unhealthy.iter().map(of_server).sum::<usize>();
    clusters.iter().map(|(name, seen)| name.capacity() + ENTRY + servers(seen)).sum()
}

/// Bytes of a node's answers.
pub(super) fn weight_of_answers(answers: &AckStates) -> usize {
    answers.keys().map(|(owner, hash)| owner.capacity() + hash.capacity() + ENTRY).sum()
}
