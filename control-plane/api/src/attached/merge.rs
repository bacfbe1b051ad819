use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::origin::{AppliedPolicy, MEMBER, joined, written};
use super::tighten::{check_door_fields, tighten, tighten_at_door, tighten_known};
use super::tighten_error::TightenError;
use super::{PolicyInEffect, PolicyRole};
use crate::kind::PolicyKind;
use crate::packed::{pack_policies, unpacked};
use crate::parse::parse_part;
use crate::types::{DispatchFields, DispatchPolicy};

/// The document of an `UpstreamCluster` with these policies, and without any that it brings or had: it is the object's own document
/// that is given. Equal policies lead to equal documents.
#[must_use]
pub fn with_policies(document: &Arc<Value>, policies: &[PolicyInEffect]) -> Arc<Value> {
    let has_member = document.get("status").is_some_and(|status| status.get(MEMBER).is_some());
    if policies.is_empty() && !has_member {
        return Arc::clone(document);
    }
    let needs_list = policies.iter().any(|policy| policy.kind == PolicyKind::Dispatch);
    let (mut merged, is_packed) = match needs_list.then(|| unpacked(document)) {
        Some(Cow::Owned(unpacked)) => (unpacked, true),
        _ => (document.as_ref().clone(), false),
    };
    let mut ordered: Vec<&PolicyInEffect> = policies.iter().collect();
    ordered.sort_by_key(|policy| (policy.role, policy.kind));
    let mut applied: Vec<AppliedPolicy<'_>> = Vec::new();
    for policy in ordered {
        let Some((entries, dropped)) = apply(policy, &mut merged) else { continue };
        // Its denials are before those that are there.
        for earlier in &mut applied {
            earlier.first = earlier.first.saturating_add(entries);
        }
        applied.push(AppliedPolicy { policy, first: 0, entries, dropped });
    }
    put_member(&mut merged, (!applied.is_empty()).then(|| written(&applied)));
    if is_packed {
        pack_policies(&mut merged);
    }
    Arc::new(merged)
}

/// The document with one more policy that tightens.
///
/// # Errors
/// A policy that would not only tighten.
pub fn tightened(document: &Arc<Value>, kind: PolicyKind, fields: &Value) -> Result<Arc<Value>, TightenError> {
    let mut tightened = unpacked(document).into_owned();
    let spec = spec_of(&mut tightened).ok_or(TightenError::Unreadable)?;
    tighten(kind, spec, fields)?;
    Ok(Arc::new(tightened))
}

/// The document, or the rules of a `KubernetesUpstream`, with one more policy, of a door that leads to the object. The object's own
/// policies and their origins stay.
///
/// # Errors
/// A policy that would not only tighten.
pub fn behind_door(document: &Arc<Value>, policy: &PolicyInEffect) -> Result<Arc<Value>, TightenError> {
    behind_all_doors(document, [policy])
}

/// The same with policies of doors, the widest door's first: it is copied once. Without any it is the document itself.
///
/// # Errors
/// A policy that would not only tighten.
pub fn behind_all_doors<'a>(
    document: &Arc<Value>,
    policies: impl IntoIterator<Item = &'a PolicyInEffect>,
) -> Result<Arc<Value>, TightenError> {
    let mut policies = policies.into_iter().peekable();
    if policies.peek().is_none() {
        return Ok(Arc::clone(document));
    }
    let mut tightened = unpacked(document).into_owned();
    for policy in policies {
        let fields = policy.fields.as_ref().map_err(|_| TightenError::Unreadable)?;
        let spec = spec_of(&mut tightened).ok_or(TightenError::Unreadable)?;
        let entries = tighten_at_door(policy.kind, spec, fields)?;
        let origin = AppliedPolicy { policy, first: 0, entries, dropped: Vec::new() };
        let member = joined(&tightened, &origin);
        put_member(&mut tightened, Some(member));
    }
    Ok(Arc::new(tightened))
}

/// The denials that a policy of a door adds to the rules of each object behind that. Limits of the policy are none of it: they add
/// nothing.
///
/// # Errors
/// A policy that would not only tighten.
pub fn door_denials(policy: &PolicyInEffect) -> Result<Vec<DispatchPolicy>, TightenError> {
    let fields = policy.fields.as_ref().map_err(|_| TightenError::Unreadable)?;
    check_door_fields(policy.kind, fields)?;
    if policy.kind != PolicyKind::Dispatch {
        return Ok(Vec::new());
    }
    let DispatchFields { dispatch_policies } = parse_part(fields).ok_or(TightenError::Unreadable)?;
    Ok(dispatch_policies)
}

/// Whether the document has fields of a kind itself.
pub fn has_fields(document: &Value, kind: PolicyKind) -> bool {
    let document = if kind == PolicyKind::Dispatch { unpacked(document) } else { Cow::Borrowed(document) };
    let Some(spec) = document.get("spec") else { return false };
    kind.fields().iter().any(|(field, is_ours)| {
        let parent = if *is_ours { spec.get("portcullis") } else { Some(spec) };
        parent.and_then(|parent| parent.get(*field)).is_some_and(is_set)
    })
}

