//! Reports of gateways about shadows, added up by edition of a shadow.
//!
//! Gateways report counts since their process has an edition; their growth is added. A gateway that restarts or goes therefore takes
//! nothing back, and what is counted under one edition is never seen under another. Everything is bounded, and time is an argument.

mod hand_over;
mod left_out;
mod room;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portcullis_api::status::ShadowFacts;
use portcullis_xds::{Membership, OwnerBytes, node_owner};

use super::report_origin::ReportOrigin;
use crate::activity_report::{ClusterMessage, shadows};
use left_out::LeftOutReports;
use room::Bounds;
use sums::{ReportedShadow, ShadowSums};

/// The age to which reports are kept about an edition that no object has: gateways may know it before this process does, and report it
/// once.
const GRACE: Duration = Duration::from_secs(60);
/// The time after which a process without reports gives its place to another one. Its counts stay.
const SILENCE: Duration = Duration::from_secs(60);
/// The interval of looking for what is too old.
const PRUNE_INTERVAL: Duration = Duration::from_secs(10);

/// An object's name, and an edition of its shadow.
type Edition = (String, String);

/// A node's name, and one of its processes. Two report under one node while one drains and another has taken its place.
type NodeProcess = (String, u64);

/// The reports of all gateways.
#[derive(Debug, Default)]
pub(super) struct ShadowReports(Mutex<ReportedShadows>);

#[derive(Debug, Default)]
struct ReportedShadows {
    bounds: Bounds,
    /// The edition that gateways have, by object.
    expected: BTreeMap<String, String>,
    gateways: BTreeMap<NodeProcess, GatewayShadows>,
    sums: BTreeMap<Edition, ShadowSums>,
    left_out: LeftOutReports,
    bytes: OwnerBytes,
    /// The part of the bytes that is about editions that no object has.
    unexpected: OwnerBytes,
    pruned: Option<Instant>,
    /// The facts about all expected editions that were read last.
    facts: Arc<BTreeMap<String, ShadowFacts>>,
    /// Whether a count may be another one since.
    is_changed: bool,
}

/// The newest counts of one process.
#[derive(Debug)]
struct GatewayShadows {
    /// The instances that its certificate names.
    membership: Membership,
    heard: Instant,
    shadows: BTreeMap<Edition, ReportedShadow>,
    bytes: usize,
}

impl ShadowReports {
    /// Takes a part of the report of a gateway's process.
    pub(super) fn take(&self, from: ReportOrigin<'_>, process: u64, clusters: &[ClusterMessage], at: Instant) {
        let mut memory = self.lock();
        let gateway = (from.name.to_owned(), process);
        if let Some(known) = memory.gateways.get_mut(&gateway) {
            known.heard = at;
        } else if clusters.iter().all(|cluster| cluster.shadows.is_empty()) {
            return;
        } else if memory.make_place(&gateway, at) {
            let membership = from.membership.clone();
            let new = GatewayShadows { membership, heard: at, shadows: BTreeMap::new(), bytes: 0 };
            memory.gateways.insert(gateway.clone(), new);
        }
        for cluster in clusters {
            memory.take(&gateway, cluster, at);
        }
    }

    /// Follows the objects: the edition of the shadow that each is served with; `None` if they are those of the last time.
    pub(super) fn follow(&self, expected: Option<BTreeMap<String, String>>, at: Instant) {
        let mut memory = self.lock();
        let is_due = memory.pruned.is_none_or(|pruned| at.saturating_duration_since(pruned) >= PRUNE_INTERVAL);
        let expected = expected.filter(|expected| *expected != memory.expected);
        if is_due || expected.is_some() {
            memory.expected = expected.unwrap_or_else(|| std::mem::take(&mut memory.expected));
            memory.prune(at);
        }
    }

    /// Begins the sums of these objects' shadows anew, with the counts of gateways that may report about them still: those of former
    /// owners' are forgotten.
    pub(super) fn forget_foreign(&self, names: &BTreeSet<&str>, may_report: impl Fn(&Membership, &str) -> bool) {
        self.lock().forget_foreign(names, may_report);
    }

