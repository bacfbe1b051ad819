//! The policies that have a part at one `UpstreamCluster`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{
    DispatchPolicy, KubernetesUpstream, MergeStrategy, PolicyInEffect, PolicyKind, PolicyRole, Problem, ProblemCode,
    UpstreamMaterial, behind_door, check_cluster, check_upstream_behind_doors, door_denials, has_fields, origins,
    parse_cluster, tightened, upstream_key, with_policies,
};
use serde_json::Value;

use super::unfit::UnfitPolicy;
use super::{PolicyObject, PolicyOutcome};
use crate::condition::Rejection;

/// A part at a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PolicyPart {
    role: PolicyRole,
    kind: PolicyKind,
    /// That of a policy that tightens, so that no namespace has the part of another one; empty of one that decides.
    namespace: String,
}

/// The policies of one `UpstreamCluster`, one for each part, by kind and then the older one first.
#[derive(Default)]
pub(super) struct ClusterPolicies<'a> {
    by_part: Vec<(PolicyPart, &'a PolicyObject)>,
}

/// The outcome for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Settled {
    pub(super) in_effect: Vec<PolicyInEffect>,
    pub(super) outcomes: BTreeMap<PolicyPart, PolicyOutcome>,
}

/// Outcomes of an earlier step: a cluster whose document and policies are what they were is not checked again. They make no difference
/// to what comes out.
#[derive(Debug, Default)]
pub struct PolicyMemo {
    by_cluster: BTreeMap<String, RememberedPolicies>,
}

#[derive(Debug)]
struct RememberedPolicies {
    own: Option<Arc<Value>>,
    policies: Vec<(PolicyPart, PolicyObject)>,
    settled: Settled,
}

impl PolicyMemo {
    /// The outcome for the policies of a cluster, of before or anew.
    pub(super) fn settle(&mut self, name: &str, policies: &ClusterPolicies<'_>, own: Option<&Arc<Value>>) -> Settled {
        if let Some(known) = self.by_cluster.get(name).filter(|known| known.is_of(policies, own)) {
            return known.settled.clone();
        }
        let settled = policies.settle(name, own);
        let remembered = RememberedPolicies {
            own: own.cloned(),
            policies: policies.by_part.iter().map(|(part, policy)| (part.clone(), (*policy).clone())).collect(),
            settled: settled.clone(),
        };
        self.by_cluster.insert(name.to_owned(), remembered);
        settled
    }

    /// Forgets clusters without a policy.
    pub(super) fn keep(&mut self, has_policy: impl Fn(&str) -> bool) {
        self.by_cluster.retain(|name, _| has_policy(name));
    }
}

impl RememberedPolicies {
    fn is_of(&self, policies: &ClusterPolicies<'_>, own: Option<&Arc<Value>>) -> bool {
        let same_document = match (&self.own, own) {
            (Some(known), Some(own)) => Arc::ptr_eq(known, own),
            (known, own) => known.is_none() && own.is_none(),
        };
        let known = self.policies.iter().map(|(part, policy)| (part, policy));
        same_document && known.eq(policies.by_part.iter().map(|(part, policy)| (part, *policy)))
    }
}

impl PolicyPart {
    pub(super) fn of(policy: &PolicyObject, role: PolicyRole) -> Self {
        let namespace = match role {
            PolicyRole::Decides => String::new(),
            PolicyRole::Tightens => policy.metadata.namespace.clone(),
        };
        Self { role, kind: policy.kind, namespace }
    }
}

impl<'a> ClusterPolicies<'a> {
    pub(super) fn add(&mut self, part: PolicyPart, policy: &'a PolicyObject) {
        self.by_part.push((part, policy));
    }

