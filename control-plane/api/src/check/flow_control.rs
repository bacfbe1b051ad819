use std::collections::BTreeSet;

use portcullis_filter_config::{self as config, CountedRequests, FlowControlLimit, GlobalLimit, GlobalStrategy};

use super::Findings;
use crate::types::{FlowControl, FlowControlSchema, MaxRequestsInflight, TokenBucket, UpstreamClusterSpec};

const PATH: &str = "spec.flowControl.flowControlSchemas";

/// Schemas of one object that gateways may share, and bytes of their names: their reports have room for many objects.
const MAX_GLOBAL: usize = 64;
const MAX_GLOBAL_NAME: usize = 63;

/// Checks all schemas, and gives those that limit. `has_global_limits`: whether limits of all gateways hold.
pub(super) fn check_flow_control(
    raw: &FlowControl,
    has_global_limits: bool,
    findings: &mut Findings,
) -> Vec<config::FlowControlSchema> {
    let mut names = BTreeSet::new();
    for (index, schema) in raw.flow_control_schemas.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        if schema.name.is_empty() {
            findings.problem(format!("{path}.name"), "is required");
        } else if !names.insert(&schema.name) {
            findings.problem(format!("{path}.name"), "is used by another schema");
        }
        check_schema(schema, &path, findings);
        check_strategy(schema, has_global_limits, &path, findings);
    }
    let shared = |schema: &&FlowControlSchema| has_global_limits && global_limit(schema).is_some();
    let globals = raw.flow_control_schemas.iter().filter(shared);
    if globals.clone().count() > MAX_GLOBAL {
        findings.problem(PATH, format!("at most {MAX_GLOBAL} schemas may have limits of all gateways"));
    }
    if globals.into_iter().any(|schema| schema.name.len() > MAX_GLOBAL_NAME) {
        let limit = format!("the name of a schema with a limit of all gateways has at most {MAX_GLOBAL_NAME} bytes");
        findings.problem(PATH, limit);
    }
    let checked = |schema: &FlowControlSchema| {
        let global = global_limit(schema).filter(|_| has_global_limits);
        let counts = counted(schema).unwrap_or_default();
        let (name, limit) = (schema.name.clone(), limit_of(schema)?);
        Some(config::FlowControlSchema { name, limit, global, at_most: None, counts })
    };
    raw.flow_control_schemas.iter().filter_map(checked).collect()
}

/// `None` for a word that means nothing.
fn counted(schema: &FlowControlSchema) -> Option<CountedRequests> {
    match schema.counts.as_str() {
        "" | "All" => Some(CountedRequests::All),
        "Requests" => Some(CountedRequests::Requests),
        "Watches" => Some(CountedRequests::Watches),
        _ => None,
    }
}

fn strategy(schema: &FlowControlSchema) -> Option<GlobalStrategy> {
    match schema.strategy.as_str() {
        "globalAllocate" => Some(GlobalStrategy::Allocate),
        "globalCount" => Some(GlobalStrategy::Count),
        _ => None,
    }
}

/// The limit of all gateways, if the schema has one and a strategy for it.
fn global_limit(schema: &FlowControlSchema) -> Option<GlobalLimit> {
    let strategy = strategy(schema)?;
    let limit = if schema.token_bucket.is_some() {
        token_bucket(schema.global_token_bucket.as_ref()?)?
    } else {
        max_requests_inflight(schema.global_max_requests_inflight.as_ref()?)?
    };
    Some(GlobalLimit { limit, strategy })
}

fn limit_of(schema: &FlowControlSchema) -> Option<FlowControlLimit> {
    match &schema.token_bucket {
        Some(bucket) => token_bucket(bucket),
        None => max_requests_inflight(schema.max_requests_inflight.as_ref()?),
    }
}

fn token_bucket(bucket: &TokenBucket) -> Option<FlowControlLimit> {
    let (qps, burst) = (u32::try_from(bucket.qps).ok()?, u32::try_from(bucket.burst).ok()?);
    Some(FlowControlLimit::TokenBucket { qps, burst })
}