    /// The reports about the edition that each object with a shadow is served with, by its name. The same allocation as long as nothing
    /// is otherwise.
    pub(super) fn facts(&self) -> Arc<BTreeMap<String, ShadowFacts>> {
        let mut memory = self.lock();
        if std::mem::take(&mut memory.is_changed) {
            let facts = memory.facts_of_all();
            if facts != *memory.facts {
                memory.facts = Arc::new(facts);
            }
        }
        Arc::clone(&memory.facts)
    }

    /// A panic elsewhere leaves at most one report half taken.
    fn lock(&self) -> MutexGuard<'_, ReportedShadows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReportedShadows {
    fn facts_of_all(&self) -> BTreeMap<String, ShadowFacts> {
        let facts = |edition: Edition| {
            let facts = self.sums.get(&edition).map(ShadowSums::facts).unwrap_or_default();
            let is_partial = self.left_out.has(&edition);
            (edition.0, ShadowFacts { is_partial, ..facts })
        };
        self.expected.iter().map(|(name, generation)| facts((name.clone(), generation.clone()))).collect()
    }

    fn take(&mut self, gateway: &NodeProcess, cluster: &ClusterMessage, at: Instant) {
        let reported = shadows(cluster);
        self.forget_others(gateway, &cluster.cluster, |generation| {
            reported.iter().any(|one| one.generation == generation)
        });
        for message in reported {
            let edition = (cluster.cluster.clone(), message.generation.clone());
            let shadow = ReportedShadow::new(message, &edition, at);
            self.is_changed = true;
            if self.has_room(gateway, &edition, &shadow) {
                self.left_out.remove(&edition, gateway);
                self.add(gateway, edition, shadow);
            } else if self.is_expected(&edition) {
                self.left_out.insert(edition, gateway);
            }
        }
    }

    fn add(&mut self, gateway: &NodeProcess, edition: Edition, shadow: ReportedShadow) {
        let is_new = self.of_node(&gateway.0).all(|(_, one)| !one.shadows.contains_key(&edition));
        let Some(known) = self.gateways.get_mut(gateway) else { return };
        let before = known.shadows.remove(&edition);
        let former = before.as_ref().map_or(0, ReportedShadow::bytes);
        known.bytes = known.bytes.saturating_add(shadow.bytes()).saturating_sub(former);
        let owner = node_owner(&gateway.0);
        let had = self.sums.get(&edition).map_or(0, ShadowSums::bytes);
        let sums = self.sums.entry(edition.clone()).or_insert_with(|| ShadowSums::new(&edition, owner));
        sums.add(&shadow, before.as_ref());
        if is_new {
            sums.join();
        }
        let (of_sums, sums_owner) = (sums.bytes(), sums.owner().map(str::to_owned));
        let taken = shadow.bytes();
        known.shadows.insert(edition.clone(), shadow);
        self.count_bytes(owner, &edition, former, taken);
        self.count_bytes(sums_owner.as_deref(), &edition, had, of_sums);
    }

    /// Forgets a process's counts of editions of a cluster's shadow that it has forgotten.
    fn forget_others(&mut self, gateway: &NodeProcess, cluster: &str, is_kept: impl Fn(&str) -> bool) {
        let Some(known) = self.gateways.get(gateway) else { return };
        let gone: Vec<Edition> = known.editions(cluster).filter(|one| !is_kept(&one.1)).cloned().collect();
        for edition in gone {
            self.forget_edition(gateway, &edition);
        }
    }

    /// Forgets a process's counts of one edition, and not what they added. Returns these counts.
    fn forget_edition(&mut self, gateway: &NodeProcess, edition: &Edition) -> Option<ReportedShadow> {
        self.is_changed = true;
        let known = self.gateways.get_mut(gateway)?;
        let shadow = known.shadows.remove(edition)?;
        let freed = shadow.bytes();
        known.bytes = known.bytes.saturating_sub(freed);
        if self.of_node(&gateway.0).all(|(_, one)| !one.shadows.contains_key(edition)) {
            self.sums.get_mut(edition).into_iter().for_each(ShadowSums::leave);
        }
        self.count_bytes(node_owner(&gateway.0), edition, freed, 0);
        Some(shadow)
    }

