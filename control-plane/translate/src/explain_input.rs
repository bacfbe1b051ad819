use std::borrow::Cow;
use std::sync::Arc;

use portcullis_api::{
    Claims, Policy, Problem, ProblemCode, Settings, Transport, UpstreamClusterSpec, assumed_material, check_cluster,
    check_upstream, claims_of, cluster_mistakes, parse_cluster, parse_upstream, unchecked_cluster, with_profile,
};
use portcullis_filter_config::{ClusterConfig, FilterConfig};
use serde_json::Value;

use crate::generation::reserved_headers;
use crate::names::ResourceNames;
use crate::ownership;
use crate::policy::cluster_config;
use crate::with_default_client_ca;

/// An `UpstreamCluster` or a `KubernetesUpstream` as the filter would judge by it, for tools that answer without a gateway.
#[derive(Clone, Debug)]
pub struct ExplainInput {
    /// The filter's configuration.
    pub config: ClusterConfig,
    /// `upstreamSubset` of each policy, as it was written.
    pub subsets: Vec<Vec<String>>,
    /// `strategy` of each policy.
    pub strategies: Vec<&'static str>,
    /// The same of what would decide if what only reports did, if anything only reports.
    pub shadow: Option<Box<ExplainInput>>,
    /// Whether connections are passed on, so that no request is judged by the configuration.
    pub is_passed_on: bool,
    /// Whether a profile is in the place of the object's policies and limits, and of those that a policy decides. Denials of policies that
    /// tighten come before it.
    pub has_profile: bool,
    /// Why the object would not be served; then the configuration is what its policies mean as they were written.
    pub problems: Vec<Problem>,
}

/// For each of the documents, the names that it claims and another one owns, with the message for its author.
pub fn lost_names(documents: &[Arc<Value>], settings: &Settings) -> Vec<Vec<(String, Problem)>> {
    let claims: Vec<Claims> = documents.iter().map(|document| claims_of(document)).collect();
    let conflicts = ownership::conflicts(&claims.iter().collect::<Vec<_>>(), settings.wildcard_subdomains);
    conflicts.into_iter().map(|lost| lost.into_iter().map(|lost| (lost.name, lost.problem)).collect()).collect()
}

/// The listener's part of the filter's configuration, for the same tools.
pub fn explain_gateway(settings: &Settings) -> FilterConfig {
    FilterConfig { reserved_headers: reserved_headers(settings), ..FilterConfig::new(&settings.instance) }
}

/// Reads a document for a gateway with these settings.
///
/// # Errors
/// A document that is no `UpstreamCluster`: its writer's fault.
pub fn explain_input(document: &Value, settings: &Settings) -> Result<ExplainInput, Problem> {
    let raw =
        parse_cluster(document).map_err(|first| cluster_mistakes(document).into_iter().next().unwrap_or(first))?;
    let (cluster, problems) = match check_cluster(&raw, true).outcome {
        Ok(cluster) => (cluster, Vec::new()),
        Err(mut problems) => match unchecked_cluster(&raw) {
            Some(cluster) => {
                // References are not resolved here, and no policy depends on them.
                problems.retain(|problem| problem.code != ProblemCode::Unresolved);
                (cluster, problems)
            }
            None => return Err(Problem::new("", "cannot be read")),
        },
    };
    let cluster = with_default_client_ca(cluster, settings);
    let is_passed_on = cluster.transport == Transport::Passthrough;
    let names = ResourceNames::new(&settings.instance, &cluster.name);
    let config = cluster_config(&cluster, &names, settings);
    let shadow = raw.spec.promoted().zip(cluster.shadow.as_ref()).zip(config.promoted());
    let shadow = shadow.map(|((spec, shadow), config)| Box::new(ExplainInput::of(config, &spec, &shadow.policies)));
    let in_effect = with_profile(&raw);
    Ok(ExplainInput {
        shadow,
        is_passed_on,
        has_profile: matches!(in_effect, Cow::Owned(_)),
        problems,
        ..ExplainInput::of(config, &in_effect.spec, &cluster.policies)
    })
}

/// Reads a `KubernetesUpstream` with its rules, and those of doors, for a gateway with these settings.
///
/// # Errors
/// Every problem: one that is refused is served by no version of before.
pub fn explain_upstream(document: &Value, rules: &Value, settings: &Settings) -> Result<ExplainInput, Vec<Problem>> {
    let raw = parse_upstream(document)?;
    let cluster = check_upstream(&raw, &assumed_material(&raw), rules, true).outcome?;
    let config = cluster_config(&cluster, &ResourceNames::new(&settings.instance, &cluster.name), settings);
    // All requests go to all of its servers.
    let subsets = vec![Vec::new(); cluster.policies.len()];
    Ok(ExplainInput { subsets, ..ExplainInput::of(config, &UpstreamClusterSpec::default(), &cluster.policies) })
}

impl ExplainInput {
    fn of(config: ClusterConfig, spec: &UpstreamClusterSpec, policies: &[Policy]) -> Self {
        let subsets = spec.dispatch_policies.iter().map(|policy| policy.upstream_subset.clone()).collect();
        let strategies = policies.iter().map(|policy| policy.strategy.as_str()).collect();
        let (shadow, problems) = (None, Vec::new());
        ExplainInput { config, subsets, strategies, shadow, is_passed_on: false, has_profile: false, problems }
    }
}
