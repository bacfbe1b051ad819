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
//! lowered by the same names.

use serde_json::{Map, Value, json};

use crate::kind::PolicyKind;
use crate::parse::{parse_part, without_nulls};
use crate::types::{
    DispatchFields, DispatchPolicy, FlowControl, FlowControlFields, FlowControlSchema, MaxRequestsInflight,
};

/// Why a policy would not only tighten. Its author has to change it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TightenError {
    /// Its fields or those of the object cannot be read.
    #[error("the fields cannot be read")]
    Unreadable,
    /// It decides about users.
    #[error("identities are decided at the UpstreamCluster, in the control plane's own namespace alone")]
    Identity,
    /// A dispatch policy that does not deny.
    #[error("dispatchPolicies[{0}]: a policy that tightens can only deny (action: Deny)")]
    NoDenial(usize),
    /// A dispatch policy that takes the heartbeats of kubelets knowingly, or only reports.
    #[error("dispatchPolicies[{0}]: force and mode are for policies that decide")]
    Extended(usize),
    /// Queues, which could let in more.
    #[error("fairQueues are for policies that decide")]
    Queues,
    /// A limit that is not there.
    #[error("flowControlSchemas: {0} is not one of the UpstreamCluster's")]
    UnknownSchema(String),
    /// A limit that is none, or another one than that which is there.
    #[error("flowControlSchemas: {0} has to limit the same as that of the UpstreamCluster, from 1 on")]
    OtherLimit(String),
    /// A limit at a door that lowers none of requests in flight.
    #[error("flowControlSchemas: {0} has to be of maxRequestsInflight, from 1 on, without exempt and strategy")]
    NoLimit(String),
    /// A rate.
    #[error(
        "flowControlSchemas: {0} is a token bucket, and another rate would fill it: these are for policies that decide"
    )]
    Bucket(String),
}

