//! Policies in the answer: which is in effect on the cluster, and why the others are not.

use portcullis_api::{FieldOrigin, origin_of};
use portcullis_attach::{AttachedPolicies, ConditionVerdict};
use serde::Serialize;

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
pub(super) fn answers(origins: &[FieldOrigin], attached: &AttachedPolicies, cluster: &str) -> Vec<PolicyAnswer> {
    let in_effect = origins.iter().map(|origin| PolicyAnswer {
        kind: origin.kind.as_str(),
        policy: origin.policy.clone(),
        role: Some(origin.role.as_str()),
        reason: origin.refusal.clone().unwrap_or_else(|| origin.why.clone()),
    });
    let mut answers: Vec<PolicyAnswer> = in_effect.collect();
    for verdict in &attached.verdicts {
        let policy = verdict.name.to_string();
        let ancestors = verdict.ancestors.iter().filter(|one| one.target.kind == portcullis_api::CLUSTER_KIND);
        let at = ancestors.filter(|one| one.target.name == cluster);
        let failed = |conditions: &[ConditionVerdict]| conditions.iter().find(|one| !one.status).cloned();
        for condition in at.filter_map(|ancestor| failed(&ancestor.conditions)) {
            let is_known = |one: &PolicyAnswer| one.kind == verdict.kind.as_str() && one.policy == policy;
            if !answers.iter().any(is_known) {
                let reason = format!("{}: {}", condition.reason, condition.message);
                answers.push(PolicyAnswer { kind: verdict.kind.as_str(), policy: policy.clone(), role: None, reason });
            }
        }
    }
    answers
}

/// The policy that a dispatch policy is of, by its number; `None` if it is the object's own.
pub(super) fn decided_by(origins: &[FieldOrigin], policy: usize) -> Option<String> {
    let path = format!("spec.dispatchPolicies[{policy}]");
    origin_of(origins, &path).map(|of| format!("{} {}", of.kind, of.policy))
}
