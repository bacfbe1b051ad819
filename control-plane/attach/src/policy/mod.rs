//! Policies that are attached to other objects (GEP-713): which is in effect where, and what its status says.
//!
//! Each policy that is in effect at a target has a part of its own there. One of the control plane's own namespace *decides*: its
//! fields are in the place of the target's own. One of another namespace *tightens* what holds without it and can permit nothing;
//! each namespace has a part of its own for that. For each part the policy that comes first by creation time, namespace and name has
//! it; the others are `Conflicted`. A policy that is refused keeps its part: a mistake must not hand it to another one.
//!
//! - [`object`]: a policy as it was read.
//! - [`site`]: a policy at one of its targets: whether it may be there, and its part.
//! - [`cluster`]: the policies of one `UpstreamCluster`, and the outcome for each.
//! - [`precedence`]: which policy decides for requests that pass several targets.
//! - [`spanning`]: policies whose targets belong to several instances.
//! - [`ancestors`]: verdicts as `status.ancestors`.

mod ancestors;
mod cluster;
mod object;
mod precedence;
mod site;
mod spanning;

#[cfg(test)]
mod tests;

pub use ancestors::{PolicyAncestors, policy_ancestors};
pub use cluster::PolicyMemo;
pub use object::PolicyObject;
pub use precedence::{PolicyCandidate, TargetLevel, deciding};

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use portcullis_api::{PolicyInEffect, PolicyKind, PolicyRole, PolicyTarget};
use portcullis_gateway_api::ReferenceGrant;
use serde_json::Value;

use crate::condition::{ConditionVerdict, Note, Rejection};
use crate::grants::Grants;
use crate::name::{CreationOrder, ObjectName};
use cluster::{ClusterPolicies, PolicyPart};
use site::Site;

/// The most namespaces whose policies of a kind tighten one cluster: with each the cluster is checked once more.
const MAX_TIGHTENING: usize = 16;

/// The objects that policies can be attached to.
#[derive(Clone, Debug, Default)]
pub struct PolicyTargets {
    /// Whether an object that is not here does not exist. Otherwise it may: a file is checked alone.
    pub is_complete: bool,
    /// The control plane's own namespace: policies there decide, and a [`ReferenceGrant`] there lets others tighten.
    pub home_namespace: String,
    /// `UpstreamClusters`, without any policy.
    pub clusters: BTreeMap<String, Arc<Value>>,
}

/// The outcome of all policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttachedPolicies {
    /// The verdicts, in the order of kinds, then of creation.
    pub verdicts: Vec<PolicyVerdict>,
    /// The policies that are in effect on `UpstreamClusters`, by the names of these.
    pub in_effect: BTreeMap<String, Vec<PolicyInEffect>>,
}

/// The verdict about a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVerdict {
    /// Its kind.
    pub kind: PolicyKind,
    /// Its name.
    pub name: ObjectName,
    /// The version that it is about.
    pub generation: Option<i64>,
    /// Its targets, in their order.
    pub ancestors: Vec<AncestorVerdict>,
    /// Targets that are not here and are assumed to exist.
    pub notes: Vec<Note>,
}

/// The verdict about a policy at one of its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AncestorVerdict {
    /// The target, as the policy has it.
    pub target: PolicyTarget,
    /// The conditions.
    pub conditions: Vec<ConditionVerdict>,
}

/// The outcome for a policy at a target.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PolicyOutcome {
    /// It is not accepted.
    Refused(Rejection),
    /// It is accepted, and something else says what holds.
    Overridden(String),
    /// It is in effect.
    Effective(String),
}

impl AttachedPolicies {
    /// The conditions of an `UpstreamCluster` that policies affect.
    pub fn affected(&self, cluster: &str) -> Vec<ConditionVerdict> {
        self.in_effect.get(cluster).map(|all| affected(all)).unwrap_or_default()
    }
}

/// The conditions of an object with these policies in effect: one for each kind.
pub fn affected(policies: &[PolicyInEffect]) -> Vec<ConditionVerdict> {
    let of_kind = |kind: PolicyKind| {
        let told: Vec<String> = policies
            .iter()
            .filter(|one| one.kind == kind)
            .map(|one| format!("{kind} {} {} ({})", one.policy, one.role.as_str(), one.why))
            .collect();
        (!told.is_empty()).then(|| ConditionVerdict::holds(kind.affected(), "PolicyAffected", told.join("; ")))
    };
    PolicyKind::ALL.into_iter().filter_map(of_kind).collect()
}

