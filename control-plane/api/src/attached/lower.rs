//! Limits that a policy lowers: those of requests in flight, by the names of those that are there.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::tighten_error::TightenError;
use crate::parse::{parse_part, without_nulls};
use crate::types::{FlowControl, FlowControlFields, FlowControlSchema, MaxRequestsInflight};

/// Lowers the limits of a specification or a profile that are there.
pub(super) fn lower_known(part: &mut Map<String, Value>, limits: &[FlowControlSchema]) -> Result<(), TightenError> {
    let Some(present) = part.get("flowControl").filter(|present| !present.is_null()) else { return Ok(()) };
    let known: FlowControl = parse_part(present).ok_or(TightenError::Unreadable)?;
    let known = by_name(&known);
    let mut limits: Vec<FlowControlSchema> =
        limits.iter().filter(|limit| known.contains_key(limit.name.as_str())).cloned().collect();
    limits.retain_mut(|limit| {
        let Some((_, known)) = known.get(limit.name.as_str()) else { return false };
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

/// The limits of a policy at a door.
pub(super) fn door_limits(fields: &Value) -> Result<Vec<FlowControlSchema>, TightenError> {
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

/// Lowers the limits of a specification by their names, each of which has to be there.
pub(super) fn lower(spec: &mut Map<String, Value>, fields: &Value) -> Result<(), TightenError> {
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
    let known = by_name(&known);
    for schema in &flow_control.flow_control_schemas {
        let (index, known) = known.get(schema.name.as_str()).copied().ok_or_else(|| unknown(schema))?;
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

/// Limits by their names, with their numbers; of several the first one.
fn by_name(limits: &FlowControl) -> BTreeMap<&str, (usize, &FlowControlSchema)> {
    let all = limits.flow_control_schemas.iter().enumerate().rev();
    all.map(|(index, one)| (one.name.as_str(), (index, one))).collect()
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