    /// `own` is the cluster's own document; none if it is assumed to exist. A policy that decides is in effect also if the cluster is
    /// refused because of it: then what was accepted last stays in use, as after a wrong edit of the cluster. One that tightens is
    /// in effect only if the cluster is good with it, so that no other namespace holds up the owner's edits.
    fn settle(&self, name: &str, own: Option<&Arc<Value>>) -> Settled {
        let mut settled = Settled::default();
        let mut placed = Vec::new();
        for (part, policy) in self.of(PolicyRole::Decides) {
            if policy.strategy == MergeStrategy::Defaults && own.is_some_and(|own| has_fields(own, policy.kind)) {
                let yields = format!("UpstreamCluster {name} has these fields itself, and defaults yield");
                let outcome = policy.refusal().map_or_else(
                    || PolicyOutcome::Overridden(yields),
                    |why| PolicyOutcome::Refused(Rejection::new("Invalid", why)),
                );
                settled.outcomes.insert(part, outcome);
            } else {
                settled.in_effect.push(in_effect(policy, PolicyRole::Decides));
                placed.push((part, policy));
            }
        }
        let mut document = own.map(|own| with_policies(own, &settled.in_effect));
        let refused = document.as_ref().map(refusals).unwrap_or_default();
        let own_is_good = !refused.is_empty() && own.is_some_and(|own| refusals(own).is_empty());
        for (part, policy) in placed {
            let of_fields = || blamed(&refused, policy, document.as_deref(), own_is_good);
            let outcome = match policy.refusal().or_else(of_fields) {
                Some(why) => PolicyOutcome::Refused(Rejection::new(
                    "Invalid",
                    format!(
                        "{why}; UpstreamCluster {name} is refused with it, and what was accepted last stays in use until the control plane restarts"
                    ),
                )),
                None => PolicyOutcome::Effective(format!("it decides: {}", reason(policy, PolicyRole::Decides))),
            };
            settled.outcomes.insert(part, outcome);
        }
        for (part, policy) in self.of(PolicyRole::Tightens) {
            let outcome = match tighten(policy, document.as_ref(), &refused) {
                Ok(newer) => {
                    document = newer;
                    settled.in_effect.push(in_effect(policy, PolicyRole::Tightens));
                    PolicyOutcome::Effective(format!("it tightens: {}", reason(policy, PolicyRole::Tightens)))
                }
                Err(why) => PolicyOutcome::Refused(Rejection::new("Invalid", why)),
            };
            settled.outcomes.insert(part, outcome);
        }
        settled
    }

    fn of(&self, role: PolicyRole) -> impl Iterator<Item = (PolicyPart, &'a PolicyObject)> {
        self.by_part.iter().filter(move |(part, _)| part.role == role).map(|(part, policy)| (part.clone(), *policy))
    }
}

fn in_effect(policy: &PolicyObject, role: PolicyRole) -> PolicyInEffect {
    PolicyInEffect {
        kind: policy.kind,
        policy: policy.name().to_string(),
        uid: policy.uid.clone(),
        role,
        why: reason(policy, role),
        fields: policy.checked.clone().map_err(|_| policy.refusal().unwrap_or_default()),
    }
}

/// Why it is this policy.
fn reason(policy: &PolicyObject, role: PolicyRole) -> String {
    let namespace = &policy.metadata.namespace;
    match (role, policy.strategy) {
        (PolicyRole::Decides, MergeStrategy::Overrides) => {
            format!("overrides of the control plane's own namespace {namespace}, the first by creation time and name")
        }
        (PolicyRole::Decides, MergeStrategy::Defaults) => {
            format!(
                "defaults of the control plane's own namespace {namespace}, the first by creation time and name; the object has no such fields itself"
            )
        }
        (PolicyRole::Tightens, _) => {
            format!("overrides of namespace {namespace}, the first by creation time and name; they can only take away")
        }
    }
}

/// Why the cluster would be refused. The contents of Secrets are not known here.
fn refusals(document: &Arc<Value>) -> Vec<Problem> {
    let checked = parse_cluster(document).map_err(|problem| vec![problem]);
    let mut problems = checked.and_then(|raw| check_cluster(&raw, true).outcome).err().unwrap_or_default();
    problems.retain(|problem| problem.code != ProblemCode::Unresolved);
    problems
}

/// Why the cluster is refused by a policy: by its fields, or by another one's if the cluster is good without policies.
fn blamed(refused: &[Problem], policy: &PolicyObject, document: Option<&Value>, own_is_good: bool) -> Option<String> {
    let name = policy.name().to_string();
    let origins = document.map(origins).unwrap_or_default();
    let origin = origins.iter().find(|origin| origin.kind == policy.kind && origin.policy == name);
    let is_its = |problem: &&Problem| origin.is_some_and(|origin| origin.is_of(&problem.path));
    let found = refused.iter().find(is_its).or_else(|| refused.first().filter(|_| own_is_good));
    found.map(ToString::to_string)
}

