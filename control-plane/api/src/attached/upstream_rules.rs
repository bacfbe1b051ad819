//! Rules of a `KubernetesUpstream`: those of the policies of its namespace that are attached to it. It has none itself.

use std::sync::Arc;

use serde_json::{Value, json};

use super::PolicyInEffect;
use super::merge::with_policies;
use crate::bounds::MAX_UPSTREAM_BYTES;
use crate::kind::PolicyKind;
use crate::parse::parse_part;
use crate::types::DispatchFields;

/// Why a policy cannot be one of a `KubernetesUpstream`. Its author has to change it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamPolicyError {
    /// Its fields cannot be read.
    #[error("the fields cannot be read")]
    Unreadable,
    /// It decides about users.
    #[error("users are decided by the fields of the KubernetesUpstream itself")]
    Identity,
    /// Pools of its own, with health checks, for each choice of servers.
    #[error(
        "dispatchPolicies[{0}]: strategy and upstreamSubset are not for a KubernetesUpstream: all requests go to all of its servers, in turn"
    )]
    Servers(usize),
    /// A dispatch policy that only reports: of a `KubernetesUpstream` nothing shows the reports.
    #[error("dispatchPolicies[{0}]: mode Shadow is not for a KubernetesUpstream")]
    Shadow(usize),
    /// Tenants share the room at a Gateway.
    #[error("a policy of a KubernetesUpstream must not have more than {MAX_UPSTREAM_BYTES} bytes of fields as JSON")]
    TooLarge,
}

/// Checks the fields of a policy that is attached to a `KubernetesUpstream`, beside what holds for each policy.
///
/// # Errors
/// A policy that cannot be one of this kind.
pub fn check_upstream_policy(kind: PolicyKind, fields: &Value) -> Result<(), UpstreamPolicyError> {
    if kind == PolicyKind::UpstreamIdentity {
        return Err(UpstreamPolicyError::Identity);
    }
    if fields.to_string().len() > MAX_UPSTREAM_BYTES {
        return Err(UpstreamPolicyError::TooLarge);
    }
    if kind != PolicyKind::Dispatch {
        return Ok(());
    }
    let DispatchFields { dispatch_policies } = parse_part(fields).ok_or(UpstreamPolicyError::Unreadable)?;
    for (index, policy) in dispatch_policies.iter().enumerate() {
        if !(policy.strategy.is_empty() && policy.upstream_subset.is_empty()) {
            return Err(UpstreamPolicyError::Servers(index));
        }
        if policy.is_shadow() {
            return Err(UpstreamPolicyError::Shadow(index));
        }
    }
    Ok(())
}

/// The rules of a `KubernetesUpstream` with these policies, as the part of an `UpstreamCluster`'s document that has them. Without a policy
/// all requests go to its servers.
pub fn upstream_rules(policies: &[PolicyInEffect]) -> Arc<Value> {
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]});
    let without = json!({"spec": {"dispatchPolicies": [{"rules": [everything]}]}});
    with_policies(&Arc::new(without), policies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_of_an_upstream_chooses_no_servers_and_no_users() {
        use UpstreamPolicyError::{Identity, Servers, Shadow, TooLarge, Unreadable};
        let dispatch = |more: Value| {
            let mut policy = json!({"rules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]});
            policy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"dispatchPolicies": [{"rules": []}, policy]})
        };
        let limits = |count: usize| {
            let schema = |index: usize| json!({"name": format!("limit-{index}"), "maxRequestsInflight": {"max": 5}});
            json!({"flowControl": {"flowControlSchemas": (0..count).map(schema).collect::<Vec<_>>()}})
        };
        for (kind, fields, expected) in [
            (PolicyKind::Dispatch, dispatch(json!({"flowControlSchemaName": "few", "logMode": "on"})), Ok(())),
            (PolicyKind::Dispatch, dispatch(json!({"portcullis": {"action": "Deny"}})), Ok(())),
            (PolicyKind::Dispatch, dispatch(json!({"upstreamSubset": ["https://10.0.0.1"]})), Err(Servers(1))),
            (PolicyKind::Dispatch, dispatch(json!({"upsteamSubset": ["https://10.0.0.1"]})), Err(Servers(1))),
            (PolicyKind::Dispatch, dispatch(json!({"strategy": "Random"})), Err(Servers(1))),
            (PolicyKind::Dispatch, dispatch(json!({"portcullis": {"mode": "Shadow"}})), Err(Shadow(1))),
            (PolicyKind::Dispatch, json!({"dispatchPolicies": 5}), Err(Unreadable)),
            (PolicyKind::FlowControl, limits(100), Ok(())),
            (PolicyKind::FlowControl, limits(1_000), Err(TooLarge)),
            (PolicyKind::FlowControl, json!({"fairQueues": [{"name": "a", "max": 5}]}), Ok(())),
            (PolicyKind::UpstreamIdentity, json!({"allowAnonymous": false}), Err(Identity)),
        ] {
            assert_eq!(check_upstream_policy(kind, &fields), expected, "{kind} {fields}");
        }
    }
}
