//! Policies that were removed from doors while a cluster behind them is served by an older version than the newest: the policy may have
//! moved into that one, and there must be no moment at which neither denies. Additions do not wait.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_api::PolicyInEffect;
use portcullis_attach::{Door, DoorPolicies, FormerPolicy, ListenerRole, ServedBackend, ServedGateway};
use portcullis_sources::SetNumber;

use super::super::cluster_progress::ClusterProgress;

/// The most that are kept of one door; the latest stay. Its author can make no more by editing them again and again.
const MAX_OF_DOOR: usize = 8;

/// Policies at doors over time.
#[derive(Debug, Default)]
pub(in super::super) struct FormerDoors {
    last: DoorPolicies,
    /// Those that were removed, the first one first.
    former: BTreeMap<Door, Vec<RemovedPolicy>>,
}

#[derive(Debug)]
struct RemovedPolicy {
    policy: PolicyInEffect,
    /// The number of the set that may have it in a cluster's document.
    of: SetNumber,
    /// The clusters that are not served by a version of that set yet; none before it is known which are behind the door.
    clusters: Option<BTreeSet<String>>,
}

impl FormerDoors {
    /// The policies that hold, with those that were removed and have to stay. `newest`: those of the last step, and the number of the
    /// set that has those of clusters. `served`: the Gateways with their routes, if they are those of the newest objects.
    pub(in super::super) fn follow(
        &mut self,
        newest: (&DoorPolicies, SetNumber),
        progress: &ClusterProgress,
        served: Option<&[ServedGateway]>,
    ) -> DoorPolicies {
        self.remember(newest);
        self.forget(progress, served);
        let held = |removed: &RemovedPolicy| FormerPolicy {
            policy: PolicyInEffect {
                why: format!(
                    "{}; it was removed, and holds until the newest version of the UpstreamCluster is served",
                    removed.policy.why
                ),
                ..removed.policy.clone()
            },
            clusters: removed.clusters.clone(),
        };
        let former = self.former.iter().map(|(door, removed)| (door.clone(), removed.iter().map(held).collect()));
        newest.0.clone().with_former(former)
    }

    fn remember(&mut self, (newest, of): (&DoorPolicies, SetNumber)) {
        if self.last == *newest {
            return;
        }
        let last = std::mem::replace(&mut self.last, newest.clone());
        for (door, policies) in last.all() {
            for policy in policies.iter().filter(|policy| !newest.at(door).contains(policy)) {
                let removed = RemovedPolicy { policy: policy.clone(), of, clusters: None };
                self.former.entry(door.clone()).or_default().push(removed);
            }
        }
        for (door, removed) in &mut self.former {
            removed.retain(|one| !newest.at(door).contains(&one.policy));
            removed.drain(..removed.len().saturating_sub(MAX_OF_DOOR));
        }
    }

    fn forget(&mut self, progress: &ClusterProgress, served: Option<&[ServedGateway]>) {
        let behind = served.filter(|_| !self.former.is_empty()).map(clusters_behind).unwrap_or_default();
        for (door, removed) in &mut self.former {
            for one in removed.iter_mut().filter(|one| progress.is_of(one.of)) {
                if one.clusters.is_none() && served.is_some() {
                    one.clusters = Some(behind.get(door).cloned().unwrap_or_default());
                }
                if let Some(clusters) = &mut one.clusters {
                    clusters.retain(|cluster| !progress.has(cluster, one.of));
                }
            }
            removed.retain(|one| one.clusters.as_ref().is_none_or(|clusters| !clusters.is_empty()));
        }
        self.former.retain(|_, removed| !removed.is_empty());
    }
}

/// The `UpstreamClusters` behind each door.
fn clusters_behind(served: &[ServedGateway]) -> BTreeMap<Door, BTreeSet<String>> {
    let mut behind: BTreeMap<Door, BTreeSet<String>> = BTreeMap::new();
    for gateway in served {
        for listener in &gateway.listeners {
            let ListenerRole::Terminate { routes, .. } = &listener.role else { continue };
            for route in routes.routes.values() {
                for door in Door::all(&gateway.gateway, &listener.name, &route.route) {
                    let of_door = behind.entry(door).or_default();
                    of_door.extend(route.backends.iter().filter_map(|one| match &one.backend {
                        ServedBackend::Cluster(name) => Some(name.clone()),
                        ServedBackend::Service { .. } => None,
                    }));
                }
            }
        }
    }
    behind
}

#[cfg(test)]
mod tests;
