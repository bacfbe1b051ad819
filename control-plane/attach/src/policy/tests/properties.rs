use std::collections::BTreeMap;

use portcullis_api::{PolicyKind, PolicyRole};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{HOME, at_cluster, attach_policies, denial, grant, limit, policy, rules, targets};
use crate::policy::{AttachedPolicies, PolicyMemo, PolicyObject};
use portcullis_gateway_api::ReferenceGrant;

const NAMESPACES: [&str; 3] = [HOME, "team-a", "team-b"];
const CLUSTERS: [&str; 3] = ["a.test", "b.test", "none.test"];

/// A policy: kind, namespace, year, clusters, whether it has defaults, which fields.
type Drawn = (usize, usize, u32, Vec<usize>, bool, usize);

fn fields(kind: PolicyKind, which: usize) -> Value {
    match (kind, which) {
        (PolicyKind::Dispatch, 0) => json!({"dispatchPolicies": [denial("/x")]}),
        (PolicyKind::Dispatch, 1) => json!({"dispatchPolicies": [{"rules": rules(), "flowControlSchemaName": "few"}]}),
        (PolicyKind::Dispatch, 2) => {
            json!({"dispatchPolicies": [{"rules": rules(), "upstreamSubset": ["https://10.9.9.9"]}]})
        }
        (PolicyKind::FlowControl, 0) => limit("few", 3),
        (PolicyKind::FlowControl, 1) => limit("few", 30),
        (PolicyKind::FlowControl, 2) => limit("new", 3),
        (PolicyKind::UpstreamIdentity, 0) => json!({"allowAnonymous": false}),
        (PolicyKind::UpstreamIdentity, 1) => json!({"auditAttribution": true}),
        _ => json!({"unheardOf": 1}),
    }
}

fn object((kind, namespace, year, clusters, has_defaults, which): &Drawn, index: usize) -> PolicyObject {
    let kind = PolicyKind::ALL[*kind];
    let mut names: Vec<&str> = clusters.iter().map(|cluster| CLUSTERS[*cluster]).collect();
    names.sort_unstable();
    names.dedup();
    let targets: Value = names.into_iter().map(at_cluster).collect();
    let strategy = if *has_defaults { "defaults" } else { "overrides" };
    let strategy = json!({strategy: fields(kind, *which)});
    policy(kind, (NAMESPACES[*namespace], &format!("p{index}")), 2020 + year, &targets, &strategy)
}

fn policies() -> impl Strategy<Value = Vec<PolicyObject>> {
    let clusters = prop::collection::vec(0..CLUSTERS.len(), 1..3);
    let one = (0..3_usize, 0..3_usize, 0..3_u32, clusters, prop::bool::weighted(0.2), 0..4_usize);
    prop::collection::vec(one, 0..7)
        .prop_map(|all| all.iter().enumerate().map(|(index, one)| object(one, index)).collect())
}

fn grants() -> Vec<ReferenceGrant> {
    let kinds = PolicyKind::ALL.into_iter();
    kinds
        .map(|kind| grant(HOME, kind, "team-a", None))
        .chain([grant(HOME, PolicyKind::Dispatch, "team-b", Some("a.test"))])
        .collect()
}

fn outcome(policies: &[PolicyObject]) -> AttachedPolicies {
    attach_policies(policies, &grants(), &targets())
}

proptest! {
    #[test]
    fn memo_of_earlier_steps_makes_no_difference(steps in prop::collection::vec(policies(), 1..4)) {
        let (mut memo, targets) = (PolicyMemo::default(), targets());
        for all in steps {
            prop_assert_eq!(crate::attach_policies(&all, &grants(), &targets, &mut memo), outcome(&all));
        }
    }

    #[test]
    fn order_of_objects_makes_no_difference(all in policies(), seed in any::<u64>()) {
        let mut other = all.clone();
        let length = other.len().max(1);
        other.rotate_left(usize::try_from(seed).unwrap_or_default() % length % all.len().max(1));
        other.reverse();
        prop_assert_eq!(outcome(&all), outcome(&other));
    }

    #[test]
    fn each_part_has_one_policy_at_most(all in policies()) {
        for (cluster, in_effect) in outcome(&all).in_effect {
            let mut parts: BTreeMap<(PolicyKind, PolicyRole, &str), usize> = BTreeMap::new();
            for one in &in_effect {
                let namespace = one.policy.split('/').next().unwrap();
                *parts.entry((one.kind, one.role, namespace)).or_default() += 1;
                let is_home = namespace == HOME;
                prop_assert_eq!(one.role == PolicyRole::Decides, is_home, "{}", &one.policy);
            }
            prop_assert!(parts.values().all(|count| *count == 1), "{cluster}: {parts:?}");
        }
    }

    #[test]
    fn removed_policy_changes_its_targets_alone(all in policies(), which in any::<prop::sample::Index>()) {
        prop_assume!(!all.is_empty());
        let mut fewer = all.clone();
        let removed = fewer.remove(which.index(all.len()));
        let (before, after) = (outcome(&all), outcome(&fewer));
        for cluster in CLUSTERS {
            let is_target = removed.targets.iter().any(|target| target.name == cluster);
            if !is_target {
                prop_assert_eq!(before.in_effect.get(cluster), after.in_effect.get(cluster), "{}", cluster);
            }
        }
        for verdict in after.verdicts.iter().filter(|one| one.kind != removed.kind) {
            let known = before.verdicts.iter().find(|one| one.kind == verdict.kind && one.name == verdict.name).unwrap();
            let shares = |name: &str| removed.targets.iter().any(|target| target.name == name);
            let rest = |one: &crate::policy::PolicyVerdict| {
                one.ancestors.iter().filter(|at| !shares(&at.target.name)).cloned().collect::<Vec<_>>()
            };
            prop_assert_eq!(rest(known), rest(verdict));
        }
    }
}
