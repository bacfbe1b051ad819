//! The policies that have a part at one `UpstreamCluster`.

use std::collections::BTreeMap;
use std::sync::Arc;

use portcullis_api::{
    MergeStrategy, PolicyInEffect, PolicyKind, PolicyRole, Problem, ProblemCode, check_cluster, has_fields, origins,
    parse_cluster, tightened, with_policies,
};
use serde_json::Value;

use super::{Outcome, PolicyObject};
use crate::condition::Rejection;

/// The indices of a policy and of one of its targets.
type At = (usize, usize);

/// The policies of one `UpstreamCluster`, one for each kind and part.
#[derive(Default)]
pub(super) struct ClusterPolicies<'a> {
    by_part: BTreeMap<(PolicyRole, PolicyKind), (&'a PolicyObject, At)>,
}

/// The outcome for them.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) in_effect: Vec<PolicyInEffect>,
    pub(super) outcomes: Vec<(At, Outcome)>,
}

impl<'a> ClusterPolicies<'a> {
    pub(super) fn add(&mut self, kind: PolicyKind, role: PolicyRole, policy: &'a PolicyObject, at: At) {
        self.by_part.insert((role, kind), (policy, at));
    }

    /// `own` is the cluster's own document; none if it is assumed to exist. A policy that decides is in effect also if the cluster is
    /// refused because of it: then what was accepted last stays in use, as after a wrong edit of the cluster. One that tightens is
    /// in effect only if the cluster is good with it, so that no other namespace holds up the owner's edits.
    pub(super) fn settle(self, name: &str, own: Option<&Arc<Value>>) -> Settled {
        let mut settled = Settled::default();
        let decides = |((role, _), _): &(&(PolicyRole, PolicyKind), _)| *role == PolicyRole::Decides;
        let (deciding, tightening): (Vec<_>, Vec<_>) = self.by_part.iter().partition(decides);
        let mut placed = Vec::new();
        for ((_, kind), (policy, at)) in deciding {
            if policy.strategy == MergeStrategy::Defaults && own.is_some_and(|own| has_fields(own, *kind)) {
                let outcome = policy.refusal().map_or_else(
                    || {
                        Outcome::Overridden(format!(
                            "UpstreamCluster {name} has these fields itself, and defaults yield"
                        ))
                    },
                    |why| Outcome::Refused(Rejection::new("Invalid", why)),
                );
                settled.outcomes.push((*at, outcome));
            } else {
                settled.in_effect.push(in_effect(policy, PolicyRole::Decides));
                placed.push((*kind, *policy, *at));
            }
        }
        let mut document = own.map(|own| with_policies(own, &settled.in_effect));
        let refused = document.as_ref().map(refusals).unwrap_or_default();
        let own_is_good = own.is_some_and(|own| refusals(own).is_empty());
        for (kind, policy, at) in placed {
            let of_fields = || blamed(&refused, kind, policy, document.as_deref(), own_is_good);
            let why = policy.refusal().or_else(of_fields);
            settled.outcomes.push((
                at,
                match why {
                    Some(why) => Outcome::Refused(Rejection::new(
                        "Invalid",
                        format!(
                            "{why}; UpstreamCluster {name} is refused with it, and what was accepted last stays in use"
                        ),
                    )),
                    None => Outcome::Effective(format!("it decides: {}", reason(policy, PolicyRole::Decides))),
                },
            ));
        }
        for ((_, kind), (policy, at)) in tightening {
            let outcome = match tighten(*kind, policy, document.as_ref(), &refused) {
                Ok(newer) => {
                    document = newer;
                    settled.in_effect.push(in_effect(policy, PolicyRole::Tightens));
                    Outcome::Effective(format!("it tightens: {}", reason(policy, PolicyRole::Tightens)))
                }
                Err(why) => Outcome::Refused(Rejection::new("Invalid", why)),
            };
            settled.outcomes.push((*at, outcome));
        }
        settled
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
fn blamed(
    refused: &[Problem],
    kind: PolicyKind,
    policy: &PolicyObject,
    document: Option<&Value>,
    own_is_good: bool,
) -> Option<String> {
    let name = policy.name().to_string();
    let origins = document.map(origins).unwrap_or_default();
    let origin = origins.iter().find(|origin| origin.kind == kind && origin.policy == name);
    let is_its = |problem: &&Problem| origin.is_some_and(|origin| origin.is_of(&problem.path));
    let found = refused.iter().find(is_its).or_else(|| refused.first().filter(|_| own_is_good));
    found.map(ToString::to_string)
}

fn tighten(
    kind: PolicyKind,
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
    let newer = tightened(document, kind, fields).map_err(|error| format!("spec.overrides.{error}"))?;
    // With a cluster that is refused anyway nothing can be compared.
    match refusals(&newer).first().filter(|_| refused.is_empty()) {
        Some(problem) => Err(format!("the UpstreamCluster would be refused with it: {problem}")),
        None => Ok(Some(newer)),
    }
}
