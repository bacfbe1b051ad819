use std::time::Instant;

use super::sums::{ReportedShadow, ShadowSums};
use super::{Edition, GatewayShadows, NodeProcess, ReportedShadows};

/// Most processes that are remembered.
const MAX_GATEWAYS: usize = 1_000;
/// Those of one node.
const MAX_PROCESSES: usize = 4;
/// Most bytes of all gateways together.
const MAX_BYTES: usize = 32 << 20;
/// The part of it that one node may take.
const MAX_GATEWAY_BYTES: usize = 4 << 20;

/// Bounds of the memory.
#[derive(Debug)]
pub(super) struct Bounds {
    pub(super) gateways: usize,
    pub(super) bytes: usize,
    pub(super) of_one: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { gateways: MAX_GATEWAYS, bytes: MAX_BYTES, of_one: MAX_GATEWAY_BYTES }
    }
}

impl ReportedShadows {
    /// Whether a process that is not known has a place. A silent one of its node gives its own, or else the one of all that has been
    /// silent for longest.
    pub(super) fn make_place(&mut self, gateway: &NodeProcess, at: Instant) -> bool {
        if self.of_node(&gateway.0).count() >= MAX_PROCESSES {
            let silent = longest_silent(self.of_node(&gateway.0), at);
            silent.into_iter().for_each(|process| self.forget(&process));
        }
        if self.gateways.len() >= self.bounds.gateways {
            longest_silent(self.gateways.iter(), at).into_iter().for_each(|process| self.forget(&process));
        }
        self.of_node(&gateway.0).count() < MAX_PROCESSES && self.gateways.len() < self.bounds.gateways
    }

    /// Whether a report may be added. The counts that it takes the place of give their room.
    pub(super) fn has_room(&self, gateway: &NodeProcess, edition: &Edition, shadow: &ReportedShadow) -> bool {
        let Some(known) = self.gateways.get(gateway) else { return false };
        let former = known.shadows.get(edition).map_or(0, ReportedShadow::bytes);
        let of_one: usize = self.of_node(&gateway.0).map(|(_, one)| one.bytes).sum();
        let growth = self.sums.get(edition).map_or_else(
            || {
                let new = ShadowSums::new(edition);
                new.bytes() + new.growth(shadow)
            },
            |sums| sums.growth(shadow),
        );
        let more = (shadow.bytes() + growth).saturating_sub(former);
        // Editions that a gateway invents leave room for those of objects. Before this process has read objects, all are expected.
        let is_expected = self.expected.is_empty() || self.is_expected(edition);
        of_one + shadow.bytes() <= self.bounds.of_one + former
            && self.bytes + more <= self.bounds.bytes
            && (is_expected || self.unexpected + more <= self.bounds.bytes / 2)
    }

    /// Forgets the counts of a process, and not what they added.
    fn forget(&mut self, process: &NodeProcess) {
        let Some(gateway) = self.gateways.remove(process) else { return };
        for (edition, shadow) in gateway.shadows {
            self.count_bytes(&edition, shadow.bytes(), 0);
        }
    }

    /// Counts the bytes of what is about an edition.
    pub(super) fn count_bytes(&mut self, edition: &Edition, freed: usize, taken: usize) {
        self.bytes = self.bytes.saturating_add(taken).saturating_sub(freed);
        if !self.is_expected(edition) {
            self.unexpected = self.unexpected.saturating_add(taken).saturating_sub(freed);
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
