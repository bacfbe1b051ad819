use std::time::Instant;

use portcullis_xds::{InstanceShares, node_owner};

use super::sums::{ReportedShadow, ShadowSums};
use super::{Edition, GatewayShadows, NodeProcess, ReportedShadows};

/// Most processes that are remembered and belong to no instance.
const MAX_GATEWAYS: usize = 1_000;
/// Those of one instance.
const MAX_GATEWAYS_OF_INSTANCE: usize = 100;
/// Those of one node.
const MAX_PROCESSES: usize = 4;
/// Most bytes of all gateways of no instance together.
const MAX_BYTES: usize = 32 << 20;
/// Those of the gateways of instances.
const SHARES: InstanceShares = InstanceShares { own: 512 << 10, rest: 32 << 20, most: 4 << 20 };
/// The part of it that one node may take.
const MAX_GATEWAY_BYTES: usize = 4 << 20;

/// Bounds of the memory.
#[derive(Debug)]
pub(super) struct Bounds {
    pub(super) gateways: usize,
    pub(super) of_instance: usize,
    pub(super) bytes: usize,
    pub(super) of_one: usize,
    pub(super) instances: InstanceShares,
}

impl Default for Bounds {
    fn default() -> Self {
        let (gateways, of_instance) = (MAX_GATEWAYS, MAX_GATEWAYS_OF_INSTANCE);
        Self { gateways, of_instance, bytes: MAX_BYTES, of_one: MAX_GATEWAY_BYTES, instances: SHARES }
    }
}

impl ReportedShadows {
    /// Whether a process that is not known has a place. A silent one of its node gives its own, or else the one of its owner that has
    /// been silent for longest.
    pub(super) fn make_place(&mut self, gateway: &NodeProcess, at: Instant) -> bool {
        if self.of_node(&gateway.0).count() >= MAX_PROCESSES {
            let silent = longest_silent(self.of_node(&gateway.0), at);
            silent.into_iter().for_each(|process| self.forget(&process));
        }
        let owner = node_owner(&gateway.0);
        let most = if owner.is_some() { self.bounds.of_instance } else { self.bounds.gateways };
        if self.of_owner(owner).count() >= most {
            longest_silent(self.of_owner(owner), at).into_iter().for_each(|process| self.forget(&process));
        }
        self.of_node(&gateway.0).count() < MAX_PROCESSES && self.of_owner(owner).count() < most
    }

    /// The processes of the nodes of one owner.
    fn of_owner<'a>(&'a self, owner: Option<&'a str>) -> impl Iterator<Item = (&'a NodeProcess, &'a GatewayShadows)> {
        self.gateways.iter().filter(move |((node, _), _)| node_owner(node) == owner)
    }

    /// Whether a report may be added. The counts that it takes the place of give their room.
    pub(super) fn has_room(&self, gateway: &NodeProcess, edition: &Edition, shadow: &ReportedShadow) -> bool {
        let Some(known) = self.gateways.get(gateway) else { return false };
        let (owner, bounds) = (node_owner(&gateway.0), &self.bounds);
        let former = known.shadows.get(edition).map_or(0, ReportedShadow::bytes);
        let of_one: usize = self.of_node(&gateway.0).map(|(_, one)| one.bytes).sum();
        let growth = self.sums.get(edition).map_or_else(
            || {
                let new = ShadowSums::new(edition, owner);
                new.bytes() + new.growth(shadow)
            },
            |sums| sums.growth(shadow),
        );
        let more = (shadow.bytes() + growth).saturating_sub(former);
        // Editions that a gateway invents leave room for those of objects. Before this process has read objects, all are expected.
        let is_expected = self.expected.is_empty() || self.is_expected(edition);
        let most_unexpected = if owner.is_some() { bounds.instances.own } else { bounds.bytes } / 2;
        of_one + shadow.bytes() <= bounds.of_one + former
            && self.bytes.has_room(owner, more, bounds.bytes, &bounds.instances)
            && (is_expected || self.unexpected.of(owner) + more <= most_unexpected)
    }

    /// Forgets the counts of a process, and not what they added.
    fn forget(&mut self, process: &NodeProcess) {
        let Some(gateway) = self.gateways.remove(process) else { return };
        for (edition, shadow) in gateway.shadows {
            self.count_bytes(node_owner(&process.0), &edition, shadow.bytes(), 0);
        }
    }

    /// Counts the bytes of what is about an edition, of the memory of an owner.
    pub(super) fn count_bytes(&mut self, owner: Option<&str>, edition: &Edition, freed: usize, taken: usize) {
        self.bytes.change(owner, freed, taken);
        if !self.is_expected(edition) {
            self.unexpected.change(owner, freed, taken);
        }
    }
}

/// The process that has been silent for longest, if one has been for a while.
fn longest_silent<'a>(
    gateways: impl Iterator<Item = (&'a NodeProcess, &'a GatewayShadows)>,
    at: Instant,
) -> Option<NodeProcess> {
    let silent = gateways.filter(|(_, gateway)| gateway.is_silent(at));
    silent.min_by_key(|(_, gateway)| gateway.heard).map(|(process, _)| process.clone())
}
