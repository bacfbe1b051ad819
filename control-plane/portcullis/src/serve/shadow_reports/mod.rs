//! Reports of gateways about shadows, added up by edition of a shadow.
//!
//! Gateways report counts since their process has an edition; their growth is added. A gateway that restarts or goes therefore takes
//! nothing back, and what is counted under one edition is never seen under another. Everything is bounded, and time is an argument.

mod sums;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portcullis_api::status::ShadowFacts;

use crate::activity_report::{ClusterMessage, shadows};
use sums::{ReportedShadow, ShadowSums};

/// Most gateways that are remembered.
const MAX_GATEWAYS: usize = 1_000;
/// Most bytes of all gateways together.
const MAX_BYTES: usize = 32 << 20;
/// The part of it that one gateway may take.
const MAX_GATEWAY_BYTES: usize = 4 << 20;
/// The age to which reports are kept about an edition that no object has: gateways may know it before this process does, and report it
/// once.
const GRACE: Duration = Duration::from_secs(60);
/// The time after which a gateway without reports gives its place to another one. Its counts stay.
const SILENCE: Duration = Duration::from_secs(60);
/// The interval of looking for what is too old.
const PRUNE_INTERVAL: Duration = Duration::from_secs(10);

/// An object's name, and an edition of its shadow.
type Edition = (String, String);

/// The reports of all gateways.
#[derive(Debug, Default)]
pub(super) struct ShadowReports(Mutex<ReportedShadows>);

#[derive(Debug)]
struct Bounds {
    gateways: usize,
    bytes: usize,
    of_one: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { gateways: MAX_GATEWAYS, bytes: MAX_BYTES, of_one: MAX_GATEWAY_BYTES }
    }
}

#[derive(Debug, Default)]
struct ReportedShadows {
    bounds: Bounds,
    /// The edition that gateways have, by object.
    expected: BTreeMap<String, String>,
    /// The newest counts of each gateway, by node.
    gateways: BTreeMap<String, GatewayShadows>,
    sums: BTreeMap<Edition, ShadowSums>,
    /// Editions of which a report had no room.
    left_out: BTreeSet<Edition>,
    bytes: usize,
    pruned: Option<Instant>,
}

/// The newest counts of one process.
#[derive(Debug)]
struct GatewayShadows {
    process: u64,
    heard: Instant,
    shadows: BTreeMap<Edition, ReportedShadow>,
    bytes: usize,
}

impl ShadowReports {
    /// Takes a part of the report of a gateway's process.
    pub(super) fn take(&self, node: &str, process: u64, clusters: &[ClusterMessage], at: Instant) {
        let mut memory = self.lock();
        let known = memory.gateways.get_mut(node);
        let is_another = known.is_some_and(|gateway| {
            gateway.heard = at;
            gateway.process != process
        });
        if is_another {
            memory.forget(node);
        }
        for cluster in clusters {
            memory.take(node, process, cluster, at);
        }
    }

    /// Follows the objects: the edition of the shadow that each is served with.
    pub(super) fn follow(&self, expected: BTreeMap<String, String>, at: Instant) {
        let mut memory = self.lock();
        let is_due = memory.pruned.is_none_or(|pruned| at.saturating_duration_since(pruned) >= PRUNE_INTERVAL);
        if is_due || memory.expected != expected {
            memory.expected = expected;
            memory.prune(at);
        }
    }

    /// The reports about the edition that an object is served with; `None` if it has no shadow.
    pub(super) fn facts(&self, name: &str) -> Option<ShadowFacts> {
        let memory = self.lock();
        let edition = (name.to_owned(), memory.expected.get(name)?.clone());
        let facts = memory.sums.get(&edition).map(ShadowSums::facts).unwrap_or_default();
        Some(ShadowFacts { is_partial: memory.left_out.contains(&edition), ..facts })
    }

