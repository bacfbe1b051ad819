//! Policies in the answer: which is in effect on the cluster, and why the others are not.

use portcullis_api::{CLUSTER_KIND, FieldOrigin, PolicyKind, PolicyRole, UPSTREAM_KIND, origin_of, upstream_key};
use portcullis_attach::{AttachedPolicies, ConditionVerdict, Door, UnfitPolicy};
use serde::Serialize;

use super::environment::ServedCluster;

/// A policy that is attached to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PolicyAnswer {
    pub(crate) kind: &'static str,
    /// Its namespace and name.
    pub(crate) policy: String,
    /// `decides` or `tightens`; null if it has no effect.
    pub(crate) role: Option<&'static str>,
    /// Why.
    pub(crate) reason: String,
}

/// The policies in effect, by the cluster's document, and those without effect, by their verdicts.
pub(super) fn answers(cluster: &ServedCluster, attached: &AttachedPolicies) -> Vec<PolicyAnswer> {
    let in_effect = cluster.origins.iter().map(|origin| in_effect(origin, cluster.has_profile));
    let mut answers: Vec<PolicyAnswer> = in_effect.collect();
    for verdict in &attached.verdicts {
        let policy = verdict.name.to_string();
        let at = verdict.ancestors.iter().filter(|one| match one.target.kind.as_str() {
            CLUSTER_KIND => one.target.name == cluster.name,
            UPSTREAM_KIND => upstream_key(&verdict.name.namespace, &one.target.name) == cluster.name,
            _ => Door::of(&one.target, &verdict.name.namespace).is_some_and(|door| cluster.doors.contains(&door)),
        });
        let failed = |conditions: &[ConditionVerdict]| conditions.iter().find(|one| !one.status).cloned();
        for condition in at.filter_map(|ancestor| failed(&ancestor.conditions)) {
            let is_known = |one: &PolicyAnswer| one.kind == verdict.kind.as_str() && one.policy == policy;
            if !answers.iter().any(is_known) {
                let reason = format!("{}: {}", condition.reason, condition.message);
                answers.push(PolicyAnswer { kind: verdict.kind.as_str(), policy: policy.clone(), role: None, reason });
            }
        }
    }
    for (UnfitPolicy { kind, policy, .. }, why) in &cluster.unfit {
        let (kind, reason) = (kind.as_str(), format!("left out: {why}"));
        answers.push(PolicyAnswer { kind, policy: policy.clone(), role: None, reason });
    }
    answers
}

/// A profile has dispatch policies and limits of its own, and no fair queues. Denials of policies that tighten are asked before those.
fn in_effect(origin: &FieldOrigin, has_profile: bool) -> PolicyAnswer {
    let reason = origin.refusal.clone().unwrap_or_else(|| origin.why.clone());
    let replaced = match (origin.kind, origin.role) {
        (PolicyKind::Dispatch, PolicyRole::Decides) if has_profile => {
            "; a profile is in effect in the place of dispatchPolicies"
        }
        (PolicyKind::FlowControl, PolicyRole::Decides) if has_profile => {
            "; a profile is in effect in the place of flowControl"
        }
        (PolicyKind::FlowControl, PolicyRole::Tightens) if has_profile => {
            "; a profile is in effect, of which limits with these names are lowered"
        }
        _ => "",
    };
    let has_effect = !has_profile || (origin.kind, origin.role) != (PolicyKind::Dispatch, PolicyRole::Decides);
    PolicyAnswer {
        kind: origin.kind.as_str(),
        policy: origin.policy.clone(),
        role: has_effect.then(|| origin.role.as_str()),
        reason: reason + replaced,
    }
}

/// The policy that a dispatch policy is of, by its number; `None` if it is the object's own, or of a profile.
pub(super) fn decided_by(origins: &[FieldOrigin], has_profile: bool, policy: usize) -> Option<String> {
    let path = format!("spec.dispatchPolicies[{policy}]");
    let of = origin_of(origins, &path).filter(|of| !has_profile || of.role == PolicyRole::Tightens)?;
    Some(format!("{} {}", of.kind, of.policy))
}
