//! Policies of their own, which are attached to other objects. Their fields are checked as if an `UpstreamCluster` had them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::cluster::check_verification;
use super::credentials::{check_credential_cache, check_extras};
use super::denials::check_heartbeats;
use super::fair_queue::check_fair_queues;
use super::flow_control::check_flow_control;
use super::identity::check_identity;
use super::object_size::check_size;
use super::policies::check_policies;
use super::servers::check_servers;
use super::tokens::check_tokens;
use super::{Checked, Findings};
use crate::attached::{is_oversized, is_set};
use crate::bounds::MAX_TARGETS;
use crate::kind::{CLUSTER_API_VERSION, CLUSTER_KIND, PolicyKind, UPSTREAM_API_VERSION, UPSTREAM_KIND, group_of};
use crate::parse::{parse_part, parse_policy};
use crate::problem::Problem;
use crate::secret::PublicBytes;
use crate::types::{
    AttachedPolicy, DispatchFields, Exempt, FlowControlFields, FlowControlSchema, IdentityFields, PolicyFields,
    PolicyTarget, ServerSpec, UpstreamCluster, UpstreamClusterSpec,
};

/// The API group of Gateways and routes.
const GATEWAY_API_GROUP: &str = "gateway.networking.k8s.io";

/// The place of a policy among others that affect the same requests, as GEP-713 names it. Each policy is one whole: no field of one
/// is joined with those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MergeStrategy {
    /// It holds whatever is below its target.
    Overrides,
    /// It holds where nothing below its target says otherwise.
    Defaults,
}

impl MergeStrategy {
    /// The field of the specification.
    pub const fn as_str(self) -> &'static str {
        match self {
            MergeStrategy::Overrides => "overrides",
            MergeStrategy::Defaults => "defaults",
        }
    }
}

/// The checked form of a policy. Whether an `UpstreamCluster` is good with it is the check of that object.
#[derive(Clone, Debug, PartialEq)]
pub struct AttachablePolicy {
    /// The kind.
    pub kind: PolicyKind,
    /// The targets, each once.
    pub targets: Vec<PolicyTarget>,
    /// Its place among others.
    pub strategy: MergeStrategy,
    /// Its fields, as they were written.
    pub fields: Value,
}

/// Reads and checks a policy of a kind.
pub fn check_policy(kind: PolicyKind, document: &Value) -> Checked<AttachablePolicy> {
    if is_oversized(document) {
        let mut findings = Findings::default();
        findings.problem("spec", "an object of more than 256 KiB cannot be used");
        return findings.finish(None);
    }
    match kind {
        PolicyKind::Dispatch => check::<DispatchFields>(document),
        PolicyKind::FlowControl => check::<FlowControlFields>(document),
        PolicyKind::UpstreamIdentity => check::<IdentityFields>(document),
    }
}

/// The targets that a policy names, as far as they can be read, whatever else is wrong with it: a mistake in a policy must not make
/// room for another one.
pub fn targets_of(document: &Value) -> Vec<PolicyTarget> {
    let targets = document.pointer("/spec/targetRefs").and_then(Value::as_array).into_iter().flatten();
    let mut read: Vec<PolicyTarget> = Vec::new();
    for target in targets.take(MAX_TARGETS).filter_map(parse_part::<PolicyTarget>) {
        if !read.contains(&target) {
            read.push(target);
        }
    }
    read
}

