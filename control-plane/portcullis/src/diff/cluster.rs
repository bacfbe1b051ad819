use portcullis_core::cluster::Cluster;
use portcullis_core::gateway::{IdentifiedRequest, Judgement};
use portcullis_core::request_info::RequestTarget;
use portcullis_core::{CompileError, Gateway};
use portcullis_filter_config::{AccessLists, ClusterConfig, UpstreamIdentity};

use super::classes::classes;
use super::compare::{Comparison, Findings};
use super::example::ExampleRequest;
use super::region::Region;
use super::search::Steps;
use super::side::{PolicyEffect, Side, find_twin_entries, find_twins};
use super::space::{RequestKind, Space};
use super::verdict::{Difference, Uncompared};
use crate::explain::EmptyState;

/// Comparisons of two regions, for each cluster: some seconds.
const STEPS: u64 = 400_000_000;

/// Compares two configurations of a cluster. `now` is in seconds since 1970.
///
/// # Errors
/// A configuration that the filter does not take.
pub(super) fn compare(
    gateway: &Gateway,
    old: &ClusterConfig,
    new: &ClusterConfig,
    now: u64,
) -> Result<Findings, CompileError> {
    let judges = Judges { gateway, old: compiled(old)?, new: compiled(new)?, now };
    let mut findings = Findings { beside: judged_beside(old, new), ..Findings::default() };
    let mut steps = Steps(STEPS);
    if old.policies == new.policies && old.access == new.access {
        return Ok(findings);
    }
    for kind in [RequestKind::Resource, RequestKind::Path] {
        compare_kind(kind, (old, new), true, now, &mut findings, &mut steps);
        if [old, new].iter().all(|config| knows_no_tokens(config)) {
            compare_kind(kind, (old, new), false, now, &mut findings, &mut steps);
        }
    }
    findings.keep_proven(&judges, old, new);
    Ok(findings)
}

/// The requests whose judgement may differ by something else than lists and policies.
fn judged_beside(old: &ClusterConfig, new: &ClusterConfig) -> Vec<&'static str> {
    let has_reviews = |config: &ClusterConfig| config.reviews.is_some();
    let all = [
        (old.deny_all_requests != new.deny_all_requests, "all requests: one side answers each with 429"),
        (old.protected != new.protected, "requests of identities that one side protects"),
        (old.allow_anonymous != new.allow_anonymous, "requests without a credential"),
        (has_reviews(old) != has_reviews(new), "requests with tokens, which one side alone has reviewed"),
        (old.upstream_identity != new.upstream_identity, "requests that impersonate, and those with tokens"),
        (old.client_ca != new.client_ca, "requests with client certificates: the CAs differ"),
    ];
    all.into_iter().filter(|(differs, _)| *differs).map(|(_, requests)| requests).collect()
}

fn compiled(config: &ClusterConfig) -> Result<Cluster, CompileError> {
    // A cluster that is closed answers all requests alike; what it does once it is open is compared.
    Cluster::compile(&ClusterConfig { deny_all_requests: false, ..config.clone() }, &EmptyState)
}

/// Whether tokens go on without a review.
fn knows_no_tokens(config: &ClusterConfig) -> bool {
    config.reviews.is_none() && config.upstream_identity != UpstreamIdentity::Impersonate
}

fn compare_kind(
    kind: RequestKind,
    (old, new): (&ClusterConfig, &ClusterConfig),
    knows_users: bool,
    now: u64,
    findings: &mut Findings,
    steps: &mut Steps,
) {
    let policies = [old, new].map(|config| config.policies.policies());
    let entries: Vec<_> = [old, new].iter().flat_map(|config| &config.access).flat_map(AccessLists::all).collect();
    let rules = policies.iter().flat_map(|policies| policies.iter()).flat_map(|policy| &policy.rules);
    let rules: Vec<_> = rules.chain(entries.iter().flat_map(|entry| &entry.rules)).collect();
    let space = Space::new(kind, &rules, &entries);
    let mut sides = [old, new].map(|config| Side::new(&space, config, knows_users, now));
    let [one, two] = &mut sides;
    find_twins(one, two);
    find_twin_entries(one, two);
    let [one, two] = &sides;
    let protected: Vec<_> = [old, new].iter().filter_map(|config| config.protected.as_ref()).collect();
    let anonymous = knows_users && old.allow_anonymous && new.allow_anonymous;
    let classes = classes(&space, anonymous, &protected);
    let Some(everything) = Region::new(space.everything(), Vec::new()) else { return };
    let usual = space.usual();
    let comparison = Comparison {
        space: &space,
        old: one,
        new: two,
        classes: &classes,
        everything: &everything,
        usual: &usual,
        knows_users,
    };
    if old.access != new.access {
        comparison.lists(findings, steps);
    }
    comparison.policies(findings, steps);
}

/// Both configurations, as the filter judges.
struct Judges<'g> {
    gateway: &'g Gateway,
    old: Cluster,
    new: Cluster,
    now: u64,
}

impl Findings {
    /// Keeps the examples that the filter judges differently. All are; if one is not, it is said, and not that it were.
    fn keep_proven(&mut self, judges: &Judges<'_>, old: &ClusterConfig, new: &ClusterConfig) {
        let shows_origin = [old, new]
            .iter()
            .flat_map(|config| &config.access)
            .flat_map(AccessLists::all)
            .any(|entry| !entry.addresses.is_empty() || !entry.user_agents.is_empty());
        for difference in std::mem::take(&mut self.differences) {
            if judges.differ(&difference.example, old, new) {
                let example = ExampleRequest { shows_origin, ..difference.example };
                self.differences.push(Difference { example, ..difference });
            } else {
                self.uncompared.push(Uncompared { then: difference.then, now: difference.now });
            }
        }
    }
}

impl Judges<'_> {
    fn differ(&self, example: &ExampleRequest, old: &ClusterConfig, new: &ClusterConfig) -> bool {
        let judge = |cluster| judge(self.gateway, cluster, example, self.now);
        let met = |judgement: Judgement, config: &ClusterConfig| {
            let policies = config.policies.policies();
            let effect = judgement.policy.and_then(|policy| policies.get(policy)).map(PolicyEffect::of);
            // The refusal of a policy has the number of the policy.
            (judgement.refusal.filter(|_| effect.is_none()), effect)
        };
        match (judge(&self.old), judge(&self.new)) {
            (Some(then), Some(now)) => met(then, old) != met(now, new),
            _ => false,
        }
    }
}

/// The filter's own judgement of an example.
pub(super) fn judge(gateway: &Gateway, cluster: &Cluster, example: &ExampleRequest, now: u64) -> Option<Judgement> {
    let target = RequestTarget::parse(example.target.as_bytes()).ok()?;
    let info = target.resolve(example.method.as_bytes()).ok()?;
    let request = IdentifiedRequest {
        info: &info,
        address: Some(example.address),
        user_agent: example.user_agent.as_bytes(),
        now,
        user: example.user.as_ref(),
        has_token: false,
        impersonated: None,
    };
    Some(gateway.judge_identified(cluster, &request))
}
