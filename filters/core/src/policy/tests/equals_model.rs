//! The index answers as the model does, whatever the policies and the request are.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;

use super::super::rule_sets::RuleSetCompiler;
use super::{LinearMatcher, Policies, RequestInfo, UserInfo, UserMatchCache, config};

const VERBS: &[&str] = &["get", "list", "watch", "create", ""];
const GROUPS: &[&str] = &["", "apps", "batch"];
const VERSIONS: &[&str] = &["v1", "v1beta1", ""];
const RESOURCES: &[&str] = &["pods", "nodes", "deployments", "*", ""];
const SUBRESOURCES: &[&str] = &["", "", "log", "status"];
const PATTERNS: &[&str] = &["pods", "nodes", "", "pods/log", "*/log", "pods/*", "*/*", "pods/", "/log", "nodes/status"];
const NAMES: &[&str] = &["", "a", "b", "a*"];
const NAMESPACES: &[&str] = &["", "default", "kube-system"];
const USERS: &[&str] = &["alice", "alan", "a", "system:serviceaccount:ns:sa", "system:serviceaccount:ns:sb", "al*", ""];
const USER_PATTERNS: &[&str] =
    &["alice", "alan", "al*", "a*", "a", "", "bob", "system:*", "system:serviceaccount:ns:sa", "al**", "ali"];
const USER_GROUPS: &[&str] = &["dev", "ops", "admin", "system:authenticated", ""];
const PATHS: &[&str] = &["/healthz", "/healthz/etcd", "/readyz", "/", "/apis"];
const PATH_PATTERNS: &[&str] = &["/healthz", "/healthz/*", "/health*", "/*", "/readyz", "", "/apis", "/readyz*"];
const PARTS: &[&str] = &["ns", "sa", "sb", "", "a:b"];

/// An entry of one of the words, sometimes everything, sometimes excluded.
fn entries(words: &'static [&'static str], empty: u32) -> impl Strategy<Value = Vec<String>> {
    let entry = || {
        prop_oneof![
            12 => select(words).prop_map(str::to_owned),
            1 => Just("*".to_owned()),
        ]
    };
    let excluded = || {
        prop_oneof![
            16 => select(words).prop_map(|word| format!("-{word}")),
            1 => Just("-*".to_owned()),
        ]
    };
    prop_oneof![
        empty => Just(Vec::new()),
        2 => Just(vec!["*".to_owned()]),
        4 => vec(entry(), 1..4),
        3 => vec(excluded(), 1..4),
        1 => vec(prop_oneof![entry(), excluded()], 1..4),
    ]
}

prop_compose! {
    fn account()(namespace in select(PARTS), name in select(PARTS)) -> config::ServiceAccount {
        config::ServiceAccount { namespace: namespace.into(), name: name.into() }
    }
}

prop_compose! {
    fn rule()(
        verbs in entries(VERBS, 1),
        api_groups in entries(GROUPS, 1),
        api_versions in entries(VERSIONS, 20),
        resources in entries(PATTERNS, 1),
        resource_names in entries(NAMES, 12),
        namespaces in entries(NAMESPACES, 8),
        users in entries(USER_PATTERNS, 12),
        service_accounts in prop_oneof![3 => Just(Vec::new()), 1 => vec(account(), 0..3)],
        user_groups in entries(USER_GROUPS, 12),
        non_resource_urls in entries(PATH_PATTERNS, 3),
    ) -> config::Rule {
        config::Rule {
            verbs, api_groups, api_versions, resources, resource_names, namespaces, users, service_accounts,
            user_groups, non_resource_urls,
        }
    }
}

prop_compose! {
    fn request()(
        is_resource in prop::bool::weighted(0.75),
        verb in select(VERBS),
        path in select(PATHS),
        api_group in select(GROUPS),
        api_version in select(VERSIONS),
        namespace in select(NAMESPACES),
        resource in select(RESOURCES),
        subresource in select(SUBRESOURCES),
        name in select(NAMES),
    ) -> RequestInfo<'static> {
        let plain = RequestInfo { verb: verb.as_bytes().into(), path: path.as_bytes(), ..RequestInfo::default() };
        if !is_resource {
            return plain;
        }
        RequestInfo {
            is_resource,
            api_prefix: b"apis",
            api_group: api_group.as_bytes(),
            api_version: api_version.as_bytes(),
            namespace: namespace.as_bytes(),
            resource: resource.as_bytes(),
            subresource: subresource.as_bytes(),
            name: name.as_bytes().into(),
            ..plain
        }
    }
}

prop_compose! {
    fn user()(name in select(USERS), groups in vec(select(USER_GROUPS), 0..4)) -> UserInfo {
        UserInfo { name: name.into(), groups: groups.into_iter().map(str::to_owned).collect(), ..UserInfo::default() }
    }
}

fn policies(rules: Vec<Vec<config::Rule>>) -> Vec<config::Policy> {
    rules
        .into_iter()
        .map(|rules| config::Policy { group: "g".into(), flow_control_schema: None, log: false, deny: None, rules })
        .collect()
}