    /// The processes of a node.
    fn of_node(&self, node: &str) -> impl Iterator<Item = (&NodeProcess, &GatewayShadows)> {
        self.gateways.range((node.to_owned(), 0)..=(node.to_owned(), u64::MAX))
    }

    fn is_expected(&self, (name, generation): &Edition) -> bool {
        self.expected.get(name) == Some(generation)
    }

    /// Forgets what is about editions that no object has, after a while, and processes that others have succeeded.
    fn prune(&mut self, at: Instant) {
        self.pruned = Some(at);
        self.is_changed = true;
        let expected = &self.expected;
        let is_expected = |(name, generation): &Edition| expected.get(name) == Some(generation);
        self.left_out.retain(is_expected);
        let is_young = |since: Instant| at.saturating_duration_since(since) < GRACE;
        self.sums.retain(|edition, sums| is_expected(edition) || sums.changed().is_some_and(is_young));
        let sums = &self.sums;
        let ended = self.ended(at);
        self.gateways.retain(|process, gateway| {
            gateway.shadows.retain(|edition, _| sums.contains_key(edition));
            gateway.bytes = gateway.shadows.values().map(ReportedShadow::bytes).sum();
            !gateway.shadows.is_empty() && !ended.contains(process)
        });
        self.recount(at);
    }

    /// Processes that are silent, and not the last of their node.
    fn ended(&self, at: Instant) -> Vec<NodeProcess> {
        let is_ended = |(process, gateway): &(&NodeProcess, &GatewayShadows)| {
            gateway.is_silent(at) && self.of_node(&process.0).any(|(_, other)| other.heard > gateway.heard)
        };
        self.gateways.iter().filter(is_ended).map(|(process, _)| process.clone()).collect()
    }

    /// Counts the nodes of each edition that are heard of, and all bytes.
    fn recount(&mut self, at: Instant) {
        self.sums.values_mut().for_each(ShadowSums::leave_all);
        let mut earlier: Vec<(&str, &GatewayShadows)> = Vec::new();
        for ((node, _), gateway) in self.gateways.iter().filter(|(_, gateway)| !gateway.is_silent(at)) {
            earlier.retain(|(other, _)| other == node);
            let is_first = |edition: &&Edition| earlier.iter().all(|(_, one)| !one.shadows.contains_key(*edition));
            for edition in gateway.shadows.keys().filter(is_first) {
                self.sums.get_mut(edition).into_iter().for_each(ShadowSums::join);
            }
            earlier.push((node, gateway));
        }
        let of_gateways = self.gateways.iter().flat_map(|((node, _), gateway)| {
            gateway.shadows.iter().map(|(edition, shadow)| (node_owner(node), edition, shadow.bytes()))
        });
        let of_sums = self.sums.iter().map(|(edition, sums)| (sums.owner(), edition, sums.bytes()));
        let (mut bytes, mut unexpected) = (OwnerBytes::default(), OwnerBytes::default());
        for (owner, edition, taken) in of_gateways.chain(of_sums) {
            bytes.change(owner, 0, taken);
            unexpected.change(owner, 0, if self.is_expected(edition) { 0 } else { taken });
        }
        (self.bytes, self.unexpected) = (bytes, unexpected);
    }
}

impl GatewayShadows {
    /// The editions of one cluster's shadow. A gateway has those of thousands, and a report has thousands of clusters.
    fn editions(&self, cluster: &str) -> impl Iterator<Item = &Edition> {
        let of_cluster = self.shadows.range((cluster.to_owned(), String::new())..);
        of_cluster.map(|(edition, _)| edition).take_while(move |edition| edition.0 == cluster)
    }

    fn is_silent(&self, at: Instant) -> bool {
        at.saturating_duration_since(self.heard) >= SILENCE
    }
}
