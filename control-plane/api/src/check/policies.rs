use std::collections::BTreeSet;

use portcullis_filter_config::{Denial, Rule};

use super::denials::check_action;
use super::endpoint::{Endpoint, parse_endpoint};
use super::logging::{LogMode, check_log_mode};
use super::servers::Server;
use super::{Findings, flow_control};
use crate::problem::Problem;
use crate::problem::ProblemCode;
use crate::request_part::{RequestPart, parts};
use crate::types::{DispatchPolicy, UpstreamClusterSpec};

/// How the requests of a policy are spread over its servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// One server after the other: the only one that KubeGateway knows.
    #[default]
    RoundRobin,
    /// Of two servers picked at random, the one with fewer running requests, watches among them.
    LeastRequest,
    /// Any of them.
    Random,
}

impl Strategy {
    const ALL: [Strategy; 3] = [Strategy::RoundRobin, Strategy::LeastRequest, Strategy::Random];

    /// As it is written in a manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Strategy::RoundRobin => "RoundRobin",
            Strategy::LeastRequest => "LeastRequest",
            Strategy::Random => "Random",
        }
    }
}

/// A dispatch policy. The rules' lists stand as they were written: the filter normalises them.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// How requests are spread over the servers.
    pub strategy: Strategy,
    /// The servers it sends to, `None` for all. Never empty.
    pub subset: Option<BTreeSet<Endpoint>>,
    /// The flow control schema that its requests come under.
    pub schema: Option<String>,
    /// Whether the access log has its requests.
    pub log_mode: LogMode,
    /// Set if the policy denies its requests.
    pub deny: Option<Denial>,
    /// A request that matches any of them matches the policy.
    pub rules: Vec<Rule>,
}

pub(super) fn check_policies(spec: &UpstreamClusterSpec, servers: &[Server], findings: &mut Findings) -> Vec<Policy> {
    let raw = &spec.dispatch_policies;
    if raw.iter().all(DispatchPolicy::is_shadow) && !(raw.is_empty() && spec.passes_tls_through()) {
        findings.problem(
            "spec.dispatchPolicies",
            "at least one policy that decides is required: without it every request is refused",
        );
    }
    let has_weights = servers.iter().any(Server::has_weight) && !spec.passes_tls_through();
    let mut policies = Vec::with_capacity(raw.len());
    for (index, policy) in raw.iter().enumerate() {
        let path = format!("spec.dispatchPolicies[{index}]");
        let strategy = check_strategy(&policy.strategy, &path, findings);
        if has_weights && strategy != Strategy::RoundRobin {
            let message = "shares these requests without the servers' weights: only RoundRobin uses them";
            findings.warn(Problem::coded(ProblemCode::NoEffect, format!("{path}.strategy"), message));
        }
        flow_control::check_reference(&policy.flow_control_schema_name, spec, &path, findings);
        if policy.rules.is_empty() {
            findings.problem(format!("{path}.rules"), "at least one rule is required");
        }
        for (number, rule) in policy.rules.iter().enumerate() {
            check_rule(rule, &format!("{path}.rules[{number}]"), findings);
        }
        let subset = check_subset(&policy.upstream_subset, servers, &path, findings);
        let schema = Some(policy.flow_control_schema_name.clone()).filter(|name| !name.is_empty());
        let log_mode = check_log_mode(&policy.log_mode, format!("{path}.logMode"), findings);
        let deny = check_action(policy, &path, findings);
        policies.push(Policy { strategy, subset, schema, log_mode, deny, rules: policy.rules.clone() });
    }
    policies
}

/// KubeGateway compares the texts, so what is the same server spelt otherwise is refused there.
pub(super) fn check_spelling(spec: &UpstreamClusterSpec, findings: &mut Findings) {
    let known: BTreeSet<&str> = spec.servers.iter().map(|server| server.endpoint.as_str()).collect();
    for (index, policy) in spec.dispatch_policies.iter().enumerate() {
        for (number, endpoint) in policy.upstream_subset.iter().enumerate() {
            let Ok(parsed) = parse_endpoint(endpoint) else { continue };
            let same = |text: &&str| parse_endpoint(text).is_ok_and(|server| server.endpoint == parsed.endpoint);
            if known.contains(endpoint.as_str()) {
                continue;
            }
            if let Some(server) = known.iter().copied().find(same) {
                let path = format!("spec.dispatchPolicies[{index}].upstreamSubset[{number}]");
                let hint = format!("write it as {server}");
                findings.problem_with_hint(path, "must be spelled as in spec.servers", hint);
            }
        }
    }
}

/// The policies that decide, by the numbers that they have in the object.
pub(super) fn deciding_alone(policies: Vec<Policy>, spec: &UpstreamClusterSpec) -> Vec<Policy> {
    let deciding = |(policy, raw): (Policy, &DispatchPolicy)| if raw.is_shadow() { Policy::default() } else { policy };
    policies.into_iter().zip(&spec.dispatch_policies).map(deciding).collect()
}

fn check_strategy(raw: &str, path: &str, findings: &mut Findings) -> Strategy {
    let known = Strategy::ALL.into_iter().find(|strategy| strategy.as_str() == raw);
    if known.is_none() && !raw.is_empty() {
        findings.problem(format!("{path}.strategy"), "must be RoundRobin, LeastRequest or Random");
    }
    known.unwrap_or_default()
}

fn check_subset(raw: &[String], servers: &[Server], path: &str, findings: &mut Findings) -> Option<BTreeSet<Endpoint>> {
    let mut subset = BTreeSet::new();
    for (index, endpoint) in raw.iter().enumerate() {
        let path = format!("{path}.upstreamSubset[{index}]");
        match parse_endpoint(endpoint) {
            Ok(parsed) if servers.iter().any(|server| server.endpoint == parsed.endpoint) => {
                subset.insert(parsed.endpoint);
            }
            Ok(_) => findings.problem(path, "is not one of spec.servers"),
            Err(error) => findings.problem(path, error.to_string()),
        }
    }
    (!subset.is_empty()).then_some(subset)
}

/// Checks a rule. KubeGateway accepts rules that cannot match, so they lead to a warning and not to a refusal: a request that
/// no rule matches gets 403.
pub(super) fn check_rule(rule: &Rule, path: &str, findings: &mut Findings) {
    let mut never = |field: &str, message: &str, hint: &str| {
        let path = if field.is_empty() { path.to_owned() } else { format!("{path}.{field}") };
        findings.warn(Problem::coded(ProblemCode::NeverMatches, path, message).hint(hint));
    };
    if rule.verbs.is_empty() {
        never("verbs", "the rule matches nothing without verbs", "[\"*\"] is every verb");
        return;
    }
    match (rule.api_groups.is_empty(), rule.resources.is_empty(), rule.non_resource_urls.is_empty()) {
        (true, true, true) => never(
            "",
            "the rule matches nothing: it has neither resources nor nonResourceURLs",
            "name apiGroups with resources, or nonResourceURLs; \"*\" is everything",
        ),
        (true, false, _) => never(
            "apiGroups",
            "the rule matches no resource request without apiGroups",
            "[\"\"] is the core group, [\"*\"] is every group",
        ),
        (false, true, _) => {
            never("resources", "the rule matches no resource request without resources", "[\"*\"] is every resource");
        }
        _ if parts(rule).iter().all(RequestPart::is_empty) => {
            never("", "the rule matches nothing: one of its lists matches nothing", "\"-*\" excludes everything");
        }
        _ => {}
    }
}