fn check(policies: &[config::Policy], requests: &[(RequestInfo<'static>, UserInfo)]) -> Result<usize, TestCaseError> {
    let (index, model) = (Policies::new(policies), LinearMatcher::new(policies));
    let others = Policies::new(&[]);
    let mut hits = 0;
    for (info, user) in requests {
        let expected = model.first_match(info, user).map(|matched| matched.policy);
        prop_assert_eq!(index.first_match(info, user), expected, "{:?} {:?}", info, user);
        let memo = UserMatchCache::default();
        for round in 0..3 {
            prop_assert_eq!(index.first_match_of(info, user, &memo), expected, "{} {:?} {:?}", round, info, user);
            if round == 1 {
                prop_assert_eq!(others.first_match_of(info, user, &memo), None, "another configuration's ids");
            }
        }
        hits += usize::from(expected.is_some());
    }
    Ok(hits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn index_equals_the_model_with_one_rule(rule in rule(), requests in vec((request(), user()), 40)) {
        check(&policies(vec![vec![rule]]), &requests)?;
    }

    #[test]
    fn index_equals_the_model_with_a_few_policies(rules in vec(vec(rule(), 0..4), 0..12), requests in vec((request(), user()), 40)) {
        check(&policies(rules), &requests)?;
    }

    /// A set has the words of all others, too.
    #[test]
    fn each_set_of_rules_equals_the_model(rules in vec(vec(rule(), 0..4), 0..12), requests in vec((request(), user()), 40)) {
        let mut compiler = RuleSetCompiler::default();
        let sets: Vec<_> = rules.iter().map(|rules| compiler.add(rules.iter())).collect();
        let words = compiler.words();
        let models: Vec<_> = rules.into_iter().map(|rules| LinearMatcher::new(&policies(vec![rules]))).collect();
        for (info, user) in &requests {
            let asked = words.of(info, user);
            for (set, model) in sets.iter().zip(&models) {
                prop_assert_eq!(set.matches(&asked), model.first_match(info, user).is_some(), "{:?} {:?}", info, user);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Enough rules for every kind of node; each asks for much, so that matches are found late.
    #[test]
    fn index_equals_the_model_with_many_policies(
        rules in vec(vec(rule(), 1..4), 100..200),
        also in vec((select(NAMESPACES), select(USER_GROUPS), select(NAMES)), 200),
        requests in vec((request(), user()), 200),
    ) {
        let mut policies = policies(rules);
        for (policy, (namespace, group, name)) in policies.iter_mut().zip(also) {
            for rule in &mut policy.rules {
                rule.namespaces = vec![namespace.to_owned()];
                rule.user_groups = vec![group.to_owned()];
                rule.resource_names = vec![format!("-{name}")];
            }
        }
        check(&policies, &requests)?;
    }
}

fn exclusions(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    vec(select(words).prop_map(|word| format!("-{word}")), 0..6)
}

prop_compose! {
    fn excluding_rule()(
        rule in rule(),
        users in exclusions(USER_PATTERNS),
        user_groups in exclusions(USER_GROUPS),
        namespaces in exclusions(NAMESPACES),
        resource_names in exclusions(NAMES),
    ) -> config::Rule {
        let all = || vec!["*".to_owned()];
        config::Rule { verbs: all(), api_groups: all(), resources: all(), users, user_groups, namespaces, resource_names, ..rule }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Nothing to split on, so that leaves are crowded; most requests are excluded many times before they match.
    #[test]
    fn index_equals_the_model_with_many_exclusions(
        rules in vec(vec(excluding_rule(), 1..3), 100..200),
        requests in vec((request(), user()), 100),
    ) {
        check(&policies(rules), &requests)?;
    }
}

/// As the properties above, with more than a million rules and as many requests.
#[test]
#[ignore = "takes longer than 30 seconds"]
fn index_equals_the_model_with_millions_of_requests() {
    const MANY: usize = 1_000_000;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::default());
    let (mut rules, mut asked) = (0, 0);
    while rules < MANY || asked < MANY {
        for policies_at_a_time in [1, 12, 200] {
            let strategy = (vec(vec(rule(), 1..4), 1..=policies_at_a_time), vec((request(), user()), 200));
            let (chosen, requests) = strategy.new_tree(&mut runner).unwrap().current();
            rules += chosen.iter().map(Vec::len).sum::<usize>();
            asked += requests.len();
            let chosen = policies(chosen);
            check(&chosen, &requests).unwrap_or_else(|error| panic!("{error}: {chosen:?}"));
        }
    }
    eprintln!("{rules} rules, {asked} requests");
}

/// Were all requests refused, the properties would hold of an index that finds nothing.
#[test]
fn requests_often_match_and_often_do_not() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut hits, mut asked) = (0, 0);
    for _ in 0..200 {
        let strategy = (vec(vec(rule(), 0..4), 0..6), vec((request(), user()), 20));
        let (rules, requests) = strategy.new_tree(&mut runner).unwrap().current();
        hits += check(&policies(rules), &requests).unwrap();
        asked += requests.len();
    }
    assert!(hits > asked / 5 && hits < asked * 4 / 5, "{hits} of {asked}");
}