/// Which policies of doors are left out.
#[derive(Default)]
struct FitMarks {
    fit: BTreeSet<UnfitPolicy>,
    unfit: BTreeMap<UnfitPolicy, String>,
}

impl FitMarks {
    /// Takes the outcome for a policy. A former version that does not fit says nothing about the newest, which comes first.
    fn take<T>(&mut self, cluster: &str, policy: &PolicyInEffect, fit: Result<T, String>) -> Option<T> {
        let (cluster, name) = (cluster.to_owned(), policy.policy.clone());
        let key = UnfitPolicy { cluster, kind: policy.kind, policy: name };
        match fit {
            Ok(newer) => {
                self.fit.insert(key);
                Some(newer)
            }
            Err(why) => {
                if !self.fit.contains(&key) {
                    self.unfit.insert(key, why);
                }
                None
            }
        }
    }
}

/// The document of an `UpstreamCluster` for requests that come by doors with these policies, the widest door's first, and the policies
/// that are left out, and why: those with which the cluster would be refused. As at the cluster itself no other namespace holds up its
/// owner's edits.
pub fn behind_doors<'a>(
    document: &Arc<Value>,
    cluster: &str,
    policies: impl IntoIterator<Item = &'a PolicyInEffect>,
) -> (Arc<Value>, BTreeMap<UnfitPolicy, String>) {
    // With a cluster that is refused anyway nothing can be compared.
    let is_refused = !refusals(document).is_empty();
    let (mut document, mut marks) = (Arc::clone(document), FitMarks::default());
    for policy in policies {
        let newer = behind_door(&document, policy).map_err(|error| error.to_string());
        let fit = newer.and_then(|newer| match refusals(&newer).first().filter(|_| !is_refused) {
            Some(problem) => Err(format!("UpstreamCluster {cluster} would be refused with it: {problem}")),
            None => Ok(newer),
        });
        document = marks.take(cluster, policy, fit).unwrap_or(document);
    }
    (document, marks.unfit)
}

/// The denials for requests to a `KubernetesUpstream` that come by doors with these policies, the widest door's first, and the policies that
/// are left out, and why. It has no limits that could be lowered.
pub fn upstream_behind_doors<'a>(
    raw: &KubernetesUpstream,
    material: &UpstreamMaterial,
    policies: impl IntoIterator<Item = &'a PolicyInEffect>,
) -> (Vec<DispatchPolicy>, BTreeMap<UnfitPolicy, String>) {
    let key = upstream_key(raw.metadata.namespace.as_deref().unwrap_or_default(), &raw.metadata.name);
    let (mut denials, mut marks) = (Vec::new(), FitMarks::default());
    for policy in policies {
        let newer = door_denials(policy).map_err(|error| error.to_string());
        let fit = newer.and_then(|mut newer| {
            newer.extend(denials.iter().cloned());
            let problems = check_upstream_behind_doors(raw, material, &newer, true).outcome.err().unwrap_or_default();
            match problems.first() {
                Some(problem) => Err(format!("KubernetesUpstream {key} would be refused with it: {problem}")),
                None => Ok(newer),
            }
        });
        denials = marks.take(&key, policy, fit).unwrap_or(denials);
    }
    (denials, marks.unfit)
}

fn tighten(
    policy: &PolicyObject,
    document: Option<&Arc<Value>>,
    refused: &[Problem],
) -> Result<Option<Arc<Value>>, String> {
    let fields = policy.checked.as_ref().map_err(|_| policy.refusal().unwrap_or_default())?;
    if policy.strategy == MergeStrategy::Defaults {
        let message = "defaults are for the control plane's own namespace alone: a policy of another one can only tighten, by overrides";
        return Err(format!("spec.defaults: {message}"));
    }
    // Of a cluster that is not here nothing is known.
    let Some(document) = document else { return Ok(None) };
    let newer = tightened(document, policy.kind, fields).map_err(|error| format!("spec.overrides.{error}"))?;
    // With a cluster that is refused anyway nothing can be compared.
    match refusals(&newer).first().filter(|_| refused.is_empty()) {
        Some(problem) => Err(format!("the UpstreamCluster would be refused with it: {problem}")),
        None => Ok(Some(newer)),
    }
}