/// Judges policies. Within a kind their names are unique, as in a Kubernetes API.
pub fn attach_policies<P: Borrow<PolicyObject>>(
    policies: &[P],
    grants: &[ReferenceGrant],
    targets: &PolicyTargets,
    memo: &mut PolicyMemo,
) -> AttachedPolicies {
    let grants = Grants::of(grants);
    let mut ordered: Vec<&PolicyObject> = policies.iter().map(P::borrow).collect();
    ordered.sort_by(|policy, other| {
        let by_age = CreationOrder::of(&policy.metadata).cmp(&CreationOrder::of(&other.metadata));
        policy.kind.cmp(&other.kind).then(by_age)
    });
    let sites: Vec<Vec<Site>> = ordered.iter().map(|policy| site::sites(policy, &grants, targets)).collect();
    let holders = holders(&ordered, &sites);
    let (in_effect, mut outcomes) = settle(&holders, &ordered, targets, memo);
    let mut attached = AttachedPolicies { in_effect, verdicts: Vec::new() };
    for (index, (policy, sites)) in ordered.iter().zip(&sites).enumerate() {
        let mut verdict = |(at, site): (usize, &Site)| {
            let outcome = outcomes.remove(&(index, at)).or_else(|| conflict(site, policy, &holders, &ordered));
            let outcome =
                site.standing.clone().map_or_else(PolicyOutcome::Refused, |_| outcome.unwrap_or_else(unknown));
            AncestorVerdict { target: site.target.clone(), conditions: outcome.conditions() }
        };
        attached.verdicts.push(PolicyVerdict {
            kind: policy.kind,
            name: policy.name(),
            generation: policy.metadata.generation,
            ancestors: sites.iter().enumerate().map(&mut verdict).collect(),
            notes: sites.iter().filter_map(|site| site.note.clone()).collect(),
        });
    }
    attached
}

/// The policies in effect by cluster, and the outcome for each holder of a part.
type SettledClusters = (BTreeMap<String, Vec<PolicyInEffect>>, BTreeMap<(usize, usize), PolicyOutcome>);

fn settle(
    holders: &Holders,
    ordered: &[&PolicyObject],
    targets: &PolicyTargets,
    memo: &mut PolicyMemo,
) -> SettledClusters {
    let mut by_cluster: BTreeMap<&str, ClusterPolicies<'_>> = BTreeMap::new();
    let mut by_age: Vec<_> = holders.iter().collect();
    by_age.sort_by_key(|(_, at)| **at);
    for ((name, part), (policy, _)) in by_age {
        let Some(holder) = ordered.get(*policy) else { continue };
        by_cluster.entry(name).or_default().add(part.clone(), holder);
    }
    memo.keep(|name| by_cluster.contains_key(name));
    let (mut in_effect, mut outcomes) = SettledClusters::default();
    for (name, policies) in by_cluster {
        let settled = memo.settle(name, &policies, targets.clusters.get(name));
        for (part, outcome) in settled.outcomes {
            if let Some(at) = holders.get(&(name.to_owned(), part)) {
                outcomes.insert(*at, outcome);
            }
        }
        if !settled.in_effect.is_empty() {
            in_effect.insert(name.to_owned(), settled.in_effect);
        }
    }
    (in_effect, outcomes)
}

/// By the name of the cluster and the part.
type Holders = BTreeMap<(String, PolicyPart), (usize, usize)>;

/// The policy that has each part, by the indices of policy and target: the first in order, whether it is good or not.
fn holders(ordered: &[&PolicyObject], sites: &[Vec<Site>]) -> Holders {
    let mut holders = Holders::new();
    let mut tightening: BTreeMap<(&str, PolicyKind), usize> = BTreeMap::new();
    for (index, (policy, sites)) in ordered.iter().zip(sites).enumerate() {
        for (at, site) in sites.iter().enumerate() {
            let Ok((name, role)) = &site.standing else { continue };
            let Entry::Vacant(part) = holders.entry((name.clone(), PolicyPart::of(policy, *role))) else { continue };
            if *role == PolicyRole::Tightens {
                let count = tightening.entry((name.as_str(), policy.kind)).or_default();
                if *count >= MAX_TIGHTENING {
                    continue;
                }
                *count = count.saturating_add(1);
            }
            part.insert((index, at));
        }
    }
    holders
}

fn conflict(site: &Site, policy: &PolicyObject, holders: &Holders, ordered: &[&PolicyObject]) -> Option<PolicyOutcome> {
    let (name, role) = site.standing.as_ref().ok()?;
    let Some((holder, _)) = holders.get(&(name.clone(), PolicyPart::of(policy, *role))) else {
        let message = format!("policies of {MAX_TIGHTENING} other namespaces come first and tighten there");
        return Some(PolicyOutcome::Refused(Rejection::new("Conflicted", message)));
    };
    let holder = ordered.get(*holder)?;
    let message = format!(
        "{} {} comes first, by creation time, namespace and name, and {} there",
        holder.kind,
        holder.name(),
        role.as_str()
    );
    Some(PolicyOutcome::Refused(Rejection::new("Conflicted", message)))
}

/// Every site that exists has an outcome or a holder.
fn unknown() -> PolicyOutcome {
    PolicyOutcome::Refused(Rejection::new("Invalid", "it cannot be judged"))
}

impl PolicyOutcome {
    fn conditions(self) -> Vec<ConditionVerdict> {
        match self {
            PolicyOutcome::Refused(why) => vec![ConditionVerdict::fails("Accepted", &why)],
            PolicyOutcome::Overridden(by) => vec![
                ConditionVerdict::holds("Accepted", "Accepted", ""),
                ConditionVerdict::fails("Programmed", &Rejection::new("Overridden", by)),
            ],
            PolicyOutcome::Effective(why) => vec![ConditionVerdict::holds("Accepted", "Accepted", why)],
        }
    }
}
