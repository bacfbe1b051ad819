//! Policies that were removed from doors while a cluster is served by an older version than the newest: the policy may have moved into
//! that one, and there must be no moment at which neither denies. Additions do not wait.
//!
//! Only versions of clusters are asked, and not which routes lead to them: a route can be toggled, or made later.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::{PolicyInEffect, PolicyKind};
use portcullis_attach::{ClosedDoors, Door, DoorPolicies, FormerPolicy, WaitingClusters};
use portcullis_sources::SetNumber;

use super::super::cluster_progress::ClusterProgress;

/// The most versions of a kind that are kept of one door: so many for sets that are not translated, and so many for clusters that wait.
/// Its author can make no more by editing them again and again.
const MAX_OF_DOOR: usize = 8;
/// The most bytes of all of them.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// About the bytes of one beside its fields: with the names of its door, its own, and the words about it.
const VERSION_BYTES: usize = 2_048;

/// Policies at doors over time.
#[derive(Debug, Default)]
pub(in super::super) struct FormerDoors {
    last: DoorPolicies,
    /// Those that were removed, the first one first. A door has one policy of a kind.
    former: BTreeMap<(Door, PolicyKind), Vec<RemovedPolicy>>,
    /// The namespaces of which versions were not kept, and the set of the last one.
    closed: BTreeMap<String, u64>,
    /// The policies that hold, and what they are by: as long as that is the same, they are.
    held: Option<(ClusterProgress, Arc<DoorPolicies>)>,
}

#[derive(Debug)]
struct RemovedPolicy {
    /// None if too many were removed: the door is closed meanwhile.
    policy: Option<PolicyInEffect>,
    /// The number of the set that may have it in a cluster's document.
    of: u64,
    bytes: usize,
}

impl FormerDoors {
    /// The policies that hold, with those that were removed and have to stay. `newest`: those of the last step, and the number of the
    /// set that has those of clusters.
    pub(in super::super) fn follow(
        &mut self,
        newest: (&DoorPolicies, SetNumber),
        progress: &ClusterProgress,
    ) -> Arc<DoorPolicies> {
        if let Some((by, held)) = &self.held
            && by == progress
            && self.last == *newest.0
        {
            return Arc::clone(held);
        }
        self.remember(newest, progress);
        self.forget(progress);
        self.bound();
        let held = Arc::new(self.holding(newest.0, progress));
        self.held = Some((progress.clone(), Arc::clone(&held)));
        held
    }

    fn remember(&mut self, (newest, SetNumber(of)): (&DoorPolicies, SetNumber), progress: &ClusterProgress) {
        if self.last == *newest {
            return;
        }
        let last = std::mem::replace(&mut self.last, newest.clone());
        for (door, policies) in last.all() {
            for policy in policies.iter().filter(|policy| !newest.at(door).contains(policy)) {
                let removed = self.former.entry((door.clone(), policy.kind)).or_default();
                // A cluster that waits for this set or an earlier one is served by what the first version is of.
                if removed.last().is_none_or(|before| before.of < of) {
                    push(removed, policy, of, progress);
                }
            }
        }
    }

    fn forget(&mut self, progress: &ClusterProgress) {
        for removed in self.former.values_mut() {
            let mut after = None;
            removed.retain(|one| progress.has_behind(after.replace(one.of), SetNumber(one.of)));
            close_late(removed, progress);
        }
        self.former.retain(|_, removed| !removed.is_empty());
        self.closed.retain(|_, of| progress.has_behind(None, SetNumber(*of)));
    }

