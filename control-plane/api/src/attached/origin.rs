use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{PolicyInEffect, PolicyRole};
use crate::kind::PolicyKind;
use crate::problem::Problem;
use crate::types::UpstreamCluster;

/// The member of `status`.
pub(super) const MEMBER: &str = "attachedPolicies";

/// The origin of fields of an `UpstreamCluster` that are not its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldOrigin {
    /// The kind of the policy.
    pub kind: PolicyKind,
    /// Its namespace and name.
    pub policy: String,
    /// Its part.
    pub role: PolicyRole,
    /// The reason for which it is this one.
    pub why: String,
    /// The number of the first of its dispatch policies, if it tightens.
    pub first: usize,
    /// The number of its dispatch policies, which follow each other in the list; 0 of another kind.
    pub entries: usize,
    /// The reason for which the object is refused.
    pub refusal: Option<String>,
    /// The paths of the object's own fields in whose place it has none.
    pub dropped: Vec<String>,
}

/// A policy in a document, and what it did to that.
pub(super) struct AppliedPolicy<'a> {
    pub(super) policy: &'a PolicyInEffect,
    /// The number of dispatch policies that were put before its own.
    pub(super) first: usize,
    /// The number of its dispatch policies.
    pub(super) entries: usize,
    /// The paths of the object's own fields in whose place it has none.
    pub(super) dropped: Vec<String>,
}

/// The member for these policies.
pub(super) fn written(policies: &[AppliedPolicy<'_>]) -> Value {
    let one = |AppliedPolicy { policy, first, entries, dropped }: &AppliedPolicy<'_>| {
        json!({
            "kind": policy.kind.as_str(),
            "policy": policy.policy,
            "uid": policy.uid,
            "role": policy.role.as_str(),
            "why": policy.why,
            "first": first,
            "entries": entries,
            "refusal": policy.fields.as_ref().err(),
            "dropped": dropped,
        })
    };
    policies.iter().map(one).collect()
}

/// The member of a document with one more policy, whose dispatch policies are before those that are there.
pub(super) fn joined(document: &Value, policy: &AppliedPolicy<'_>) -> Value {
    let known = document.get("status").and_then(|status| status.get(MEMBER)).and_then(Value::as_array);
    let shifted = known.into_iter().flatten().cloned().map(|mut origin| {
        if let Some(first) = origin.get_mut("first") {
            *first = json!(first.as_u64().unwrap_or_default().saturating_add(policy.entries as u64));
        }
        origin
    });
    shifted.chain(written(std::slice::from_ref(policy)).as_array().cloned().unwrap_or_default()).collect()
}

/// The origins of the fields of a document that [`super::with_policies`] made.
pub fn origins(document: &Value) -> Vec<FieldOrigin> {
    document.get("status").map(read).unwrap_or_default()
}

/// The same of an object that was read.
pub(crate) fn origins_of(raw: &UpstreamCluster) -> Vec<FieldOrigin> {
    raw.status.as_ref().map(read).unwrap_or_default()
}

fn read(status: &Value) -> Vec<FieldOrigin> {
    let one = |origin: &Value| {
        let text = |field: &str| origin.get(field).and_then(Value::as_str);
        let number = |field: &str| origin.get(field).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        Some(FieldOrigin {
            kind: PolicyKind::ALL.into_iter().find(|kind| Some(kind.as_str()) == text("kind"))?,
            policy: text("policy")?.to_owned(),
            role: [PolicyRole::Decides, PolicyRole::Tightens]
                .into_iter()
                .find(|role| Some(role.as_str()) == text("role"))?,
            why: text("why")?.to_owned(),
            first: number("first")?,
            entries: number("entries")?,
            refusal: text("refusal").map(str::to_owned),
            dropped: dropped(origin),
        })
    };
    status.get(MEMBER).and_then(Value::as_array).into_iter().flatten().filter_map(one).collect()
}

/// The same document, refused because of policies in it: each for which there is a reason. `None` if there is none.
pub fn refused_by_policies(document: &Value, why: impl Fn(&FieldOrigin) -> Option<String>) -> Option<Value> {
    let reasons: Vec<Option<String>> = origins(document).iter().map(why).collect();
    if reasons.iter().all(Option::is_none) {
        return None;
    }
    let mut refused = document.clone();
    let members = refused.get_mut("status")?.get_mut(MEMBER)?.as_array_mut()?;
    for (member, reason) in members.iter_mut().zip(reasons) {
        if let (Some(fields), Some(reason)) = (member.as_object_mut(), reason) {
            fields.insert("refusal".to_owned(), Value::String(reason));
        }
    }
    Some(refused)
}

fn dropped(origin: &Value) -> Vec<String> {
    let paths = origin.get("dropped").and_then(Value::as_array).into_iter().flatten();
    paths.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Adds the policy to the message about each field that is its own: its author is another one than the object's.
pub(crate) fn explain_origins(origins: &[FieldOrigin], problems: &mut [Problem]) {
    for problem in problems {
        let of = origin_of(origins, &problem.path);
        if let Some(FieldOrigin { kind, policy, .. }) = of {
            problem.message = format!("of {kind} {policy}: {}", problem.message);
        }
    }
}

/// The numbers of the dispatch policies that are of policies which tighten: nothing takes their place.
pub(crate) fn tightening(origins: &[FieldOrigin]) -> BTreeSet<usize> {
    let denials = origins.iter().filter(|one| (one.role, one.kind) == (PolicyRole::Tightens, PolicyKind::Dispatch));
    denials.flat_map(|one| one.first..one.first.saturating_add(one.entries)).collect()
}

/// The policy of which the field at a path is; `None` if it is the object's own.
pub fn origin_of<'a>(origins: &'a [FieldOrigin], path: &str) -> Option<&'a FieldOrigin> {
    // The first of its dispatch policies are of those that tighten, if there are any.
    origins.iter().filter(|origin| origin.is_of(path)).max_by_key(|origin| origin.role)
}

impl FieldOrigin {
    /// Whether the field at a path is the policy's.
    pub fn is_of(&self, path: &str) -> bool {
        let below = path.strip_prefix("spec.").unwrap_or_default();
        let (field, is_ours) = match below.strip_prefix("portcullis.") {
            Some(field) => (field, true),
            None => (below, false),
        };
        let mut steps = field.split(['.', '[', ']']);
        let name = steps.next().unwrap_or_default();
        if !self.kind.fields().contains(&(name, is_ours)) {
            return false;
        }
        match (self.role, self.kind, steps.next().map(str::parse::<usize>)) {
            (PolicyRole::Decides, _, _) => true,
            (PolicyRole::Tightens, PolicyKind::Dispatch, Some(Ok(index))) => {
                index.checked_sub(self.first).is_some_and(|index| index < self.entries)
            }
            (PolicyRole::Tightens, _, _) => false,
        }
    }
}
