use super::Warnings;
use crate::check::parse_endpoint;
use crate::problem::ProblemCode;
use crate::types::UpstreamClusterSpec;

pub(super) fn lint_servers(spec: &UpstreamClusterSpec, warnings: &mut Warnings) {
    let is_disabled = |endpoint: &str| {
        let Ok(wanted) = parse_endpoint(endpoint) else { return false };
        let same = |text: &str| parse_endpoint(text).is_ok_and(|parsed| parsed.endpoint == wanted.endpoint);
        spec.servers.iter().any(|server| server.disabled.unwrap_or(false) && same(&server.endpoint))
    };
    // The check reports once that every server is disabled.
    if spec.servers.iter().all(|server| server.disabled.unwrap_or(false)) {
        return;
    }
    for (index, policy) in spec.dispatch_policies.iter().enumerate() {
        let subset = &policy.upstream_subset;
        if !subset.is_empty() && subset.iter().all(|endpoint| is_disabled(endpoint)) {
            warnings.add(
                ProblemCode::RefusesEverything,
                format!("spec.dispatchPolicies[{index}].upstreamSubset"),
                "names disabled servers only: requests of this policy are answered 503",
                "enable one of them, or name another server; without upstreamSubset all servers are used",
            );
        }
    }
}

pub(super) fn lint_limits(spec: &UpstreamClusterSpec, warnings: &mut Warnings) {
    for (index, schema) in spec.flow_control.flow_control_schemas.iter().enumerate() {
        let path = format!("spec.flowControl.flowControlSchemas[{index}]");
        let shadow = spec.portcullis.shadow.dispatch_policies.iter().flatten();
        let mut policies = spec.dispatch_policies.iter().chain(shadow);
        let is_used = policies.any(|policy| policy.flow_control_schema_name == schema.name);
        if !is_used {
            let hint = "name it in flowControlSchemaName of a policy, or remove it";
            warnings.add(
                ProblemCode::UnusedSchema,
                format!("{path}.name"),
                "no policy names this schema: it limits nothing",
                hint,
            );
        }
        if schema.max_requests_inflight.as_ref().is_some_and(|limit| limit.max == 0) {
            warnings.add(
                ProblemCode::RefusesEverything,
                format!("{path}.maxRequestsInflight.max"),
                "0 answers every request with 429",
                "nothing to do if the policy is closed on purpose",
            );
        }
    }
}

pub(super) fn lint_fair_queues(spec: &UpstreamClusterSpec, warnings: &mut Warnings) {
    for (index, queue) in spec.portcullis.fair_queues.iter().enumerate() {
        if spec.dispatch_policies.iter().any(|policy| policy.flow_control_schema_name == queue.name) {
            continue;
        }
        warnings.add(
            ProblemCode::UnusedSchema,
            format!("spec.portcullis.fairQueues[{index}].name"),
            "no policy names this fair queue: it limits nothing",
            "name it in flowControlSchemaName of a policy, or remove it",
        );
    }
}

pub(super) fn lint_unknown(spec: &UpstreamClusterSpec, warnings: &mut Warnings) {
    let ours = &spec.portcullis;
    if ours.upstream_identity != "RequestHeader" || ours.request_header.token_review != Some(false) {
        return;
    }
    if ours.access.names_users() {
        // Tokens are reviewed nevertheless, and the status says so.
        return;
    }
    warnings.add(
        ProblemCode::Caution,
        "spec.portcullis.requestHeader.tokenReview".to_owned(),
        "each watch and each running request with a token holds a connection to a server: tokens without a review share none",
        "leave it out, and let requestHeader.user create TokenReviews (portcullis rbac)",
    );
    for (index, policy) in spec.dispatch_policies.iter().enumerate() {
        for (number, rule) in policy.rules.iter().enumerate() {
            let is_everybody = |entries: &[String]| entries.is_empty() || entries.iter().any(|entry| entry == "*");
            let all_users = is_everybody(&rule.users) && (rule.service_accounts.is_empty() || !rule.users.is_empty());
            let field = match (all_users, is_everybody(&rule.user_groups)) {
                (true, true) => continue,
                (true, false) => "userGroups",
                (false, _) if is_everybody(&rule.users) => "serviceAccounts",
                (false, _) => "users",
            };
            warnings.add(
                ProblemCode::Caution,
                format!("spec.dispatchPolicies[{index}].rules[{number}].{field}"),
                "matches no request with a token: tokens are not reviewed here, so their users are unknown",
                "set spec.portcullis.requestHeader.tokenReview, or match such requests by a rule without users",
            );
        }
    }
}