    /// Gives up those of the namespace that has most, whose doors are closed then, while there are too many.
    fn bound(&mut self) {
        let mut by_namespace: BTreeMap<String, usize> = BTreeMap::new();
        for ((door, _), removed) in &self.former {
            let bytes = removed.iter().map(|one| one.bytes).fold(0, usize::saturating_add);
            let of_namespace = by_namespace.entry(door.namespace().to_owned()).or_default();
            *of_namespace = of_namespace.saturating_add(bytes);
        }
        while by_namespace.values().fold(0, |sum: usize, bytes| sum.saturating_add(*bytes)) > MAX_BYTES {
            let largest = by_namespace.iter().max_by_key(|(_, bytes)| **bytes).map(|(namespace, _)| namespace.clone());
            let Some(largest) = largest else { return };
            by_namespace.remove(&largest);
            let its = self.former.extract_if(.., |(door, _), _| door.namespace() == largest);
            let last = its.filter_map(|(_, removed)| removed.last().map(|one| one.of)).max().unwrap_or_default();
            let of = self.closed.entry(largest).or_default();
            *of = last.max(*of);
        }
    }

    fn holding(&self, newest: &DoorPolicies, progress: &ClusterProgress) -> DoorPolicies {
        let mut waiting = BTreeMap::new();
        let mut closed = ClosedDoors::default();
        let mut former: BTreeMap<Door, Vec<FormerPolicy>> = BTreeMap::new();
        for ((door, _), removed) in &self.former {
            let mut after = None;
            for one in removed {
                let clusters = clusters_of(&mut waiting, progress, after.replace(one.of), one.of);
                match &one.policy {
                    // It came back.
                    Some(policy) if newest.at(door).contains(policy) => {}
                    Some(policy) => former.entry(door.clone()).or_default().push(held(policy, clusters)),
                    None => closed.doors.entry(door.clone()).or_default().push(clusters),
                }
            }
        }
        for (namespace, of) in &self.closed {
            closed.namespaces.insert(namespace.clone(), clusters_of(&mut waiting, progress, None, *of));
        }
        newest.clone().with_former(former, closed)
    }
}

/// The clusters for which one holds that was removed with a set, each by the first one of its door that it waits for.
fn clusters_of(
    known: &mut BTreeMap<(Option<u64>, u64), WaitingClusters>,
    progress: &ClusterProgress,
    after: Option<u64>,
    of: u64,
) -> WaitingClusters {
    let clusters = || progress.is_of(SetNumber(of)).then(|| Arc::new(progress.behind(after, SetNumber(of))));
    known.entry((after, of)).or_insert_with(clusters).clone()
}

fn held(policy: &PolicyInEffect, clusters: WaitingClusters) -> FormerPolicy {
    let why =
        format!("{}; it was removed, and holds until the newest version of the UpstreamCluster is served", policy.why);
    FormerPolicy { policy: PolicyInEffect { why, ..policy.clone() }, clusters }
}

/// Adds one that was removed with a set that is not translated, or closes the door if there are too many.
fn push(removed: &mut Vec<RemovedPolicy>, policy: &PolicyInEffect, of: u64, progress: &ClusterProgress) {
    let coming = removed.iter().filter(|one| !progress.is_of(SetNumber(one.of))).count();
    if coming < MAX_OF_DOOR {
        let bytes = policy.fields.as_ref().map_or(0, |fields| fields.to_string().len());
        let bytes = bytes.saturating_add(VERSION_BYTES);
        removed.push(RemovedPolicy { policy: Some(policy.clone()), of, bytes });
    } else if let Some(last) = removed.last_mut().filter(|last| last.policy.is_none()) {
        last.of = of;
    } else {
        removed.push(RemovedPolicy { policy: None, of, bytes: VERSION_BYTES });
    }
}

/// Closes the door for the clusters that wait for the latest ones, if those are too many: the oldest stay.
fn close_late(removed: &mut Vec<RemovedPolicy>, progress: &ClusterProgress) {
    let translated = removed.iter().filter(|one| progress.is_of(SetNumber(one.of))).count();
    if translated > MAX_OF_DOOR {
        let of = removed.get(translated.saturating_sub(1)).map_or(0, |last| last.of);
        let closing = RemovedPolicy { policy: None, of, bytes: VERSION_BYTES };
        drop(removed.splice(MAX_OF_DOOR..translated, [closing]));
    }
}

#[cfg(test)]
mod tests;
