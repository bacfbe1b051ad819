//! The policies that have a part at one `UpstreamCluster`.

use std::sync::Arc;

use portcullis_api::{
    MergeStrategy, PolicyInEffect, PolicyRole, Problem, ProblemCode, check_cluster, has_fields, parse_cluster,
    tightened, with_policies,
};
use serde_json::Value;

use super::parts::{PartHolders, Settled, blamed, in_effect};
use super::{PolicyObject, PolicyOutcome};
use crate::condition::Rejection;

/// `own` is the cluster's own document; none if it is assumed to exist. A policy that decides is in effect also if the cluster is
/// refused because of it: then what was accepted last stays in use, as after a wrong edit of the cluster. One that tightens is
/// in effect only if the cluster is good with it, so that no other namespace holds up the owner's edits.
pub(super) fn settle(policies: &PartHolders<'_>, name: &str, own: Option<&Arc<Value>>) -> Settled {
    let mut settled = Settled::default();
    let mut placed = Vec::new();
    for (part, policy) in policies.of(PolicyRole::Decides) {
        if policy.strategy == MergeStrategy::Defaults && own.is_some_and(|own| has_fields(own, policy.kind)) {
            let yields = format!("UpstreamCluster {name} has these fields itself, and defaults yield");
            let outcome = policy.refusal().map_or_else(
                || PolicyOutcome::Overridden(yields),
                |why| PolicyOutcome::Refused(Rejection::new("Invalid", why)),
            );
            settled.outcomes.insert(part, outcome);
        } else {
            settled.in_effect.push(effective(policy, PolicyRole::Decides));
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
    for (part, policy) in policies.of(PolicyRole::Tightens) {
        let outcome = match tighten(policy, document.as_ref(), &refused) {
            Ok(newer) => {
                document = newer;
                settled.in_effect.push(effective(policy, PolicyRole::Tightens));
                PolicyOutcome::Effective(format!("it tightens: {}", reason(policy, PolicyRole::Tightens)))
            }
            Err(why) => PolicyOutcome::Refused(Rejection::new("Invalid", why)),
        };
        settled.outcomes.insert(part, outcome);
    }
    settled
}

fn effective(policy: &PolicyObject, role: PolicyRole) -> PolicyInEffect {
    in_effect(policy, role, reason(policy, role))
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
pub(super) fn refusals(document: &Arc<Value>) -> Vec<Problem> {
    let checked = parse_cluster(document).map_err(|problem| vec![problem]);
    let mut problems = checked.and_then(|raw| check_cluster(&raw, true).outcome).err().unwrap_or_default();
    problems.retain(|problem| problem.code != ProblemCode::Unresolved);
    problems
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
        // Its author may attach to the cluster, and need not be able to read it.
        Some(problem) => Err(format!("the UpstreamCluster would be refused with it: {}", problem.outline())),
        None => Ok(Some(newer)),
    }
}
