//! Policies that are attached to other objects (GEP-713): which is in effect where, and what its status says.
//!
//! Each policy that is in effect at a target has a part of its own there. One of the control plane's own namespace *decides*: its
//! fields are in the place of the target's own. One of another namespace *tightens* what holds without it and can permit nothing;
//! each namespace has a part of its own for that. At a door by which requests get to clusters each policy tightens. For each part
//! the policy that comes first by creation time, namespace and name has it; the others are `Conflicted`. A policy that is refused keeps its part: a mistake must not hand it to another one.
//!
//! - [`object`]: a policy as it was read.
//! - [`site`]: a policy at one of its targets: whether it may be there, and its part.
//! - [`parts`]: the parts at an object; [`cluster`] the outcome for the policies of one `UpstreamCluster`, [`upstream`] for those of one
//!   `KubernetesUpstream`, whose own namespace decides there; [`memo`] outcomes of before.
//! - [`behind`]: objects behind doors with policies.
//! - [`doors`]: policies of Gateways, listeners and `HTTPRoutes`, which tighten for the requests that come by them; [`door_policies`]
//!   all of them.
//! - [`spanning`]: policies whose targets belong to several instances.
//! - [`ancestors`]: verdicts as `status.ancestors`.

mod ancestors;
mod behind;
mod cluster;
mod door_policies;
mod doors;
mod memo;
mod object;
mod parts;
mod site;
mod spanning;
mod unfit;
mod upstream;

#[cfg(test)]
mod tests;

pub use ancestors::{PolicyAncestors, policy_ancestors};
pub use behind::{behind_doors, upstream_behind_doors};
pub use door_policies::{ClosedDoors, DoorPolicies, FormerPolicy, WaitingClusters};
pub(crate) use doors::affected_by;
pub use doors::{Door, DoorTargets, ListedDoors};
pub use memo::PolicyMemo;
pub use object::PolicyObject;
pub use unfit::UnfitPolicy;

use std::borrow::Borrow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{MergeStrategy, PolicyInEffect, PolicyKind, PolicyRole, PolicyTarget};
use portcullis_gateway_api::ReferenceGrant;
use serde_json::Value;

use crate::condition::{ConditionVerdict, Note, Rejection};
use crate::grants::Grants;
use crate::name::{CreationOrder, ObjectName};
use doors::DoorAbsence;
use parts::{PartHolders, PolicyPart};
use site::{PolicyPlace, Site};

/// The most namespaces whose policies of a kind tighten one cluster: with each the cluster is checked once more.
const MAX_TIGHTENING: usize = 16;

/// Added to what is said of a policy in effect.
const UNREAD: &str =
    "this namespace has more policies than are looked at: its doors are closed, and some may be without effect";

/// The objects that policies can be attached to.
#[derive(Clone, Debug, Default)]
pub struct PolicyTargets {
    /// Whether an object that is not here does not exist. Otherwise it may: a file is checked alone.
    pub is_complete: bool,
    /// The control plane's own namespace: policies there decide, and a [`ReferenceGrant`] there lets others tighten.
    pub home_namespace: String,
    /// `UpstreamClusters`, without any policy.
    pub clusters: BTreeMap<String, Arc<Value>>,
    /// Gateways, listeners and `HTTPRoutes`.
    pub doors: DoorTargets,
    /// `KubernetesUpstreams`, which are listed where doors are.
    pub upstreams: BTreeMap<ObjectName, Arc<Value>>,
    /// The namespaces of which not all policies that can tighten are known.
    pub unread: BTreeSet<String>,
}

/// Policies in effect on `KubernetesUpstreams`, by the names of these.
pub type UpstreamPolicies = BTreeMap<ObjectName, Vec<PolicyInEffect>>;

/// The outcome of all policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttachedPolicies {
    /// The verdicts, in the order of kinds, then of creation.
    pub verdicts: Vec<PolicyVerdict>,
    /// The policies that are in effect on `UpstreamClusters`, by the names of these.
    pub in_effect: BTreeMap<String, Vec<PolicyInEffect>>,
    /// Those at doors, whether these are there or not: one that comes next is never served without them.
    pub at_doors: DoorPolicies,
    /// Those of `KubernetesUpstreams`, whether these are there or not.
    pub at_upstreams: UpstreamPolicies,
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
    /// Its targets, in their order. Those of other controllers are not among them.
    pub ancestors: Vec<AncestorVerdict>,
    /// Targets of which it is not known whether they are this controller's. Entries for them stay as they are.
    pub undecided: Vec<PolicyTarget>,
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
        self.in_effect.get(cluster).map(affected).unwrap_or_default()
    }
}

