//! Rules that the lint calls unreachable can be removed without a change of any decision: the lint's sets against the filter's
//! own matching.

#![cfg(test)]

use portcullis_api::{CLUSTER_API_VERSION, CLUSTER_KIND, DispatchPolicy, ProblemCode, lint_cluster, parse_cluster};
use portcullis_core::identity::UserInfo;
use portcullis_core::policy::Policies;
use portcullis_core::request_info::RequestInfo;
use portcullis_filter_config::{self as config, Rule, ServiceAccount};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

const VERBS: &[&str] = &["get", "list", ""];
const API_GROUPS: &[&str] = &["", "apps"];
const API_VERSIONS: &[&str] = &["v1", "v1beta1"];
const RESOURCES: &[&str] = &["pods", "nodes", ""];
const SUBRESOURCES: &[&str] = &["", "log", "status"];
const PATTERNS: &[&str] = &["pods", "nodes", "pods/log", "*/log", "pods/*", "*/*", "nodes/status", "/log"];
const NAMES: &[&str] = &["", "a", "b"];
const USERS: &[&str] = &["alice", "al", "system:serviceaccount:ns:sa", "system:serviceaccount:ns:sb", ""];
const USER_PATTERNS: &[&str] = &["alice", "al*", "a*", "system:*", "system:serviceaccount:ns:sa", "**", "al"];
const GROUPS: &[&str] = &["dev", "ops"];
const PATHS: &[&str] = &["/healthz", "/healthz/etcd", "/readyz"];
const PATH_PATTERNS: &[&str] = &["/healthz", "/healthz/*", "/health*", "/*", "/readyz"];

/// Mostly wide lists, so that rules cover each other often.
fn entries(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    let excluded = || prop_oneof![12 => select(words).prop_map(|word| format!("-{word}")), 1 => Just("-*".to_owned())];
    let wanted = || select(words).prop_map(str::to_owned);
    prop_oneof![
        9 => Just(vec!["*".to_owned()]),
        4 => vec(wanted(), 1..4),
        2 => vec(excluded(), 1..3),
        1 => vec(prop_oneof![wanted(), excluded()], 1..3),
    ]
}

fn optional(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop_oneof![6 => Just(Vec::new()), 2 => entries(words)]
}

prop_compose! {
    fn account()(namespace in select(vec!["ns", "", "a:b"]), name in select(vec!["sa", "sb", ""])) -> ServiceAccount {
        ServiceAccount { namespace: namespace.into(), name: name.into() }
    }
}

prop_compose! {
    fn rule()(
        verbs in entries(VERBS),
        api_groups in entries(API_GROUPS),
        api_versions in optional(API_VERSIONS),
        resources in entries(PATTERNS),
        resource_names in optional(NAMES),
        namespaces in optional(NAMES),
        users in optional(USER_PATTERNS),
        service_accounts in prop_oneof![4 => Just(Vec::new()), 1 => vec(account(), 1..3)],
        user_groups in optional(GROUPS),
        non_resource_urls in optional(PATH_PATTERNS),
    ) -> Rule {
        Rule {
            verbs, api_groups, api_versions, resources, resource_names, namespaces, users, service_accounts, user_groups,
            non_resource_urls,
        }
    }
}

prop_compose! {
    fn request()(
        is_resource in prop::bool::weighted(0.75),
        verb in select(VERBS),
        path in select(PATHS),
        group in select(API_GROUPS),
        version in select(API_VERSIONS),
        namespace in select(NAMES),
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
            api_group: group.as_bytes(),
            api_version: version.as_bytes(),
            namespace: namespace.as_bytes(),
            resource: resource.as_bytes(),
            subresource: subresource.as_bytes(),
            name: name.as_bytes().into(),
            ..plain
        }
    }
}

prop_compose! {
    fn user()(name in select(USERS), groups in vec(select(GROUPS), 0..3)) -> UserInfo {
        UserInfo { name: name.into(), groups: groups.into_iter().map(str::to_owned).collect(), ..UserInfo::default() }
    }
}

/// Rules, policy by policy.
type Rules = Vec<Vec<Rule>>;

fn policies() -> impl Strategy<Value = Rules> {
    vec(vec(rule(), 1..4), 2..6)
}

fn compiled(policies: &[Vec<Rule>]) -> Policies {
    let policy = |rules: &Vec<Rule>| config::Policy {
        group: "g".into(),
        flow_control_schema: None,
        log: false,
        deny: None,
        rules: rules.clone(),
    };
    Policies::new(&policies.iter().map(policy).collect::<Vec<_>>())
}

/// The policies without the rules that the lint calls unreachable, and the number of these.
fn without_unreachable(policies: &[Vec<Rule>]) -> (Rules, usize) {
    let document = json!({"apiVersion": CLUSTER_API_VERSION, "kind": CLUSTER_KIND, "metadata": {"name": "a"}});
    let mut raw = parse_cluster(&document).unwrap();
    let policy = |rules: &Vec<Rule>| DispatchPolicy { rules: rules.clone(), ..DispatchPolicy::default() };
    raw.spec.dispatch_policies = policies.iter().map(policy).collect();
    let mut found = lint_cluster(&raw, 0);
    found.retain(|one| matches!(one.code, ProblemCode::UnreachablePolicy | ProblemCode::UnreachableRule));
    let is_found = |path: String| found.iter().any(|one| one.path == path);
    let left = policies.iter().enumerate().map(|(index, rules)| {
        let path = format!("spec.dispatchPolicies[{index}]");
        let stays = |number: &usize| !is_found(path.clone()) && !is_found(format!("{path}.rules[{number}]"));
        let rules = rules.iter().enumerate().filter(|(number, _)| stays(number));
        rules.map(|(_, rule)| rule.clone()).collect()
    });
    (left.collect(), found.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unreachable_rules_change_no_decision(
        policies in policies(),
        requests in vec((request(), user()), 150),
    ) {
        let (whole, less) = (compiled(&policies), compiled(&without_unreachable(&policies).0));
        for (info, user) in &requests {
            prop_assert_eq!(whole.first_match(info, user), less.first_match(info, user), "{:?} {:?}", info, user);
        }
    }
}

/// The property would also hold if the lint never found anything.
#[test]
fn random_policies_are_unreachable_often_enough() {
    let mut runner = TestRunner::deterministic();
    let lists = (0..100).map(|_| policies().new_tree(&mut runner).unwrap().current());
    let count: usize = lists.map(|policies| without_unreachable(&policies).1).sum();
    assert!(count > 50, "{count} in 100 lists");
}
