//! Policies of kinds of their own at the object: whether what is promoted decides beside them.

use std::sync::Arc;

use portcullis_api::{PolicyInEffect, PolicyKind, PolicyRole, with_policies};
use portcullis_attach::{AttachedPolicies, overriding_policy};
use portcullis_sources::ObjectSet;
use serde_json::Value;

use crate::policies::{judge, name_of};

/// The reason for which a promotion would not do what it says. Another object has to be edited than the one with the shadow.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttachedError {
    #[error("UpstreamCluster {name}: spec.{part} would not decide, because {policy} does: edit that policy instead")]
    Overridden { name: String, part: &'static str, policy: String },
    #[error("UpstreamCluster {name}: the policies of mode: Shadow are those of {policy}: take mode away there")]
    OfPolicy { name: String, policy: String },
    #[error("UpstreamCluster {name}: {policy} would not tighten any more: {why}")]
    LeftOut { name: String, policy: String, why: String },
}

/// The object with what its policies make of it once the shadow decides, and lines for the operator.
pub(super) struct Promotion {
    pub(super) document: Arc<Value>,
    /// Whether the policies in effect are known, and in the document.
    pub(super) has_policies: bool,
    pub(super) remarks: Vec<String>,
}

/// By the policies among the objects of files, of which `before` is one.
pub(super) fn among(
    objects: &ObjectSet,
    home_namespace: &str,
    before: &Arc<Value>,
    after: Value,
) -> Result<Promotion, AttachedError> {
    let (name, after) = (name_of(before), Arc::new(after));
    let with = |document: &Arc<Value>| {
        let replaced = |one: &Arc<Value>| Arc::clone(if Arc::ptr_eq(one, before) { document } else { one });
        let clusters = objects.clusters.iter().map(replaced).collect();
        judge(&ObjectSet { clusters, ..objects.clone() }, home_namespace).attached
    };
    let (now, then) = (with(before), with(&after));
    let in_effect = |attached: &AttachedPolicies| attached.in_effect.get(name).cloned().unwrap_or_default();
    let (now, in_effect_then) = (in_effect(&now), in_effect(&then));
    for (kind, part) in changed(before, &after) {
        if let Some(policy) = in_effect_then.iter().find(|one| decides(one, kind)) {
            return Err(AttachedError::Overridden { name: name.to_owned(), part, policy: title(policy) });
        }
    }
    let is_then = |one: &PolicyInEffect| in_effect_then.iter().any(|other| title(other) == title(one));
    let mut remarks = Vec::new();
    for policy in now.iter().filter(|one| !is_then(one)) {
        let policy_title = title(policy);
        match policy.role {
            PolicyRole::Decides => remarks.push(format!("{policy_title} yields to what is promoted")),
            PolicyRole::Tightens => {
                let why = refusal(&then, policy, name);
                return Err(AttachedError::LeftOut { name: name.to_owned(), policy: policy_title, why });
            }
        }
    }
    let tightening = in_effect_then.iter().filter(|one| one.role == PolicyRole::Tightens);
    remarks.extend(tightening.map(|one| format!("{} goes on to tighten what is promoted", title(one))));
    Ok(Promotion { document: with_policies(&after, &in_effect_then), has_policies: true, remarks })
}

/// By the conditions that the control plane wrote into the object's status.
pub(super) fn by_status(before: &Value, after: Value) -> Result<Promotion, AttachedError> {
    let conditions = before.pointer("/status/conditions").and_then(Value::as_array);
    let message = |kind: PolicyKind| {
        let is = |one: &Value, field: &str, value: &str| one.get(field).is_some_and(|found| found == value);
        let is_it = |one: &&Value| is(one, "type", kind.affected()) && is(one, "status", "True");
        conditions?.iter().find(is_it)?.get("message")?.as_str()
    };
    for (kind, part) in changed(before, &after) {
        if let Some(policy) = message(kind).and_then(overriding_policy) {
            let (name, policy) = (name_of(before).to_owned(), policy.to_owned());
            return Err(AttachedError::Overridden { name, part, policy });
        }
    }
    let attached: Vec<&str> = PolicyKind::ALL.into_iter().filter_map(message).collect();
    let remark =
        |which: &&str| format!("not checked with a policy that is attached, as -f does with its file: {which}");
    let remarks = attached.iter().map(remark).collect();
    Ok(Promotion { document: Arc::new(after), has_policies: attached.is_empty(), remarks })
}

/// The policy in effect whose dispatch policies only report, where the object itself has no shadow.
pub(super) fn of_policy(objects: &ObjectSet, home_namespace: &str, name: &str) -> Option<AttachedError> {
    let attached = judge(objects, home_namespace).attached;
    let is_shadow = |policy: &Value| policy.pointer("/portcullis/mode").is_some_and(|mode| mode == "Shadow");
    let reports = |one: &&PolicyInEffect| {
        let policies = one.fields.as_ref().ok().and_then(|fields| fields.get("dispatchPolicies")?.as_array());
        decides(one, PolicyKind::Dispatch) && policies.into_iter().flatten().any(is_shadow)
    };
    let policy = attached.in_effect.get(name)?.iter().find(reports)?;
    Some(AttachedError::OfPolicy { name: name.to_owned(), policy: title(policy) })
}

/// The parts of the specification that a promotion changes and that policies may have, each with their kind.
fn changed(before: &Value, after: &Value) -> Vec<(PolicyKind, &'static str)> {
    let parts = [(PolicyKind::Dispatch, "dispatchPolicies"), (PolicyKind::FlowControl, "flowControl")];
    let part_of = |document: &Value, part: &str| document.get("spec").and_then(|spec| spec.get(part)).cloned();
    parts.into_iter().filter(|(_, part)| part_of(before, part) != part_of(after, part)).collect()
}

fn decides(policy: &PolicyInEffect, kind: PolicyKind) -> bool {
    policy.kind == kind && policy.role == PolicyRole::Decides
}

fn title(policy: &PolicyInEffect) -> String {
    format!("{} {}", policy.kind, policy.policy)
}

/// The message of its condition at the object.
fn refusal(attached: &AttachedPolicies, policy: &PolicyInEffect, name: &str) -> String {
    let mut verdicts = attached.verdicts.iter();
    let verdict = verdicts.find(|one| one.kind == policy.kind && one.name.to_string() == policy.policy);
    let ancestors = verdict.into_iter().flat_map(|one| &one.ancestors).filter(|one| one.target.name == name);
    let refused = ancestors.flat_map(|one| &one.conditions).find(|one| !one.status);
    refused.map(|one| one.message.clone()).unwrap_or_default()
}