/// The conditions of an object with these policies in effect: one for each kind.
pub fn affected<'a>(policies: impl IntoIterator<Item = &'a PolicyInEffect> + Clone) -> Vec<ConditionVerdict> {
    let of_kind = |kind: PolicyKind| {
        let told: Vec<String> = policies
            .clone()
            .into_iter()
            .filter(|one| one.kind == kind)
            .map(|one| format!("{kind} {} {} ({})", one.policy, one.role.as_str(), one.why))
            .collect();
        (!told.is_empty()).then(|| ConditionVerdict::holds(kind.affected(), "PolicyAffected", told.join("; ")))
    };
    PolicyKind::ALL.into_iter().filter_map(of_kind).collect()
}

/// The policy that decides whatever the object says itself, by the message of a condition of [`affected`]: kind, namespace and name.
pub fn overriding_policy(message: &str) -> Option<&str> {
    message.split("; ").find_map(|told| {
        let (policy, why) = told.split_once(" decides (")?;
        why.starts_with(MergeStrategy::Overrides.as_str()).then_some(policy)
    })
}

/// Judges policies. Within a kind their names are unique, as in a Kubernetes API.
pub fn attach_policies<P: Borrow<PolicyObject>>(
    policies: &[P],
    grants: &[ReferenceGrant],
    targets: &PolicyTargets,
    memo: &mut PolicyMemo,
) -> AttachedPolicies {
    let referrers = policies.iter().map(P::borrow).map(site::referrer).collect();
    let grants = Grants::of(grants, &referrers);
    let mut ordered: Vec<&PolicyObject> = policies.iter().map(P::borrow).collect();
    ordered.sort_by(|policy, other| {
        let by_age = CreationOrder::of(&policy.metadata).cmp(&CreationOrder::of(&other.metadata));
        policy.kind.cmp(&other.kind).then(by_age)
    });
    let sites: Vec<Vec<Site>> = ordered.iter().map(|policy| site::sites(policy, &grants, targets)).collect();
    let holders = holders(&ordered, &sites);
    let SettledPlaces { in_effect, at_doors, at_upstreams, mut outcomes } = settle(&holders, &ordered, targets, memo);
    let mut attached = AttachedPolicies { in_effect, at_doors, at_upstreams, verdicts: Vec::new() };
    for (index, (policy, sites)) in ordered.iter().zip(&sites).enumerate() {
        let mut verdict = |(at, site): (usize, &Site)| {
            let outcome = outcomes.remove(&(index, at)).or_else(|| conflict(site, policy, &holders, &ordered));
            let outcome = match (&site.standing, &site.absence) {
                (Err(why), _) => PolicyOutcome::Refused(why.clone()),
                (Ok(_), Some(DoorAbsence::Foreign | DoorAbsence::Unknown)) => return None,
                (Ok(_), Some(DoorAbsence::Missing(why))) => {
                    PolicyOutcome::Refused(Rejection::new("TargetNotFound", why))
                }
                (Ok(_), None) => outcome.unwrap_or_else(unknown),
            };
            let outcome = outcome.noting(targets.unread.contains(&policy.metadata.namespace).then_some(UNREAD));
            Some(AncestorVerdict { target: site.target.clone(), conditions: outcome.conditions() })
        };
        attached.verdicts.push(PolicyVerdict {
            kind: policy.kind,
            name: policy.name(),
            generation: policy.metadata.generation,
            ancestors: sites.iter().enumerate().filter_map(&mut verdict).collect(),
            undecided: sites.iter().filter(|site| site.is_undecided()).map(|site| site.target.clone()).collect(),
            notes: sites.iter().filter_map(|site| site.note.clone()).collect(),
        });
    }
    attached
}

/// The policies in effect by place, and the outcome for each holder of a part.
#[derive(Default)]
struct SettledPlaces {
    in_effect: BTreeMap<String, Vec<PolicyInEffect>>,
    at_doors: DoorPolicies,
    at_upstreams: UpstreamPolicies,
    outcomes: BTreeMap<(usize, usize), PolicyOutcome>,
}