fn check<T: PolicyFields>(document: &Value) -> Checked<AttachablePolicy> {
    let mut findings = Findings::default();
    let AttachedPolicy { metadata, spec, .. } = match parse_policy::<T>(document) {
        Ok(raw) => raw,
        Err(mistakes) => {
            findings.problems = mistakes;
            return findings.finish(None);
        }
    };
    if metadata.name.is_empty() {
        findings.problem("metadata.name", "is required");
    }
    if metadata.namespace.is_none_or(|namespace| namespace.is_empty()) {
        findings.problem("metadata.namespace", "is required: it says what the policy may be attached to");
    }
    check_targets(&spec.target_refs, &mut findings);
    let (strategy, fields) = match (spec.defaults, spec.overrides) {
        (None, Some(fields)) => (MergeStrategy::Overrides, fields),
        (Some(fields), None) => (MergeStrategy::Defaults, fields),
        _ => {
            findings.problem("spec", "exactly one of defaults and overrides is required");
            return findings.finish(None);
        }
    };
    check_fields(T::KIND, fields.into_spec(), strategy, &mut findings);
    let written = document.get("spec").and_then(|spec| spec.get(strategy.as_str())).cloned();
    if findings.problems.is_empty() && !written.as_ref().is_some_and(is_set) {
        let message = "has no fields, and would take away those of the UpstreamCluster: at least one is required";
        findings.problem(format!("spec.{}", strategy.as_str()), message);
    }
    let targets = spec.target_refs;
    findings.finish(written.map(|fields| AttachablePolicy { kind: T::KIND, targets, strategy, fields }))
}

fn check_targets(targets: &[PolicyTarget], findings: &mut Findings) {
    const PATH: &str = "spec.targetRefs";
    if targets.is_empty() || targets.len() > MAX_TARGETS {
        findings.problem(PATH, format!("must have from 1 to {MAX_TARGETS} entries"));
    }
    let mut seen = BTreeSet::new();
    for (index, target) in targets.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        let group = match target.kind.as_str() {
            CLUSTER_KIND => group_of(CLUSTER_API_VERSION),
            UPSTREAM_KIND => group_of(UPSTREAM_API_VERSION),
            "Gateway" | "HTTPRoute" => GATEWAY_API_GROUP,
            _ => {
                findings.problem(
                    format!("{path}.kind"),
                    "must be UpstreamCluster, KubernetesUpstream, Gateway or HTTPRoute",
                );
                continue;
            }
        };
        if target.group != group {
            findings.problem(format!("{path}.group"), format!("must be {group} for kind {}", target.kind));
        }
        if target.name.is_empty() {
            findings.problem(format!("{path}.name"), "is required");
        }
        if target.section_name.is_some() && target.kind != "Gateway" {
            findings.problem(format!("{path}.sectionName"), "is for a Gateway only: the name of a listener");
        }
        if !seen.insert(target) {
            findings.problem(path, "is listed twice");
        }
    }
}

/// Checks the fields as those of an `UpstreamCluster` that has what they refer to.
fn check_fields(kind: PolicyKind, mut spec: UpstreamClusterSpec, strategy: MergeStrategy, findings: &mut Findings) {
    let mut found = Findings::default();
    if check_size(&spec, &mut found) {
        match kind {
            PolicyKind::Dispatch => check_dispatch(&mut spec, &mut found),
            PolicyKind::FlowControl => {
                check_flow_control(&spec.flow_control, true, &mut found);
                check_fair_queues(&spec, &mut found);
            }
            PolicyKind::UpstreamIdentity => check_users(spec, &mut found),
        }
    }
    let moved = |mut problem: Problem| {
        problem.path = moved(&problem.path, strategy);
        problem
    };
    findings.problems.extend(found.problems.into_iter().map(moved));
    findings.warnings.extend(found.warnings.into_iter().map(moved));
}

fn check_dispatch(spec: &mut UpstreamClusterSpec, findings: &mut Findings) {
    let policies = &spec.dispatch_policies;
    let endpoints: BTreeSet<&String> = policies.iter().flat_map(|policy| &policy.upstream_subset).collect();
    let server = |endpoint: &String| ServerSpec { endpoint: endpoint.clone(), disabled: None };
    spec.servers = endpoints.into_iter().map(server).collect();
    let names: BTreeSet<&String> = policies.iter().map(|policy| &policy.flow_control_schema_name).collect();
    let schema = |name: &String| FlowControlSchema {
        name: name.clone(),
        exempt: Some(Exempt {}),
        ..FlowControlSchema::default()
    };
    spec.flow_control.flow_control_schemas = names.into_iter().map(schema).collect();
    // Addresses are those of the cluster, whose check they pass.
    let servers = check_servers(spec, true, &mut Findings::default());
    check_policies(spec, &servers, findings);
    check_heartbeats(&spec.deciding_policies(), findings);
}