/// Tightens a specification. Returns the number of dispatch policies that were put first.
pub(super) fn tighten(kind: PolicyKind, spec: &mut Map<String, Value>, fields: &Value) -> Result<usize, TightenError> {
    match kind {
        PolicyKind::Dispatch => deny(spec, fields),
        PolicyKind::FlowControl => {
            lower(spec, fields)?;
            lower_in_profiles(spec, fields)?;
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
    lower_known(spec, fields)?;
    lower_in_profiles(spec, fields)?;
    Ok(0)
}

/// Lowers the limits of the object's own profiles by their names: one that takes the place of the specification gives nothing back.
fn lower_in_profiles(spec: &mut Map<String, Value>, fields: &Value) -> Result<(), TightenError> {
    let profiles = spec.get_mut("portcullis").and_then(|ours| ours.get_mut("profiles")).and_then(Value::as_array_mut);
    for profile in profiles.into_iter().flatten().filter_map(Value::as_object_mut) {
        lower_known(profile, fields)?;
    }
    Ok(())
}

/// Lowers the limits of a specification or a profile that are there.
fn lower_known(part: &mut Map<String, Value>, fields: &Value) -> Result<(), TightenError> {
    let Some(present) = part.get("flowControl").filter(|present| !present.is_null()) else { return Ok(()) };
    let known: FlowControl = parse_part(present).ok_or(TightenError::Unreadable)?;
    let find = |name: &str| known.flow_control_schemas.iter().find(|one| one.name == name);
    let mut limits = door_limits(fields)?;
    limits.retain_mut(|limit| {
        let Some(known) = find(&limit.name) else { return false };
        if known.global_max_requests_inflight.is_none() {
            limit.global_max_requests_inflight = None;
        }
        lowered(known, limit).is_some()
    });
    let written = limits.into_iter().map(|limit| {
        let max = |limit: &Option<MaxRequestsInflight>| limit.as_ref().map(|limit| json!({"max": limit.max}));
        json!({
            "name": limit.name,
            "maxRequestsInflight": max(&limit.max_requests_inflight),
            "globalMaxRequestsInflight": max(&limit.global_max_requests_inflight),
        })
    });
    let comparable = json!({"flowControl": {"flowControlSchemas": written.collect::<Vec<_>>()}});
    lower(part, &without_nulls(&comparable))
}

fn door_limits(fields: &Value) -> Result<Vec<FlowControlSchema>, TightenError> {
    let FlowControlFields { flow_control, fair_queues } = parse_part(fields).ok_or(TightenError::Unreadable)?;
    if !fair_queues.is_empty() {
        return Err(TightenError::Queues);
    }
    for schema in &flow_control.flow_control_schemas {
        if schema.token_bucket.is_some() || schema.global_token_bucket.is_some() {
            return Err(TightenError::Bucket(schema.name.clone()));
        }
        let is_limit = |limit: &MaxRequestsInflight| limit.max >= 1;
        let lowers = schema.max_requests_inflight.as_ref().is_some_and(is_limit)
            && schema.global_max_requests_inflight.as_ref().is_none_or(is_limit)
            && schema.exempt.is_none()
            && schema.strategy.is_empty();
        if !lowers {
            return Err(TightenError::NoLimit(schema.name.clone()));
        }
    }
    Ok(flow_control.flow_control_schemas)
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

fn lower(spec: &mut Map<String, Value>, fields: &Value) -> Result<(), TightenError> {
    let FlowControlFields { flow_control, fair_queues } = parse_part(fields).ok_or(TightenError::Unreadable)?;
    if !fair_queues.is_empty() {
        return Err(TightenError::Queues);
    }
    let unknown = |schema: &FlowControlSchema| TightenError::UnknownSchema(schema.name.clone());
    let Some(present) = spec.get_mut("flowControl").filter(|present| !present.is_null()) else {
        return flow_control.flow_control_schemas.first().map(unknown).map_or(Ok(()), Err);
    };
    let known: FlowControl = parse_part(present).ok_or(TightenError::Unreadable)?;
    let present = present.as_object_mut().ok_or(TightenError::Unreadable)?;
    let list = ["flowControlSchemas", "schemas"].into_iter().find(|name| present.contains_key(*name));
    let list = list.and_then(|name| present.get_mut(name)).and_then(Value::as_array_mut);
    let mut list: Vec<&mut Value> = list.into_iter().flatten().collect();
    let mut all = Vec::new();
    for schema in &flow_control.flow_control_schemas {
        let mut present = known.flow_control_schemas.iter().enumerate();
        let (index, known) = present.find(|(_, one)| one.name == schema.name).ok_or_else(|| unknown(schema))?;
        if schema.token_bucket.is_some() || schema.global_token_bucket.is_some() {
            return Err(TightenError::Bucket(schema.name.clone()));
        }
        let lowered = lowered(known, schema).ok_or_else(|| TightenError::OtherLimit(schema.name.clone()))?;
        all.push((index, lowered));
    }
    for (index, lowered) in all {
        let written = list.get_mut(index).and_then(|one| one.as_object_mut()).ok_or(TightenError::Unreadable)?;
        written.extend(lowered);
    }
    Ok(())
}

/// The fields of a limit that are lower. `None` if the two limit different things, or the second one nothing in flight.
fn lowered(known: &FlowControlSchema, by: &FlowControlSchema) -> Option<Map<String, Value>> {
    let counted =
        |schema: &FlowControlSchema| if schema.counts.is_empty() { "All".to_owned() } else { schema.counts.clone() };
    let is_alike =
        by.exempt.is_none() && by.strategy.is_empty() && (by.counts.is_empty() || counted(known) == counted(by));
    if !is_alike {
        return None;
    }
    let mut lowered = Map::new();
    let mut put = |field: &str, value: Value| lowered.insert(field.to_owned(), value);
    let (Some(own), Some(other)) = (&known.max_requests_inflight, &by.max_requests_inflight) else { return None };
    put("maxRequestsInflight", lower_inflight(own, other)?);
    match (&known.global_max_requests_inflight, &by.global_max_requests_inflight) {
        (_, None) => {}
        (Some(known), Some(by)) => drop(put("globalMaxRequestsInflight", lower_inflight(known, by)?)),
        (None, Some(_)) => return None,
    }
    Some(lowered)
}

/// A limit of 0 refuses each request, those of the owner's operators as well.
fn lower_inflight(known: &MaxRequestsInflight, by: &MaxRequestsInflight) -> Option<Value> {
    (by.max >= 1).then(|| json!({"max": known.max.min(by.max)}))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