    /// A panic elsewhere leaves at most one report half taken.
    fn lock(&self) -> MutexGuard<'_, ReportedShadows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReportedShadows {
    fn take(&mut self, node: &str, process: u64, cluster: &ClusterMessage, at: Instant) {
        let reported = shadows(cluster);
        self.forget_others(node, &cluster.cluster, |generation| {
            reported.iter().any(|one| one.generation == generation)
        });
        for message in reported {
            let edition = (cluster.cluster.clone(), message.generation.clone());
            let shadow = ReportedShadow::new(message, at);
            if !self.has_room(node, shadow.bytes(), at) {
                self.leave_out(edition);
                continue;
            }
            let new = || GatewayShadows { process, heard: at, shadows: BTreeMap::new(), bytes: 0 };
            let gateway = self.gateways.entry(node.to_owned()).or_insert_with(new);
            let before = gateway.shadows.remove(&edition);
            let sums = self.sums.entry(edition.clone()).or_default();
            let (former, had) = (before.as_ref().map_or(0, ReportedShadow::bytes), sums.bytes());
            sums.add(&shadow, before.as_ref());
            gateway.bytes = gateway.bytes.saturating_add(shadow.bytes()).saturating_sub(former);
            self.bytes = self.bytes.saturating_add(shadow.bytes() + sums.bytes()).saturating_sub(former + had);
            gateway.shadows.insert(edition, shadow);
        }
    }

    /// Forgets a gateway's counts of editions of a cluster's shadow that its process has forgotten.
    fn forget_others(&mut self, node: &str, cluster: &str, is_kept: impl Fn(&str) -> bool) {
        let Some(gateway) = self.gateways.get_mut(node) else { return };
        let sums = &mut self.sums;
        let mut freed = 0;
        gateway.shadows.retain(|edition, shadow| {
            let stays = edition.0 != cluster || is_kept(&edition.1);
            if !stays {
                freed += shadow.bytes();
                sums.get_mut(edition).into_iter().for_each(ShadowSums::leave);
            }
            stays
        });
        gateway.bytes = gateway.bytes.saturating_sub(freed);
        self.bytes = self.bytes.saturating_sub(freed);
    }

    fn has_room(&mut self, node: &str, bytes: usize, at: Instant) -> bool {
        if !self.gateways.contains_key(node) && self.gateways.len() >= self.bounds.gateways {
            self.forget_silent(at);
        }
        let known = self.gateways.get(node);
        let of_one = known.map_or(0, |gateway| gateway.bytes);
        let has_place = known.is_some() || self.gateways.len() < self.bounds.gateways;
        // The sums may grow by as much as the gateway's own counts.
        has_place && of_one + bytes <= self.bounds.of_one && self.bytes + 2 * bytes <= self.bounds.bytes
    }

    /// Notes that a report had no room, if it is about an edition that an object has.
    fn leave_out(&mut self, edition: Edition) {
        if self.expected.get(&edition.0) == Some(&edition.1) {
            self.left_out.insert(edition);
        }
    }

    /// Forgets the gateway that has been silent for longest, if it has been for a while.
    fn forget_silent(&mut self, at: Instant) {
        let longest = self.gateways.iter().min_by_key(|(_, gateway)| gateway.heard);
        let silent = longest.filter(|(_, gateway)| at.saturating_duration_since(gateway.heard) >= SILENCE);
        if let Some(node) = silent.map(|(node, _)| node.clone()) {
            self.forget(&node);
        }
    }

    /// Forgets the counts of a process, and not what they added.
    fn forget(&mut self, node: &str) {
        let Some(gateway) = self.gateways.remove(node) else { return };
        self.bytes = self.bytes.saturating_sub(gateway.bytes);
        for edition in gateway.shadows.keys() {
            self.sums.get_mut(edition).into_iter().for_each(ShadowSums::leave);
        }
    }

    /// Forgets what is about editions that no object has, after a while.
    fn prune(&mut self, at: Instant) {
        self.pruned = Some(at);
        let expected = &self.expected;
        let is_expected = |(name, generation): &Edition| expected.get(name) == Some(generation);
        self.left_out.retain(|edition| is_expected(edition));
        let is_young = |since: Instant| at.saturating_duration_since(since) < GRACE;
        self.sums.retain(|edition, sums| is_expected(edition) || sums.changed().is_some_and(is_young));
        let sums = &self.sums;
        self.gateways.retain(|_, gateway| {
            gateway.shadows.retain(|edition, _| sums.contains_key(edition));
            gateway.bytes = gateway.shadows.values().map(ReportedShadow::bytes).sum();
            !gateway.shadows.is_empty()
        });
        let of_gateways: usize = self.gateways.values().map(|gateway| gateway.bytes).sum();
        self.bytes = of_gateways + self.sums.values().map(ShadowSums::bytes).sum::<usize>();
    }
}