fn check_users(mut spec: UpstreamClusterSpec, findings: &mut Findings) {
    // The certificate for RequestHeader is the cluster's.
    spec.client_config.cert_data = PublicBytes::new(b"the cluster's".to_vec());
    check_identity(&spec, findings);
    check_credential_cache(&spec.portcullis.credential_cache, findings);
    check_extras(&spec.portcullis.forwarded_extras, findings);
    let cluster = UpstreamCluster {
        api_version: CLUSTER_API_VERSION.to_owned(),
        kind: CLUSTER_KIND.to_owned(),
        metadata: Default::default(),
        spec,
        status: None,
    };
    check_verification(&cluster, findings);
    check_tokens(&cluster, true, findings);
}

/// The path in a policy of a field that has another one in an `UpstreamCluster`.
fn moved(path: &str, strategy: MergeStrategy) -> String {
    let below = path.strip_prefix("spec.portcullis.").or_else(|| path.strip_prefix("spec."));
    match below {
        Some(below) => format!("spec.{}.{below}", strategy.as_str()),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::POLICY_API_VERSION;

    fn policy(kind: PolicyKind, spec: &Value) -> Value {
        json!({
            "apiVersion": POLICY_API_VERSION, "kind": kind.as_str(),
            "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec,
        })
    }

    fn target() -> Value {
        json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": "a.test"})
    }

    fn refusals(document: &Value, kind: PolicyKind) -> Vec<String> {
        let problems = check_policy(kind, document).outcome.err().unwrap_or_default();
        problems.iter().map(|problem| problem.path.clone()).collect()
    }

    fn all() -> Value {
        json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])
    }

    #[test]
    fn fields_are_checked_as_those_of_a_cluster() {
        use PolicyKind::{Dispatch, FlowControl, UpstreamIdentity};
        let limit = |max: i32| json!({"flowControl": {"flowControlSchemas": [{"name": "a", "maxRequestsInflight": {"max": max}}]}});
        let dispatch = |more: Value| {
            let mut policy = json!({"rules": all()});
            policy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"dispatchPolicies": [policy]})
        };
        let heartbeats = "spec.overrides.dispatchPolicies[0]";
        for (kind, fields, expected) in [
            (Dispatch, dispatch(json!({})), vec![]),
            (Dispatch, dispatch(json!({"upstreamSubset": ["https://10.0.0.1"], "flowControlSchemaName": "x"})), vec![]),
            (Dispatch, json!({"dispatchPolicies": []}), vec!["spec.overrides.dispatchPolicies"]),
            (Dispatch, json!({}), vec!["spec.overrides.dispatchPolicies"]),
            (Dispatch, json!({"dispatchPolicies": [{}]}), vec!["spec.overrides.dispatchPolicies[0].rules"]),
            (Dispatch, dispatch(json!({"strategy": "x"})), vec!["spec.overrides.dispatchPolicies[0].strategy"]),
            (
                Dispatch,
                dispatch(json!({"upstreamSubset": ["http://a"]})),
                vec!["spec.overrides.dispatchPolicies[0].upstreamSubset[0]"],
            ),
            (Dispatch, dispatch(json!({"portcullis": {"action": "Deny"}})), vec![heartbeats]),
            (Dispatch, json!({"flowControl": {}}), vec!["spec.overrides.flowControl", "spec.overrides.flowControl"]),
            (FlowControl, limit(1), vec![]),
            (FlowControl, limit(-1), vec!["spec.overrides.flowControl.flowControlSchemas[0].maxRequestsInflight.max"]),
            (FlowControl, json!({"fairQueues": [{"name": "a"}]}), vec!["spec.overrides.fairQueues[0].max"]),
            (FlowControl, json!({}), vec!["spec.overrides"]),
            (FlowControl, json!({"flowControl": {"schemas": []}, "fairQueues": []}), vec!["spec.overrides"]),
            (UpstreamIdentity, json!({}), vec!["spec.overrides"]),
            (UpstreamIdentity, json!({"tokens": {"issuers": []}}), vec!["spec.overrides"]),
            (UpstreamIdentity, json!({"allowAnonymous": false}), vec![]),
            (UpstreamIdentity, json!({"upstreamIdentity": "RequestHeader"}), vec![]),
            (UpstreamIdentity, json!({"upstreamIdentity": "x"}), vec!["spec.overrides.upstreamIdentity"]),
            (
                UpstreamIdentity,
                json!({"credentialCache": {"tokenTTL": "2h"}}),
                vec!["spec.overrides.credentialCache.tokenTTL"],
            ),
            (
                UpstreamIdentity,
                json!({"clientCertificateVerification": "x"}),
                vec!["spec.overrides.clientCertificateVerification"],
            ),
            (UpstreamIdentity, json!({"access": {}}), vec!["spec.overrides.access"]),
        ] {
            let found = refusals(&policy(kind, &json!({"targetRefs": [target()], "overrides": fields})), kind);
            let is_same =
                found == expected || (expected.len() > 1 && found.first().map(String::as_str) == Some(expected[0]));
            assert!(is_same, "{kind} {fields}: {found:?}");
        }
    }

    #[test]
    fn policy_has_targets_a_namespace_and_one_strategy() {
        let fields = json!({"dispatchPolicies": [{"rules": all()}]});
        let kind = PolicyKind::Dispatch;
        let gateway =
            |section: &str| json!({"group": GATEWAY_API_GROUP, "kind": "Gateway", "name": "g", "sectionName": section});
        let many: Vec<Value> = (0..17)
            .map(|n| json!({"group": "proxy.kubegateway.io", "kind": "UpstreamCluster", "name": format!("c{n}")}))
            .collect();
        for (targets, expected) in [
            (json!([target(), gateway("a"), gateway("b")]), vec![]),
            (json!([]), vec!["spec.targetRefs"]),
            (json!(many), vec!["spec.targetRefs"]),
            (json!([target(), target()]), vec!["spec.targetRefs[1]"]),
            (json!([{"kind": "Service", "name": "a"}]), vec!["spec.targetRefs[0].kind"]),
            (json!([{"group": "portcullis.dev", "kind": "KubernetesUpstream", "name": "a"}]), vec![]),
            (
                json!([{"group": "proxy.kubegateway.io", "kind": "KubernetesUpstream", "name": "a"}]),
                vec!["spec.targetRefs[0].group"],
            ),
            (
                json!([{"group": "portcullis.dev", "kind": "KubernetesUpstream", "name": "a", "sectionName": "x"}]),
                vec!["spec.targetRefs[0].sectionName"],
            ),
            (json!([{"kind": "Gateway", "name": "a"}]), vec!["spec.targetRefs[0].group"]),
            (json!([{"group": GATEWAY_API_GROUP, "kind": "HTTPRoute", "name": ""}]), vec!["spec.targetRefs[0].name"]),
            (
                json!([{"group": GATEWAY_API_GROUP, "kind": "HTTPRoute", "name": "a", "sectionName": "x"}]),
                vec!["spec.targetRefs[0].sectionName"],
            ),
            (
                json!([{"group": GATEWAY_API_GROUP, "kind": "Gateway", "name": "a", "namespace": "x"}]),
                vec!["spec.targetRefs[0].namespace"],
            ),
        ] {
            let document = policy(kind, &json!({"targetRefs": targets, "defaults": fields}));
            assert_eq!(refusals(&document, kind), expected, "{targets}");
        }
        for spec in [
            json!({"targetRefs": [target()]}),
            json!({"targetRefs": [target()], "defaults": fields, "overrides": fields}),
        ] {
            assert_eq!(refusals(&policy(kind, &spec), kind), ["spec"]);
        }
        let mut document = policy(kind, &json!({"targetRefs": [target()], "defaults": fields}));
        document["metadata"]["namespace"] = json!("");
        assert_eq!(refusals(&document, kind), ["metadata.namespace"]);
        document["kind"] = json!("DispatchPolicies");
        assert_eq!(refusals(&document, kind), ["kind"]);
    }

    #[test]
    fn targets_are_read_whatever_else_is_wrong() {
        let document = policy(PolicyKind::Dispatch, &json!({"targetRefs": [target(), 5, target()], "overrides": 7}));
        assert_eq!(targets_of(&document).len(), 1);
        assert_eq!(targets_of(&json!({})), []);
    }
}
