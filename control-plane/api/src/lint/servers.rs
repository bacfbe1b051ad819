use super::Told;
use crate::check::parse_endpoint;
use crate::code::Code;
use crate::types::UpstreamClusterSpec;

pub(super) fn lint(spec: &UpstreamClusterSpec, told: &mut Told) {
    let is_disabled = |endpoint: &str| {
        let Ok(wanted) = parse_endpoint(endpoint) else { return false };
        let same = |text: &str| parse_endpoint(text).is_ok_and(|parsed| parsed.endpoint == wanted.endpoint);
        spec.servers.iter().any(|server| server.disabled.unwrap_or(false) && same(&server.endpoint))
    };
    // If every server is disabled, that is told once.
    if spec.servers.iter().all(|server| server.disabled.unwrap_or(false)) {
        return;
    }
    for (index, policy) in spec.dispatch_policies.iter().enumerate() {
        let subset = &policy.upstream_subset;
        if !subset.is_empty() && subset.iter().all(|endpoint| is_disabled(endpoint)) {
            told.add(
                Code::RefusesEverything,
                format!("spec.dispatchPolicies[{index}].upstreamSubset"),
                "names disabled servers only: requests of this policy are answered 503",
                "enable one of them, or name another server; without upstreamSubset all servers are used",
            );
        }
    }
}
