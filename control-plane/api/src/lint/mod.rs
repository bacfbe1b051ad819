//! Likely mistakes in accepted objects. Only certain ones are reported.

mod expiry;
mod fallback;
mod fields;
mod kubegateway;
mod order;
mod resources;
mod servers;

#[cfg(test)]
mod tests;

use crate::problem::Problem;
use crate::problem::ProblemCode;
use crate::types::{GatewaySettings, UpstreamCluster, UpstreamClusterSpec};

/// Looks through an `UpstreamCluster` for likely mistakes. `now` is in seconds since 1970.
///
/// Warnings of [`crate::check_cluster`] are not repeated.
pub fn lint_cluster(raw: &UpstreamCluster, now: i64) -> Vec<Problem> {
    if raw.spec.passes_tls_through() {
        // Nothing of it is asked; `check_cluster` says so.
        return Vec::new();
    }
    let mut warnings = lint_spec(&raw.spec, now);
    for (index, policy) in raw.spec.dispatch_policies.iter().enumerate() {
        kubegateway::lint_policy(policy, &format!("spec.dispatchPolicies[{index}]"), &mut warnings);
    }
    if let Some(promoted) = raw.spec.promoted() {
        let found = lint_spec(&promoted, now).0;
        warnings.0.extend(raw.spec.of_shadow(found, &warnings.0));
    }
    warnings.0
}

fn lint_spec(spec: &UpstreamClusterSpec, now: i64) -> Warnings {
    let mut warnings = Warnings::default();
    for (index, policy) in spec.dispatch_policies.iter().enumerate() {
        for (number, rule) in policy.rules.iter().enumerate() {
            let path = format!("spec.dispatchPolicies[{index}].rules[{number}]");
            for field in fields::fields(rule) {
                fields::lint_entries(&field, &path, &mut warnings);
                kubegateway::lint(&field, &path, &mut warnings);
            }
            resources::lint_verbs(rule, &path, &mut warnings);
            resources::lint_resources(rule, &path, &mut warnings);
            resources::lint_paths(rule, &path, &mut warnings);
            fields::lint_subjects(rule, &path, &mut warnings);
        }
    }
    let deciding = spec.deciding_policies();
    order::lint(&deciding, &mut warnings);
    fallback::lint(&deciding, &mut warnings);
    servers::lint_servers(spec, &mut warnings);
    servers::lint_limits(spec, &mut warnings);
    servers::lint_fair_queues(spec, &mut warnings);
    servers::lint_unknown(spec, &mut warnings);
    expiry::lint_cluster(spec, now, &mut warnings);
    warnings
}

/// Looks through `GatewaySettings`. `now` is in seconds since 1970.
pub fn lint_settings(raw: &GatewaySettings, now: i64) -> Vec<Problem> {
    let mut warnings = Warnings::default();
    if let Some(certificate) = &raw.spec.default_certificate {
        expiry::lint(&certificate.cert_data, "spec.defaultCertificate.certData", true, now, &mut warnings);
    }
    if let Some(authority) = &raw.spec.default_client_ca {
        expiry::lint(&authority.data, "spec.defaultClientCA.data", false, now, &mut warnings);
    }
    expiry::lint_access(&raw.spec.access, "spec.access", now, &mut warnings);
    if raw.spec.listener.tunnel.as_ref().is_some_and(|tunnel| tunnel.trusted_sources.is_empty()) {
        let (path, message) = ("spec.listener.tunnel.trustedSources", "every address may open tunnels, in the clear");
        warnings.add(ProblemCode::Caution, path, message, "list the ranges of the nodes, such as 10.0.0.0/8");
    }
    warnings.0
}

/// Collects what is found.
#[derive(Default)]
struct Warnings(Vec<Problem>);

impl Warnings {
    fn add(&mut self, code: ProblemCode, path: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) {
        self.0.push(Problem::coded(code, path, message).hint(hint));
    }

    fn never(&mut self, path: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) {
        self.add(ProblemCode::NeverMatches, path, message, hint);
    }
}
