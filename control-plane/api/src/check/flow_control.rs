use std::collections::BTreeSet;

use portcullis_filter_config::{self as config, FlowControlLimit};

use super::Findings;
use crate::types::{FlowControl, FlowControlSchema, UpstreamClusterSpec};

const PATH: &str = "spec.flowControl.flowControlSchemas";

/// Checks all schemas, and gives those that limit.
pub(super) fn check_flow_control(raw: &FlowControl, findings: &mut Findings) -> Vec<config::FlowControlSchema> {
    let mut names = BTreeSet::new();
    for (index, schema) in raw.flow_control_schemas.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        if schema.name.is_empty() {
            findings.problem(format!("{path}.name"), "is required");
        } else if !names.insert(&schema.name) {
            findings.problem(format!("{path}.name"), "is used by another schema");
        }
        check_schema(schema, &path, findings);
    }
    let limits = raw.flow_control_schemas.iter();
    limits
        .filter_map(|schema| Some(config::FlowControlSchema { name: schema.name.clone(), limit: limit_of(schema)? }))
        .collect()
}

fn limit_of(schema: &FlowControlSchema) -> Option<FlowControlLimit> {
    if let Some(bucket) = &schema.token_bucket {
        let (qps, burst) = (u32::try_from(bucket.qps).ok()?, u32::try_from(bucket.burst).ok()?);
        return Some(FlowControlLimit::TokenBucket { qps, burst });
    }
    let max = schema.max_requests_inflight.as_ref()?.max;
    u32::try_from(max).ok().map(FlowControlLimit::MaxRequestsInflight)
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
    let kinds = [schema.exempt.is_some(), schema.max_requests_inflight.is_some(), schema.token_bucket.is_some()];
    if kinds.into_iter().filter(|set| *set).count() != 1 {
        findings.problem(path, "exactly one of exempt, maxRequestsInflight and tokenBucket is required");
    }
    check_inflight(schema, path, findings);
    check_bucket(schema, path, findings);
    if schema.global_max_requests_inflight.is_some() || schema.global_token_bucket.is_some() {
        findings.warning(path, "the global limit is not enforced yet: the local one holds for each Envoy");
    }
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
