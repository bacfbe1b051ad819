//! Effects of a policy that tightens on an `UpstreamCluster`: it can only take away. It is of another namespace, or attached to a
//! door: a Gateway, a listener or a route by which requests get to the cluster.
//!
//! - Its dispatch policies deny, and are asked before the others. A request that none of them matches is judged as it would be
//!   without them.
//! - Its limits of requests in flight are the lower ones of both, by the names of those that are there. A token bucket stays: another
//!   rate is another bucket, and a full one, so that each edit would let in a burst more.
//! - It says nothing about users.
//!
//! A profile of the object is no way around it: denials stay before the profile's policies, and limits of the object's own profiles are
//! lowered by the same names. A shadow of the object is tightened, too, so that it is compared as it would decide.

use serde_json::{Map, Value};

use super::lower::{door_limits, lower, lower_known};
use super::tighten_error::TightenError;
use crate::kind::PolicyKind;
use crate::parse::parse_part;
use crate::types::{DispatchFields, DispatchPolicy, FlowControlSchema};

/// Tightens a specification. Returns the number of dispatch policies that were put first.
pub(super) fn tighten(kind: PolicyKind, spec: &mut Map<String, Value>, fields: &Value) -> Result<usize, TightenError> {
    match kind {
        PolicyKind::Dispatch => {
            let entries = deny(spec, fields)?;
            deny_in_shadow(spec, fields);
            Ok(entries)
        }
        PolicyKind::FlowControl => {
            lower(spec, fields)?;
            let limits = door_limits(fields)?;
            lower_in_profiles(spec, &limits)?;
            lower_in_shadow(spec, &limits)?;
            Ok(0)
        }
        PolicyKind::UpstreamIdentity => Err(TightenError::Identity),
    }
}

/// Checks the fields of a policy at a door, whatever clusters are behind that.
///
/// # Errors
/// A policy that would not only tighten.
pub fn check_door_fields(kind: PolicyKind, fields: &Value) -> Result<(), TightenError> {
    match kind {
        PolicyKind::Dispatch => only_denies(fields),
        PolicyKind::FlowControl => door_limits(fields).map(drop),
        PolicyKind::UpstreamIdentity => Err(TightenError::Identity),
    }
}

/// Tightens a specification by a policy of a door. Limits that are not there stay so: other clusters behind the door may have them.
pub(super) fn tighten_at_door(
    kind: PolicyKind,
    spec: &mut Map<String, Value>,
    fields: &Value,
) -> Result<usize, TightenError> {
    check_door_fields(kind, fields)?;
    if kind == PolicyKind::Dispatch {
        return deny(spec, fields);
    }
    let limits = door_limits(fields)?;
    lower_known(spec, &limits)?;
    lower_in_profiles(spec, &limits)?;
    Ok(0)
}

/// Tightens a specification and its shadow by a policy that is in effect on the object. One that holds until its new place has it may
/// have limits that the object has no more: the others hold.
pub(super) fn tighten_known(
    kind: PolicyKind,
    spec: &mut Map<String, Value>,
    fields: &Value,
) -> Result<usize, TightenError> {
    let entries = tighten_at_door(kind, spec, fields)?;
    if kind == PolicyKind::Dispatch {
        deny_in_shadow(spec, fields);
    } else {
        lower_in_shadow(spec, &door_limits(fields)?)?;
    }
    Ok(entries)
}

/// Lowers the limits of the object's own profiles by their names: one that takes the place of the specification gives nothing back.
fn lower_in_profiles(spec: &mut Map<String, Value>, limits: &[FlowControlSchema]) -> Result<(), TightenError> {
    let profiles = spec.get_mut("portcullis").and_then(|ours| ours.get_mut("profiles")).and_then(Value::as_array_mut);
    for profile in profiles.into_iter().flatten().filter_map(Value::as_object_mut) {
        lower_known(profile, limits)?;
    }
    Ok(())
}

/// The alternative that only reports. Once it decides the policy is in effect on it.
fn shadow_of(spec: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    spec.get_mut("portcullis")?.get_mut("shadow")?.as_object_mut()
}

fn lower_in_shadow(spec: &mut Map<String, Value>, limits: &[FlowControlSchema]) -> Result<(), TightenError> {
    shadow_of(spec).map_or(Ok(()), |shadow| lower_known(shadow, limits))
}

/// One without dispatch policies of its own has those of the specification.
fn deny_in_shadow(spec: &mut Map<String, Value>, fields: &Value) {
    let first = fields.get("dispatchPolicies").and_then(Value::as_array);
    let all = shadow_of(spec).and_then(|shadow| shadow.get_mut("dispatchPolicies")).and_then(Value::as_array_mut);
    if let (Some(first), Some(all)) = (first, all) {
        all.splice(..0, first.iter().cloned());
    }
}