/// An empty object, and one of empty lists, says nothing.
pub(crate) fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.values().any(is_set),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Returns the number of dispatch policies that it put at the beginning, and the paths of the object's own fields that it has no other
/// value for; none if it changed nothing.
fn apply(policy: &PolicyInEffect, document: &mut Value) -> Option<(usize, Vec<String>)> {
    let Ok(fields) = &policy.fields else { return Some((0, Vec::new())) };
    let spec = spec_of(document)?;
    match policy.role {
        PolicyRole::Decides => {
            let dropped = replace(policy.kind, spec, fields);
            let policies = spec.get("dispatchPolicies").and_then(Value::as_array).map_or(0, Vec::len);
            Some((if policy.kind == PolicyKind::Dispatch { policies } else { 0 }, dropped))
        }
        PolicyRole::Tightens => tighten_known(policy.kind, spec, fields).ok().map(|entries| (entries, Vec::new())),
    }
}

/// Puts all fields of a kind in the place of those that are there: none is joined. Returns the paths of those that are dropped.
fn replace(kind: PolicyKind, spec: &mut Map<String, Value>, fields: &Value) -> Vec<String> {
    let mut dropped = Vec::new();
    for (field, is_ours) in kind.fields() {
        let value = fields.get(*field).filter(|value| !value.is_null()).cloned();
        let parent = if *is_ours {
            let ours = spec.entry("portcullis").or_insert_with(|| json!({}));
            if ours.is_null() {
                *ours = json!({});
            }
            // Another shape is refused when the object is read.
            let Some(ours) = ours.as_object_mut() else { continue };
            ours
        } else {
            &mut *spec
        };
        match value {
            Some(value) => drop(parent.insert((*field).to_owned(), value)),
            None => {
                if parent.remove(*field).is_some_and(|own| is_set(&own)) {
                    let parent = if *is_ours { "spec.portcullis" } else { "spec" };
                    dropped.push(format!("{parent}.{field}"));
                }
            }
        }
    }
    dropped
}

fn spec_of(document: &mut Value) -> Option<&mut Map<String, Value>> {
    document.get_mut("spec").and_then(Value::as_object_mut)
}

