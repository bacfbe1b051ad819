//! The room for reports about health: nodes and bytes, for each owner.

use std::collections::BTreeMap;

use super::AckStates;
use super::endpoints::{Endpoints, UnhealthyServer};
use crate::node_name::node_owner;
use crate::owner_bytes::{InstanceShares, OwnerBytes};

/// Most nodes that are remembered and belong to no instance.
const MAX_NODES: usize = 1_000;
/// The same of those of one instance, and of the nodes of all instances together.
pub(super) const MAX_NODES_OF_INSTANCE: usize = 100;
const MAX_NODES_OF_INSTANCES: usize = 10_000;

/// Bytes of the reports of instances. One with 1,000 clusters has some 0.5 MiB for each Envoy. Reports of what belongs to none are
/// bounded by the number of their nodes and of the clusters that are served to these.
pub(super) const SHARES: InstanceShares = InstanceShares { own: 2 << 20, rest: 128 << 20, most: 34 << 20 };

/// Bytes that an entry of a map takes beside its texts.
pub(super) const ENTRY: usize = 96;

/// Whether there is no room for another node of that name beside these.
pub(super) fn is_crowded<'n>(names: impl Iterator<Item = &'n String> + Clone, name: &str) -> bool {
    let (owner, owners) = (node_owner(name), || names.clone().map(|name| node_owner(name)));
    let most = if owner.is_some() { MAX_NODES_OF_INSTANCE } else { MAX_NODES };
    owners().filter(|one| *one == owner).count() >= most
        || (owner.is_some() && owners().flatten().count() >= MAX_NODES_OF_INSTANCES)
}

/// The bytes of reports, by the owners of their nodes.
#[derive(Debug, Default)]
pub(super) struct HealthRoom(OwnerBytes);

impl HealthRoom {
    /// That of reports with these weights, by the names of their nodes.
    pub(super) fn of<'n>(weights: impl Iterator<Item = (&'n String, usize)>) -> Self {
        let mut room = Self::default();
        weights.for_each(|(node, bytes)| room.change(node, 0, bytes));
        room
    }

    /// Whether a node may have so many bytes in the place of others.
    pub(super) fn has_room(&self, node: &str, freed: usize, taken: usize) -> bool {
        taken <= freed || self.0.has_room(node_owner(node), taken - freed, usize::MAX, &SHARES)
    }

    /// Counts bytes that were freed, and others that were taken.
    pub(super) fn change(&mut self, node: &str, freed: usize, taken: usize) {
        self.0.change(node_owner(node), freed, taken);
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
