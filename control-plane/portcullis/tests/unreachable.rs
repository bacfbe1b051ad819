//! A policy that is told to be unreachable is never the first to match, whatever the request: the lint's sets held
//! against the filter's own matching.

#![allow(clippy::unwrap_used, reason = "a test's helpers are test code too")]

use std::collections::BTreeSet;

use portcullis_api::{Code, DispatchPolicy, Rule, ServiceAccount, lint_cluster, parse_cluster};
use portcullis_core::identity::UserInfo;
use portcullis_core::policy::Policies;
use portcullis_core::request_info::RequestInfo;
use portcullis_filter_config as config;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

const VERBS: &[&str] = &["get", "list", ""];
const API_GROUPS: &[&str] = &["", "apps"];
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
        resources in entries(PATTERNS),
        resource_names in optional(NAMES),
        namespaces in optional(NAMES),
        users in optional(USER_PATTERNS),
        service_accounts in prop_oneof![4 => Just(Vec::new()), 1 => vec(account(), 1..3)],
        user_groups in optional(GROUPS),
        non_resource_urls in optional(PATH_PATTERNS),
    ) -> Rule {
        let api_versions = Vec::new();
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
            api_version: b"v1",
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

fn compiled(rules: &[Rule]) -> Policies {
    let rule = |raw: &Rule| config::Rule {
        verbs: raw.verbs.clone(),
        api_groups: raw.api_groups.clone(),
        api_versions: raw.api_versions.clone(),
        resources: raw.resources.clone(),
        resource_names: raw.resource_names.clone(),
        namespaces: raw.namespaces.clone(),
        users: raw.users.clone(),
        service_accounts: raw
            .service_accounts
            .iter()
            .map(|one| config::ServiceAccount { namespace: one.namespace.clone(), name: one.name.clone() })
            .collect(),
        user_groups: raw.user_groups.clone(),
        non_resource_urls: raw.non_resource_urls.clone(),
    };
    let policy = |raw: &Rule| config::Policy {
        group: "g".into(),
        flow_control_schema: None,
        log: false,
        rules: vec![rule(raw)],
    };
    Policies::new(&rules.iter().map(policy).collect::<Vec<_>>())
}

/// The policies, one rule each, that are told to be unreachable.
fn told(rules: &[Rule]) -> BTreeSet<usize> {
    let document = json!({"apiVersion": "", "kind": "", "metadata": {"name": "a"}});
    let mut raw = parse_cluster(&document).unwrap();
    let policy = |rule: &Rule| DispatchPolicy { rules: vec![rule.clone()], ..DispatchPolicy::default() };
    raw.spec.dispatch_policies = rules.iter().map(policy).collect();
    let unreachable = |index: &usize| {
        let path = format!("spec.dispatchPolicies[{index}]");
        lint_cluster(&raw, 0).iter().any(|told| told.code == Code::UnreachablePolicy && told.path == path)
    };
    (0..rules.len()).filter(unreachable).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn an_unreachable_policy_never_matches_first(
        rules in vec(rule(), 2..7),
        requests in vec((request(), user()), 150),
    ) {
        let unreachable = told(&rules);
        let policies = compiled(&rules);
        for (info, user) in &requests {
            let first = policies.first_match(info, user);
            prop_assert!(first.is_none_or(|first| !unreachable.contains(&first)), "{first:?} {info:?} {user:?}");
        }
    }
}

/// Without this, the property could hold because nothing is ever told.
#[test]
fn the_random_policies_are_unreachable_often_enough() {
    let mut runner = TestRunner::deterministic();
    let mut count = 0;
    for _ in 0..200 {
        count += told(&vec(rule(), 2..7).new_tree(&mut runner).unwrap().current()).len();
    }
    assert!(count > 60, "{count} of 200 lists");
}