fn only_denies(fields: &Value) -> Result<(), TightenError> {
    let DispatchFields { dispatch_policies } = parse_part(fields).ok_or(TightenError::Unreadable)?;
    for (index, policy) in dispatch_policies.iter().enumerate() {
        let DispatchPolicy { portcullis, .. } = policy;
        if !policy.denies() {
            return Err(TightenError::NoDenial(index));
        }
        if portcullis.force || policy.is_shadow() {
            return Err(TightenError::Extended(index));
        }
    }
    Ok(())
}

fn deny(spec: &mut Map<String, Value>, fields: &Value) -> Result<usize, TightenError> {
    only_denies(fields)?;
    let first = fields.get("dispatchPolicies").and_then(Value::as_array).ok_or(TightenError::Unreadable)?;
    let all = spec.get_mut("dispatchPolicies").and_then(Value::as_array_mut).ok_or(TightenError::Unreadable)?;
    all.splice(..0, first.iter().cloned());
    Ok(first.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn inflight(name: &str, max: i32) -> Value {
        json!({"name": name, "maxRequestsInflight": {"max": max}})
    }

    fn spec() -> Map<String, Value> {
        let rules = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        let spec = json!({
            "dispatchPolicies": [{"rules": rules}],
            "flowControl": {"schemas": [
                inflight("few", 5), {"name": "rate", "tokenBucket": {"qps": 10, "burst": 20}, "counts": "Watches"},
                {"name": "free", "exempt": {}},
                {"name": "shared", "strategy": "globalCount", "maxRequestsInflight": {"max": 5}, "globalMaxRequestsInflight": {"max": 50}},
            ]},
        });
        spec.as_object().unwrap().clone()
    }

    #[test]
    fn policy_of_another_namespace_only_tightens() {
        use PolicyKind::{Dispatch, FlowControl, UpstreamIdentity};
        let entry = |portcullis: Value| json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}], "portcullis": portcullis});
        let limit = |schema: Value| json!({"flowControl": {"flowControlSchemas": [schema]}});
        let other = |name: &str| Err(TightenError::OtherLimit(name.to_owned()));
        let deny = json!({"action": "Deny"});
        for (kind, fields, expected) in [
            (Dispatch, json!({"dispatchPolicies": [entry(deny.clone())]}), Ok(1)),
            (
                Dispatch,
                json!({"dispatchPolicies": [entry(deny.clone()), entry(json!({}))]}),
                Err(TightenError::NoDenial(1)),
            ),
            (
                Dispatch,
                json!({"dispatchPolicies": [entry(json!({"action": "Deny", "force": true}))]}),
                Err(TightenError::Extended(0)),
            ),
            (
                Dispatch,
                json!({"dispatchPolicies": [entry(json!({"action": "Deny", "mode": "Shadow"}))]}),
                Err(TightenError::Extended(0)),
            ),
            (Dispatch, json!({"dispatchPolicies": 5}), Err(TightenError::Unreadable)),
            (FlowControl, limit(inflight("few", 3)), Ok(0)),
            (FlowControl, limit(inflight("few", 300)), Ok(0)),
            (FlowControl, limit(inflight("few", 0)), other("few")),
            (FlowControl, limit(inflight("new", 3)), Err(TightenError::UnknownSchema("new".to_owned()))),
            (FlowControl, limit(inflight("free", 3)), other("free")),
            (FlowControl, limit(inflight("rate", 3)), other("rate")),
            (
                FlowControl,
                limit(json!({"name": "rate", "tokenBucket": {"qps": 1, "burst": 1}})),
                Err(TightenError::Bucket("rate".to_owned())),
            ),
            (
                FlowControl,
                limit(
                    json!({"name": "shared", "maxRequestsInflight": {"max": 3}, "globalTokenBucket": {"qps": 1, "burst": 1}}),
                ),
                Err(TightenError::Bucket("shared".to_owned())),
            ),
            (FlowControl, limit(json!({"name": "few", "exempt": {}})), other("few")),
            (
                FlowControl,
                limit(json!({"name": "few", "maxRequestsInflight": {"max": 3}, "counts": "Watches"})),
                other("few"),
            ),
            (FlowControl, limit(json!({"name": "few", "maxRequestsInflight": {"max": 3}, "counts": "All"})), Ok(0)),
            (
                FlowControl,
                limit(json!({"name": "few", "maxRequestsInflight": {"max": 3}, "strategy": "local"})),
                other("few"),
            ),
            (
                FlowControl,
                limit(
                    json!({"name": "few", "maxRequestsInflight": {"max": 3}, "globalMaxRequestsInflight": {"max": 3}}),
                ),
                other("few"),
            ),
            (FlowControl, json!({"fairQueues": [{"name": "q", "max": 100}]}), Err(TightenError::Queues)),
            (UpstreamIdentity, json!({"allowAnonymous": false}), Err(TightenError::Identity)),
        ] {
            assert_eq!(tighten(kind, &mut spec(), &fields), expected, "{kind} {fields}");
        }
    }

    #[test]
    fn denials_come_first_and_the_rest_stays() {
        let mut tight = spec();
        let denial =
            json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}], "portcullis": {"action": "Deny"}});
        tighten(PolicyKind::Dispatch, &mut tight, &json!({"dispatchPolicies": [denial]})).unwrap();
        let mut expected = spec();
        expected["dispatchPolicies"].as_array_mut().unwrap().insert(0, denial);
        assert_eq!(tight, expected);
    }

    /// The alternative is what would decide: a policy that tightens is in effect on that, too.
    #[test]
    fn shadow_is_tightened_as_what_decides() {
        let denial =
            json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}], "portcullis": {"action": "Deny"}});
        let denies = json!({"dispatchPolicies": [denial]});
        let lowers = json!({"flowControl": {"flowControlSchemas": [inflight("few", 3)]}});
        let own = json!([{"rules": [{"verbs": ["*"], "nonResourceURLs": ["/own"]}]}]);
        let limits = |max: i32| json!({"flowControlSchemas": [inflight("few", max), inflight("more", 9)]});
        for (shadow, kind, fields, expected) in [
            (json!({"dispatchPolicies": own}), PolicyKind::Dispatch, &denies, json!([denial, own[0]])),
            (json!({"flowControl": limits(7)}), PolicyKind::Dispatch, &denies, Value::Null),
            (json!({"access": {}}), PolicyKind::Dispatch, &denies, Value::Null),
            (json!({"flowControl": limits(7)}), PolicyKind::FlowControl, &lowers, limits(3)),
            (json!({"flowControl": limits(2)}), PolicyKind::FlowControl, &lowers, limits(2)),
            (json!({"dispatchPolicies": own}), PolicyKind::FlowControl, &lowers, Value::Null),
        ] {
            for tightened in [tighten, tighten_known] {
                let mut tight = spec();
                tight.insert("portcullis".to_owned(), json!({"shadow": shadow}));
                tightened(kind, &mut tight, fields).unwrap();
                let field = if kind == PolicyKind::Dispatch { "dispatchPolicies" } else { "flowControl" };
                let found = tight["portcullis"]["shadow"].get(field).cloned().unwrap_or_default();
                assert_eq!(found, expected, "{shadow} {kind}");
            }
        }
    }

    fn drawn() -> impl Strategy<Value = Value> {
        let name = prop::sample::select(vec!["few", "rate", "free", "shared", "new"]);
        (name, -1..60_i32, 0..30_i32, prop::option::of(0..60_i32), 0..3_u8).prop_map(
            |(name, max, more, global, kind)| {
                let mut schema = match kind {
                    0 => json!({"name": name, "tokenBucket": {"qps": max, "burst": max.saturating_add(more)}}),
                    1 => json!({"name": name, "exempt": {}}),
                    _ => inflight(name, max),
                };
                if let Some(global) = global {
                    schema["globalMaxRequestsInflight"] = json!({"max": global});
                }
                schema
            },
        )
    }

    /// Each number of each limit.
    fn numbers(spec: &Map<String, Value>) -> Vec<(String, i64)> {
        let mut all = Vec::new();
        for schema in spec["flowControl"]["schemas"].as_array().unwrap() {
            for field in ["maxRequestsInflight", "tokenBucket", "globalMaxRequestsInflight", "globalTokenBucket"] {
                for (name, value) in schema.get(field).and_then(Value::as_object).into_iter().flatten() {
                    all.push((format!("{}.{field}.{name}", schema["name"]), value.as_i64().unwrap()));
                }
            }
        }
        all
    }

    proptest! {
        #[test]
        fn no_limit_is_higher_than_without_the_policy(schemas in prop::collection::vec(drawn(), 0..4)) {
            let (before, mut after) = (spec(), spec());
            let fields = json!({"flowControl": {"flowControlSchemas": schemas}});
            let outcome = tighten(PolicyKind::FlowControl, &mut after, &fields);
            if outcome.is_ok() {
                let (before, after) = (numbers(&before), numbers(&after));
                prop_assert_eq!(before.len(), after.len());
                for ((name, before), (same, after)) in before.iter().zip(&after) {
                    prop_assert!(name == same && after <= before && *after >= 1, "{} {} {}", name, before, after);
                }
            }
        }
    }
}
