//! The parts of policies at an object, each with the policy that has it.

use std::collections::BTreeMap;

use portcullis_api::{PolicyInEffect, PolicyKind, PolicyRole, Problem, origins};
use serde_json::Value;

use super::{PolicyObject, PolicyOutcome};

/// A part at an `UpstreamCluster` or a `KubernetesUpstream`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PolicyPart {
    pub(super) role: PolicyRole,
    kind: PolicyKind,
    /// That of a policy that tightens, so that no namespace has the part of another one; empty of one that decides.
    namespace: String,
}

/// The policies of one such object, one for each part, by kind and then the older one first.
#[derive(Default)]
pub(super) struct PartHolders<'a> {
    pub(super) by_part: Vec<(PolicyPart, &'a PolicyObject)>,
}

/// The outcome for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Settled {
    pub(super) in_effect: Vec<PolicyInEffect>,
    pub(super) outcomes: BTreeMap<PolicyPart, PolicyOutcome>,
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

impl<'a> PartHolders<'a> {
    pub(super) fn add(&mut self, part: PolicyPart, policy: &'a PolicyObject) {
        self.by_part.push((part, policy));
    }

    /// Those with a role.
    pub(super) fn of(&self, role: PolicyRole) -> impl Iterator<Item = (PolicyPart, &'a PolicyObject)> {
        self.by_part.iter().filter(move |(part, _)| part.role == role).map(|(part, policy)| (part.clone(), *policy))
    }
}

/// The policy, as it is in effect for a reason.
pub(super) fn in_effect(policy: &PolicyObject, role: PolicyRole, why: String) -> PolicyInEffect {
    PolicyInEffect {
        kind: policy.kind,
        policy: policy.name().to_string(),
        uid: policy.uid.clone(),
        role,
        why,
        fields: policy.checked.clone().map_err(|_| policy.refusal().unwrap_or_default()),
    }
}

/// Why the object with a document is refused by a policy: by its fields, or by another one's if it is good without policies.
pub(super) fn blamed(
    refused: &[Problem],
    policy: &PolicyObject,
    document: Option<&Value>,
    own_is_good: bool,
) -> Option<String> {
    let name = policy.name().to_string();
    let origins = document.map(origins).unwrap_or_default();
    let origin = origins.iter().find(|origin| origin.kind == policy.kind && origin.policy == name);
    let is_its = |problem: &&Problem| origin.is_some_and(|origin| origin.is_of(&problem.path));
    let found = refused.iter().find(is_its).or_else(|| refused.first().filter(|_| own_is_good));
    found.map(ToString::to_string)
}
