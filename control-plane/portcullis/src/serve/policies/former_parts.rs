//! Policies that moved from an `UpstreamCluster` to a door: each holds at the cluster until the door has it, so that there is no moment
//! at which neither denies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{PolicyInEffect, PolicyKind, PolicyRole, with_policies};
use portcullis_attach::{AttachedPolicies, DoorPolicies, behind_doors};
use serde_json::Value;

/// Policies at clusters and at doors over time.
#[derive(Default)]
pub(super) struct FormerParts {
    /// The policies at doors of the last step, and their number: another one whenever they are other ones.
    doors: DoorPolicies,
    number: u64,
    at_doors: BTreeSet<PolicyKey>,
    /// The policies of clusters in the last step.
    last: BTreeMap<String, Vec<PolicyInEffect>>,
    /// Those that hold all the same, with the number of the policies at doors among which they are.
    moved: BTreeMap<String, Vec<(PolicyInEffect, u64)>>,
    /// The outcome at each cluster with some of those.
    held: BTreeMap<String, HeldParts>,
}

/// A policy, whatever its fields are.
type PolicyKey = (PolicyKind, String, Option<String>);

/// The policies of a cluster with those that hold all the same. As long as the cluster, its policies and those are what they were, none is
/// checked again.
struct HeldParts {
    own: Arc<Value>,
    newest: Vec<PolicyInEffect>,
    moved: Vec<PolicyInEffect>,
    in_effect: Vec<PolicyInEffect>,
    left_out: Vec<(PolicyKind, String)>,
}

impl FormerParts {
    /// Adds the policies that hold all the same to those in effect. `served` is the number of the policies at doors that are served.
    /// Returns that of the newest ones.
    pub(super) fn follow(
        &mut self,
        attached: &mut AttachedPolicies,
        clusters: &BTreeMap<String, Arc<Value>>,
        served: u64,
    ) -> u64 {
        if self.doors != attached.at_doors {
            self.doors = attached.at_doors.clone();
            self.at_doors = self.doors.all().flat_map(|(_, policies)| policies).map(key).collect();
            self.number = self.number.saturating_add(1);
        }
        if self.last != attached.in_effect {
            self.remember(&attached.in_effect);
        }
        self.forget(clusters, served);
        let mut known = std::mem::take(&mut self.held);
        for (cluster, moved) in &self.moved {
            let Some(own) = clusters.get(cluster) else { continue };
            let in_effect = attached.in_effect.entry(cluster.clone()).or_default();
            let same = known.remove(cluster).filter(|held| held.is_of(own, in_effect, moved));
            let held = same.unwrap_or_else(|| HeldParts::new(cluster, own, in_effect, moved));
            in_effect.clone_from(&held.in_effect);
            self.held.insert(cluster.clone(), held);
        }
        self.number
    }

    /// Whether some hold all the same.
    pub(super) fn has_any(&self) -> bool {
        !self.moved.is_empty()
    }

    /// The policies that should hold and cannot, by cluster, each with a message.
    pub(super) fn left_out(&self) -> BTreeMap<String, Vec<(PolicyKind, String)>> {
        let some = self.held.iter().filter(|(_, held)| !held.left_out.is_empty());
        some.map(|(cluster, held)| (cluster.clone(), held.left_out.clone())).collect()
    }

    /// Those that are at a door now may have moved there.
    fn remember(&mut self, newest: &BTreeMap<String, Vec<PolicyInEffect>>) {
        for (cluster, policies) in std::mem::replace(&mut self.last, newest.clone()) {
            let moved = policies.into_iter().filter(|one| self.at_doors.contains(&key(one)));
            let moved: Vec<_> = moved.map(|one| (one, self.number)).collect();
            if !moved.is_empty() {
                self.moved.entry(cluster).or_default().extend(moved);
            }
        }
    }

    fn forget(&mut self, clusters: &BTreeMap<String, Arc<Value>>, served: u64) {
        for (cluster, moved) in &mut self.moved {
            let here: BTreeSet<PolicyKey> = self.last.get(cluster).into_iter().flatten().map(key).collect();
            let mut known = BTreeSet::new();
            moved.retain(|(policy, number)| {
                let key = key(policy);
                let holds = *number > served && self.at_doors.contains(&key) && !here.contains(&key);
                // The first version is what doors may lack.
                holds && known.insert(key)
            });
        }
        self.moved.retain(|cluster, moved| !moved.is_empty() && clusters.contains_key(cluster));
    }
}

impl HeldParts {
    fn new(cluster: &str, own: &Arc<Value>, newest: &[PolicyInEffect], moved: &[(PolicyInEffect, u64)]) -> Self {
        let mut held = Self {
            own: Arc::clone(own),
            newest: newest.to_vec(),
            moved: moved.iter().map(|(policy, _)| policy.clone()).collect(),
            in_effect: newest.to_vec(),
            left_out: Vec::new(),
        };
        let (deciding, tightening): (Vec<_>, Vec<_>) =
            held.moved.iter().cloned().partition(|policy| policy.role == PolicyRole::Decides);
        for policy in deciding {
            // The part has one policy: the one that takes it next waits as long. With a mistake of either the cluster stays what it was.
            let part = (PolicyRole::Decides, policy.kind);
            held.in_effect.retain(|other| (other.role, other.kind) != part);
            held.in_effect.push(holding(&policy));
        }
        for policy in tightening {
            // Nothing of another namespace holds up the owner's edits.
            let (_, unfit) = behind_doors(&with_policies(own, &held.in_effect), cluster, [&policy]);
            match unfit.into_values().next() {
                None => held.in_effect.push(holding(&policy)),
                Some(why) => {
                    let name = format!("{} {}", policy.kind, policy.policy);
                    tracing::warn!(
                        cluster,
                        policy = name,
                        why,
                        "a policy that moved to a door does not hold until that has it"
                    );
                    let message = format!("{name} moved to a door, and does not hold until that has it: {why}");
                    held.left_out.push((policy.kind, message));
                }
            }
        }
        held
    }

    fn is_of(&self, own: &Arc<Value>, newest: &[PolicyInEffect], moved: &[(PolicyInEffect, u64)]) -> bool {
        Arc::ptr_eq(&self.own, own) && self.newest == newest && self.moved.iter().eq(moved.iter().map(|(one, _)| one))
    }
}

fn holding(policy: &PolicyInEffect) -> PolicyInEffect {
    let why = format!("{}; it moved to a door, and holds here until that has it", policy.why);
    PolicyInEffect { why, ..policy.clone() }
}

fn key(policy: &PolicyInEffect) -> PolicyKey {
    (policy.kind, policy.policy.clone(), policy.uid.clone())
}

#[cfg(test)]
mod tests;
