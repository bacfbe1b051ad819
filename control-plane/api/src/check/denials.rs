//! Dispatch policies that deny.

use portcullis_filter_config::{Denial, Rule, RuleList};

use super::{Findings, UpstreamIdentity};
use crate::request_part::parts;
use crate::types::{DispatchPolicy, PolicyExtension};

/// Most characters of the message.
const MAX_MESSAGE: usize = 256;

/// The answer of a policy that denies.
pub(super) fn check_action(policy: &DispatchPolicy, path: &str, findings: &mut Findings) -> Option<Denial> {
    let PolicyExtension { action, message, mode, .. } = &policy.portcullis;
    if !matches!(mode.as_str(), "" | "Enforce" | "Shadow") {
        findings.problem(format!("{path}.portcullis.mode"), "must be Enforce or Shadow");
    }
    let is_denial = policy.denies();
    if !is_denial && !matches!(action.as_str(), "" | "Dispatch") {
        findings.problem(format!("{path}.portcullis.action"), "must be Dispatch or Deny");
    }
    if !is_denial && !message.is_empty() {
        findings.problem(format!("{path}.portcullis.message"), "is only for action: Deny");
    }
    check_message(message, &format!("{path}.portcullis.message"), findings);
    let others = [
        ("strategy", policy.strategy.is_empty()),
        ("upstreamSubset", policy.upstream_subset.is_empty()),
        ("flowControlSchemaName", policy.flow_control_schema_name.is_empty()),
    ];
    for (field, _) in others.into_iter().filter(|(_, is_empty)| is_denial && !is_empty) {
        findings.problem(format!("{path}.{field}"), "means nothing in a policy with action: Deny");
    }
    is_denial.then(|| Denial { message: message.clone() })
}

/// Checks the message of a 403.
pub(super) fn check_message(message: &str, path: &str, findings: &mut Findings) {
    if message.chars().count() > MAX_MESSAGE || message.chars().any(char::is_control) {
        findings.problem(path, format!("must be one line of up to {MAX_MESSAGE} characters"));
    }
}

/// Checks that no policy denies by the user where the servers find out users: of an impersonation, which goes on to them, and of
/// tokens that are not reviewed. Such a request would match no such rule, and go on to the policies behind it.
pub(super) fn check_denials(policies: &[DispatchPolicy], identity: &UpstreamIdentity, findings: &mut Findings) {
    if !matches!(identity, UpstreamIdentity::RequestHeader { .. }) {
        return;
    }
    for (index, policy) in policies.iter().enumerate().filter(|(_, policy)| policy.denies()) {
        for (number, _) in policy.rules.iter().enumerate().filter(|(_, rule)| rule.depends_on_user()) {
            let path = format!("spec.dispatchPolicies[{index}].rules[{number}]");
            let hint = "leave out users, serviceAccounts and userGroups".to_owned();
            findings.problem_with_hint(
                path,
                "a rule that denies by the user needs upstreamIdentity: Impersonate",
                hint,
            );
        }
    }
}

/// Checks that kubelets may go on to renew their leases (KEP-589): a policy that denies it takes all nodes of the cluster away. Only
/// rules that certainly match are found.
pub(super) fn check_heartbeats(policies: &[DispatchPolicy], findings: &mut Findings) {
    let first = policies.iter().enumerate().find(|(_, policy)| policy.rules.iter().any(takes_heartbeats));
    let denies = |policy: &DispatchPolicy| policy.denies() && !policy.portcullis.force;
    if let Some((index, _)) = first.filter(|(_, policy)| denies(policy)) {
        let hint = "put a policy for system:nodes before it, or set portcullis.force".to_owned();
        let message = "denies the heartbeats of kubelets: all nodes would become NotReady";
        findings.problem_with_hint(format!("spec.dispatchPolicies[{index}]"), message, hint);
    }
}

/// The groups of a kubelet.
const GROUPS: [&str; 2] = ["system:nodes", "system:authenticated"];

/// Whether a rule certainly matches the heartbeats of all kubelets.
pub(super) fn takes_heartbeats(rule: &Rule) -> bool {
    let is_one = |group: &str| GROUPS.contains(&group);
    let has_groups = match RuleList::read(&rule.user_groups) {
        None | Some(RuleList::All) => true,
        Some(RuleList::AnyOf(mut wanted)) => wanted.any(is_one),
        Some(RuleList::NoneOf(mut excluded)) => !excluded.any(is_one),
    };
    let [rule, _] = parts(&Rule { user_groups: Vec::new(), ..rule.clone() });
    let [heartbeat, _] = parts(&heartbeat());
    has_groups && rule.covers(&heartbeat)
}

fn heartbeat() -> Rule {
    let one = |entry: &str| vec![entry.to_owned()];
    Rule {
        verbs: one("update"),
        api_groups: one("coordination.k8s.io"),
        api_versions: one("v1"),
        resources: one("leases"),
        namespaces: one("kube-node-lease"),
        users: one("system:node:*"),
        ..Rule::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_of_heartbeats_is_found_unless_it_is_wanted() {
        let deny = |rule: &str, extension: &str| {
            format!(
                r#"{{"rules": [{{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]{rule}}}], "portcullis": {{"action": "Deny"{extension}}}}}"#
            )
        };
        let nodes_first =
            r#"{"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "userGroups": ["system:nodes"]}]}"#;
        let leases = r#", "namespaces": ["kube-node-lease"], "users": ["system:*"]"#;
        let table = [
            (vec![deny("", "")], true),
            (vec![deny("", r#", "force": true"#)], false),
            (vec![deny(r#", "userGroups": ["system:nodes"]"#, "")], true),
            (vec![deny(r#", "userGroups": ["a", "system:authenticated"]"#, "")], true),
            (vec![deny(r#", "userGroups": ["tenants"]"#, "")], false),
            (vec![deny(r#", "userGroups": ["-platform"]"#, "")], true),
            (vec![deny(r#", "userGroups": ["-platform", "-system:nodes"]"#, "")], false),
            (vec![deny(leases, "")], true),
            (vec![deny(r#", "namespaces": ["default"]"#, "")], false),
            (vec![nodes_first.to_owned(), deny("", "")], false),
            (vec![nodes_first.to_owned(), deny(r#", "userGroups": ["system:authenticated"]"#, "")], false),
            (vec![nodes_first.to_owned(), deny(r#", "userGroups": ["system:nodes"]"#, "")], false),
        ];
        for (policies, is_found) in table {
            let read: Vec<DispatchPolicy> = serde_json::from_str(&format!("[{}]", policies.join(","))).unwrap();
            let mut findings = Findings::default();
            check_heartbeats(&read, &mut findings);
            assert_eq!(!findings.problems.is_empty(), is_found, "{policies:?}: {:?}", findings.problems);
        }
    }
}
