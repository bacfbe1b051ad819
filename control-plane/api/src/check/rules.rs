use portcullis_filter_config::Rule;

use super::Findings;
use crate::code::Code;
use crate::lint::{Part, parts};
use crate::problem::Problem;

/// Checks a rule. KubeGateway accepts rules that cannot match, so they lead to a warning and not to a refusal: a request that
/// no rule matches gets 403.
pub(super) fn check_rule(rule: &Rule, path: &str, findings: &mut Findings) {
    let mut never = |field: &str, message: &str, hint: &str| {
        let path = if field.is_empty() { path.to_owned() } else { format!("{path}.{field}") };
        findings.warn(Problem::coded(Code::NeverMatches, path, message).hint(hint));
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
        _ if parts(rule).iter().all(Part::is_empty) => {
            never("", "the rule matches nothing: a list of it covers nothing", "\"-*\" excludes everything");
        }
        _ => {}
    }
}