/// A status that has nothing else goes, too.
fn put_member(document: &mut Value, member: Option<Value>) {
    let Some(fields) = document.as_object_mut() else { return };
    if let Some(member) = member {
        let status = fields.entry("status").or_insert_with(|| json!({}));
        if !status.is_object() {
            *status = json!({});
        }
        if let Some(status) = status.as_object_mut() {
            status.insert(MEMBER.to_owned(), member);
        }
        return;
    }
    let Some(status) = fields.get_mut("status").and_then(Value::as_object_mut) else { return };
    if status.remove(MEMBER).is_some() && status.is_empty() {
        fields.remove("status");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attached::{origin_of, origins};
    use crate::{check_cluster, parse_cluster};

    fn rules() -> Value {
        json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])
    }

    fn cluster(spec: &Value) -> Arc<Value> {
        let mut whole = json!({
            "servers": [{"endpoint": "https://10.0.0.1"}, {"endpoint": "https://10.0.0.2"}],
            "clientConfig": {"insecure": true, "bearerToken": "YQ=="},
            "dispatchPolicies": [{"rules": rules()}],
        });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        Arc::new(json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a.test"}, "spec": whole,
        }))
    }

    fn decides(kind: PolicyKind, fields: Value) -> PolicyInEffect {
        PolicyInEffect {
            kind,
            policy: "portcullis/x".to_owned(),
            uid: None,
            role: PolicyRole::Decides,
            why: "overrides".to_owned(),
            fields: Ok(Arc::new(fields)),
        }
    }

    #[test]
    fn both_ways_lead_to_one_checked_form() {
        let dispatch =
            json!([{"rules": rules(), "upstreamSubset": ["https://10.0.0.2"], "flowControlSchemaName": "few"}]);
        let flow = json!({"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 3}}]});
        let queues = json!([{"name": "fair", "max": 2}]);
        let users = json!({"allowAnonymous": false, "credentialCache": {"tokenTTL": "1s"}});
        let mut ours = users.clone();
        ours["fairQueues"] = queues.clone();
        let inline = cluster(&json!({"dispatchPolicies": dispatch, "flowControl": flow, "portcullis": ours}));
        let policies = [
            decides(PolicyKind::UpstreamIdentity, users),
            decides(PolicyKind::FlowControl, json!({"flowControl": flow, "fairQueues": queues})),
            decides(PolicyKind::Dispatch, json!({"dispatchPolicies": dispatch})),
        ];
        let other = json!({"schemas": [{"name": "many", "exempt": {}}]});
        let other =
            cluster(&json!({"flowControl": other, "portcullis": {"allowAnonymous": true, "auditAttribution": true}}));
        let checked = |document: &Value| {
            format!("{:?}", check_cluster(&parse_cluster(document).unwrap(), false).outcome.unwrap())
        };
        for is_packed in [false, true] {
            let mut own = other.as_ref().clone();
            if is_packed {
                pack_policies(&mut own);
            }
            let own = Arc::new(own);
            let merged = with_policies(&own, &policies);
            assert_eq!(checked(&merged), checked(&inline));
            assert_eq!(origins(&merged).len(), 3);
            assert_eq!(merged.get("spec").unwrap().get("dispatchPolicies").is_none(), is_packed);
            assert_eq!(with_policies(&merged, &[]).get("status").is_some(), is_packed);
            assert!(Arc::ptr_eq(&with_policies(&own, &[]), &own));
        }
    }

    #[test]
    fn policy_that_cannot_be_used_refuses_its_object() {
        let refused =
            PolicyInEffect { fields: Err("spec: no".to_owned()), ..decides(PolicyKind::FlowControl, json!({})) };
        let merged = with_policies(&cluster(&json!({})), &[refused]);
        let problems = check_cluster(&parse_cluster(&merged).unwrap(), false).outcome.unwrap_err();
        assert!(
            problems[0].message.contains("FlowControlPolicy portcullis/x") && problems[0].message.contains("spec: no")
        );
    }

    #[test]
    fn problem_of_a_policys_field_names_the_policy() {
        let wrong = decides(
            PolicyKind::Dispatch,
            json!({"dispatchPolicies": [{"rules": rules(), "upstreamSubset": ["https://10.9.9.9"]}]}),
        );
        let merged = with_policies(&cluster(&json!({"logging": {"mode": "x"}})), &[wrong]);
        let problems = check_cluster(&parse_cluster(&merged).unwrap(), false).outcome.unwrap_err();
        let told: Vec<_> = problems
            .iter()
            .map(|one| (one.path.as_str(), one.message.starts_with("of DispatchPolicy portcullis/x: ")))
            .collect();
        assert_eq!(told, [("spec.logging.mode", false), ("spec.dispatchPolicies[0].upstreamSubset[0]", true)]);
    }

    #[test]
    fn each_denial_is_of_the_policy_that_it_came_from() {
        let denial =
            json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}], "portcullis": {"action": "Deny"}});
        let tightens = |policy: &str, count: usize| PolicyInEffect {
            policy: policy.to_owned(),
            role: PolicyRole::Tightens,
            ..decides(PolicyKind::Dispatch, json!({"dispatchPolicies": vec![denial.clone(); count]}))
        };
        let base = decides(PolicyKind::Dispatch, json!({"dispatchPolicies": [{"rules": rules()}]}));
        let merged = with_policies(&cluster(&json!({})), &[base, tightens("a/x", 1), tightens("b/x", 2)]);
        let origins = origins(&merged);
        let of = |index: usize| origin_of(&origins, &format!("spec.dispatchPolicies[{index}].rules")).unwrap();
        let found: Vec<&str> = (0..4).map(|index| of(index).policy.as_str()).collect();
        assert_eq!(found, ["b/x", "b/x", "a/x", "portcullis/x"]);
    }

    #[test]
    fn own_field_that_a_policy_drops_is_a_warning() {
        let own = json!({"portcullis": {
            "allowAnonymous": false, "tokens": {"audiences": ["a"]}, "forwardedExtras": [], "auditAttribution": true,
        }});
        let warnings = |policies: &[PolicyInEffect]| {
            let merged = with_policies(&cluster(&own), policies);
            let warnings = check_cluster(&parse_cluster(&merged).unwrap(), false).warnings;
            let dropped = warnings.into_iter().filter(|one| one.message.contains("no such field"));
            dropped.map(|one| one.path).collect::<Vec<_>>()
        };
        let policy = decides(PolicyKind::UpstreamIdentity, json!({"auditAttribution": false}));
        assert_eq!(warnings(&[policy]), ["spec.portcullis.allowAnonymous", "spec.portcullis.tokens"]);
        let policy = decides(PolicyKind::FlowControl, json!({"fairQueues": [{"name": "fair", "max": 2}]}));
        assert_eq!(warnings(&[policy]), [""; 0]);
    }

    #[test]
    fn fields_of_the_object_itself_are_found() {
        for (spec, kind, expected) in [
            (json!({}), PolicyKind::Dispatch, true),
            (json!({"dispatchPolicies": []}), PolicyKind::Dispatch, false),
            (json!({}), PolicyKind::FlowControl, false),
            (json!({"flowControl": {"schemas": []}}), PolicyKind::FlowControl, false),
            (json!({"flowControl": {"schemas": [{"name": "a", "exempt": {}}]}}), PolicyKind::FlowControl, true),
            (json!({"portcullis": {"fairQueues": [{"name": "a", "max": 1}]}}), PolicyKind::FlowControl, true),
            (json!({"portcullis": {"drainPeriod": "1s"}}), PolicyKind::UpstreamIdentity, false),
            (json!({"portcullis": {"allowAnonymous": true}}), PolicyKind::UpstreamIdentity, true),
        ] {
            let mut document = cluster(&spec).as_ref().clone();
            assert_eq!(has_fields(&document, kind), expected, "{spec}");
            pack_policies(&mut document);
            assert_eq!(has_fields(&document, kind), expected, "{spec}, packed");
        }
    }
}