fn max_requests_inflight(limit: &MaxRequestsInflight) -> Option<FlowControlLimit> {
    u32::try_from(limit.max).ok().map(FlowControlLimit::MaxRequestsInflight)
}

/// A schema or fair queue that a policy names must exist.
pub(super) fn check_reference(name: &str, spec: &UpstreamClusterSpec, policy: &str, findings: &mut Findings) {
    let is_schema = spec.flow_control.flow_control_schemas.iter().any(|schema| schema.name == name);
    let is_queue = spec.portcullis.fair_queues.iter().any(|queue| queue.name == name);
    if !name.is_empty() && !is_schema && !is_queue {
        findings
            .problem(format!("{policy}.flowControlSchemaName"), "is not one of spec.flowControl.flowControlSchemas");
    }
}

fn check_schema(schema: &FlowControlSchema, path: &str, findings: &mut Findings) {
    if !matches!(schema.strategy.as_str(), "" | "local" | "globalAllocate" | "globalCount") {
        findings.problem(format!("{path}.strategy"), "must be local, globalAllocate or globalCount");
    }
    if counted(schema).is_none() {
        findings.problem(format!("{path}.counts"), "must be Requests, Watches or All");
    }
    let kinds = [schema.exempt.is_some(), schema.max_requests_inflight.is_some(), schema.token_bucket.is_some()];
    if kinds.into_iter().filter(|set| *set).count() != 1 {
        findings.problem(path, "exactly one of exempt, maxRequestsInflight and tokenBucket is required");
    }
    check_inflight(schema, path, findings);
    check_bucket(schema, path, findings);
}

/// Warns where a limit of all gateways is written, or a strategy for one, and the local limit holds nevertheless.
fn check_strategy(schema: &FlowControlSchema, has_global_limits: bool, path: &str, findings: &mut Findings) {
    let is_written = schema.global_max_requests_inflight.is_some() || schema.global_token_bucket.is_some();
    let reason = match strategy(schema) {
        None if is_written => "strategy is neither globalAllocate nor globalCount",
        Some(_) if !is_written && schema.exempt.is_none() => {
            "strategy needs globalMaxRequestsInflight or globalTokenBucket"
        }
        Some(_) if is_written && !has_global_limits => "the gate GlobalRateLimiter is false",
        Some(_) if is_written && global_limit(schema).is_none() && schema.exempt.is_some() => "exempt has no limit",
        _ => return,
    };
    findings.warning(path, format!("{reason}: the local limit holds for each gateway"));
}

fn check_inflight(schema: &FlowControlSchema, path: &str, findings: &mut Findings) {
    let local = schema.max_requests_inflight.as_ref().map(|limit| limit.max);
    if local.is_some_and(|max| max < 0) {
        findings.problem(format!("{path}.maxRequestsInflight.max"), "must not be negative");
    }
    if let Some(global) = &schema.global_max_requests_inflight {
        let path = format!("{path}.globalMaxRequestsInflight");
        match local {
            None => findings.problem(path, "needs maxRequestsInflight beside it"),
            Some(local) if global.max < local => findings.problem(path, "must be at least maxRequestsInflight"),
            Some(_) => {}
        }
    }
}

fn check_bucket(schema: &FlowControlSchema, path: &str, findings: &mut Findings) {
    if let Some(bucket) = &schema.token_bucket {
        if bucket.qps <= 0 {
            findings.problem(format!("{path}.tokenBucket.qps"), "must be at least 1");
        }
        if bucket.burst < bucket.qps {
            findings.problem(format!("{path}.tokenBucket.burst"), "must be at least qps");
        }
    }
    if let Some(global) = &schema.global_token_bucket {
        let path = format!("{path}.globalTokenBucket");
        match &schema.token_bucket {
            None => findings.problem(path, "needs tokenBucket beside it"),
            Some(local) if global.qps < local.qps || global.burst < local.burst => {
                findings.problem(path, "must be at least tokenBucket, qps and burst");
            }
            Some(_) => {}
        }
    }
}
