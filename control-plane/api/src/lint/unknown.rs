//! Rules that ask who sends a request where tokens go to the servers without a review.

use super::Told;
use crate::code::Code;
use crate::types::UpstreamClusterSpec;

pub(super) fn lint(spec: &UpstreamClusterSpec, told: &mut Told) {
    let ours = &spec.portcullis;
    if ours.upstream_identity != "RequestHeader" || ours.request_header.token_review != Some(false) {
        return;
    }
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
            told.add(
                Code::Caution,
                format!("spec.dispatchPolicies[{index}].rules[{number}].{field}"),
                "matches no request with a token, whoever's it is: tokens are not reviewed here, so nobody knows whose they are",
                "set spec.portcullis.requestHeader.tokenReview, or leave such requests to a rule that asks for nobody",
            );
        }
    }
}