fn settle(
    holders: &Holders,
    ordered: &[&PolicyObject],
    targets: &PolicyTargets,
    memo: &mut PolicyMemo,
) -> SettledPlaces {
    let mut by_object: BTreeMap<&PolicyPlace, PartHolders<'_>> = BTreeMap::new();
    let mut by_age: Vec<_> = holders.iter().collect();
    by_age.sort_by_key(|(_, at)| **at);
    let mut settled = SettledPlaces::default();
    let mut at_doors: BTreeMap<Door, Vec<PolicyInEffect>> = BTreeMap::new();
    for ((place, part), at) in by_age {
        let Some(holder) = ordered.get(at.0) else { continue };
        match place {
            PolicyPlace::Cluster(_) | PolicyPlace::Upstream(_) => {
                by_object.entry(place).or_default().add(part.clone(), holder);
            }
            PolicyPlace::Door(door) => {
                let policy = doors::settle(holder, door);
                settled.outcomes.insert(*at, doors::outcome(&policy));
                if let Ok(policy) = policy {
                    at_doors.entry(door.clone()).or_default().push(policy);
                }
            }
        }
    }
    settled.at_doors = DoorPolicies::new(at_doors).with_unread(&targets.unread);
    memo.keep(|place| by_object.contains_key(place));
    for (place, policies) in by_object {
        let of_object = match place {
            PolicyPlace::Cluster(name) => memo.of_cluster(name, &policies, targets.clusters.get(name)),
            PolicyPlace::Upstream(name) => memo.of_upstream(name, &policies, targets.upstreams.get(name)),
            PolicyPlace::Door(_) => continue,
        };
        for (part, outcome) in of_object.outcomes {
            if let Some(at) = holders.get(&(place.clone(), part)) {
                settled.outcomes.insert(*at, outcome);
            }
        }
        if of_object.in_effect.is_empty() {
            continue;
        }
        match place {
            PolicyPlace::Cluster(name) => drop(settled.in_effect.insert(name.clone(), of_object.in_effect)),
            PolicyPlace::Upstream(name) => drop(settled.at_upstreams.insert(name.clone(), of_object.in_effect)),
            PolicyPlace::Door(_) => {}
        }
    }
    settled
}

/// By the place and the part.
type Holders = BTreeMap<(PolicyPlace, PolicyPart), (usize, usize)>;

/// The policy that has each part, by the indices of policy and target: the first in order, whether it is good or not.
fn holders(ordered: &[&PolicyObject], sites: &[Vec<Site>]) -> Holders {
    let mut holders = Holders::new();
    let mut tightening: BTreeMap<(&PolicyPlace, PolicyKind), usize> = BTreeMap::new();
    for (index, (policy, sites)) in ordered.iter().zip(sites).enumerate() {
        for (at, site) in sites.iter().enumerate() {
            let Ok((place, role)) = &site.standing else { continue };
            let Entry::Vacant(part) = holders.entry((place.clone(), PolicyPart::of(policy, *role))) else { continue };
            if *role == PolicyRole::Tightens {
                let count = tightening.entry((place, policy.kind)).or_default();
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
    let (place, role) = site.standing.as_ref().ok()?;
    let Some((holder, _)) = holders.get(&(place.clone(), PolicyPart::of(policy, *role))) else {
        let message = format!("policies of {MAX_TIGHTENING} other namespaces come first and tighten there");
        return Some(PolicyOutcome::Refused(Rejection::new("Conflicted", message)));
    };
    let holder = ordered.get(*holder)?;
    let message = format!(
        "{} {} comes first, by creation time, namespace and name, and {} there{}",
        holder.kind,
        holder.name(),
        role.as_str(),
        undated(&[holder, policy])
    );
    Some(PolicyOutcome::Refused(Rejection::new("Conflicted", message)))
}

/// The words about policies of files, which have no time unless it is written there: another one may count in Kubernetes.
fn undated(policies: &[&PolicyObject]) -> String {
    let undated = policies.iter().filter(|one| one.metadata.creation_timestamp.is_none());
    let names: Vec<String> = undated.map(|one| one.name().to_string()).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("; {one} has no creationTimestamp: in Kubernetes the older one counts"),
        all => format!("; {} have no creationTimestamp: in Kubernetes the older one counts", all.join(" and ")),
    }
}

/// Every site that exists has an outcome or a holder.
fn unknown() -> PolicyOutcome {
    PolicyOutcome::Refused(Rejection::new("Invalid", "it cannot be judged"))
}

impl PolicyOutcome {
    /// The same, with a note if it is in effect.
    fn noting(self, note: Option<&str>) -> Self {
        match (self, note) {
            (PolicyOutcome::Effective(why), Some(note)) => PolicyOutcome::Effective(format!("{why}; {note}")),
            (same, _) => same,
        }
    }

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
