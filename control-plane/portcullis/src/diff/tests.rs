use portcullis_core::Gateway;
use portcullis_core::cluster::Cluster;
use portcullis_core::gateway::Judgement;
use portcullis_core::identity::UserInfo;
use portcullis_core::refusal::Cause;
use portcullis_filter_config::{
    AccessEntry, AccessLists, AccessScope, ClusterConfig, Denial, Policy, ProtectedIdentities, Rule, ServiceAccount,
};
use portcullis_sources::ObjectSet;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::cluster::{compare, judge};
use super::example::ExampleRequest;
use super::side::PolicyEffect;
use super::verdict::Decider;
use crate::explain::{EmptyState, Environment};

const VERBS: &[&str] = &["get", "list", "watch", "create", "delete", "deletecollection", "post", ""];
const RESOURCES: &[&str] =
    &["pods", "nodes", "namespaces", "pods/log", "*/log", "pods/*", "namespaces/status", "status"];
const NAMES: &[&str] = &["", "a", "b", "a/b"];
const USERS: &[&str] = &["alice", "al*", "a*", "system:*", "system:serviceaccount:ns:sa", "system:anonymous", "**"];
const GROUPS: &[&str] = &["dev", "ops", "system:authenticated", "system:unauthenticated"];
const PATHS: &[&str] = &["/healthz", "/healthz/*", "/health*", "/*", "/api", "/apis/apps/v1/*", "/api/v1/pods"];
const NOW: u64 = 1_800_000_000;

fn entries(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        6 => Just(vec!["*".to_owned()]),
        4 => vec(select(words).prop_map(str::to_owned), 1..4),
        3 => vec(select(words).prop_map(|word| format!("-{word}")), 1..3),
        1 => vec(prop_oneof![select(words).prop_map(str::to_owned), Just("-*".to_owned()), Just("-a".to_owned())], 1..3),
    ]
}

fn optional(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop_oneof![5 => Just(Vec::new()), 3 => entries(words)]
}

prop_compose! {
    fn rule()(
        verbs in entries(VERBS),
        api_groups in entries(&["", "apps"]),
        api_versions in optional(&["v1", "v1beta1"]),
        resources in entries(RESOURCES),
        resource_names in optional(NAMES),
        namespaces in optional(NAMES),
        users in optional(USERS),
        service_accounts in prop_oneof![4 => Just(Vec::new()), 1 => select(vec!["sa", "", "x:y"]).prop_map(|name| {
            vec![ServiceAccount { namespace: "ns".to_owned(), name: name.to_owned() }]
        })],
        user_groups in optional(GROUPS),
        non_resource_urls in optional(PATHS),
    ) -> Rule {
        Rule { verbs, api_groups, api_versions, resources, resource_names, namespaces, users, service_accounts, user_groups, non_resource_urls }
    }
}

prop_compose! {
    fn policy()(
        rules in vec(rule(), 1..3),
        group in select(vec!["all", "s-one"]),
        schema in prop::option::of(Just("slow".to_owned())),
        denies in prop::bool::weighted(0.2),
    ) -> Policy {
        let deny = denies.then(|| Denial { message: group.to_owned() });
        Policy { group: group.to_owned(), flow_control_schema: schema, log: false, deny, rules }
    }
}

prop_compose! {
    fn entry()(
        rules in prop_oneof![2 => Just(Vec::new()), 3 => vec(rule(), 1..3)],
        addresses in prop_oneof![2 => Just(vec![]), 1 => vec(select(vec!["10.0.0.0/8", "10.1.0.0/16", "::/0", "2001:db8::/32", "10.0.0.1"]), 1..3)],
        user_agents in prop_oneof![3 => Just(vec![]), 1 => vec(select(vec!["kube", "kubectl", "x"]), 1..2)],
        until_seconds in prop_oneof![4 => Just(None), 1 => Just(Some(1)), 1 => Just(Some(NOW + 1))],
        message in select(vec!["", "no"]),
    ) -> AccessEntry {
        let texts = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect();
        AccessEntry { addresses: texts(addresses), user_agents: texts(user_agents), rules, until_seconds, message: message.to_owned() }
    }
}

/// Policies and access lists.
type Written = (Vec<Policy>, Vec<AccessLists>);

fn written() -> impl Strategy<Value = Written> {
    let lists = (vec(entry(), 0..3), prop_oneof![3 => Just(Vec::new()), 1 => vec(entry(), 1..3)], any::<bool>());
    let lists = lists.prop_map(|(deny, allow, is_gateway)| AccessLists {
        scope: if is_gateway { AccessScope::Gateway } else { AccessScope::Cluster },
        deny,
        allow,
    });
    (vec(policy(), 0..5), prop_oneof![2 => Just(Vec::new()), 2 => lists.prop_map(|one| vec![one])])
}

/// One of them, and another or an edit of it.
fn pairs() -> impl Strategy<Value = (Written, Written)> {
    (written(), written(), 0_usize..6, any::<prop::sample::Index>()).prop_map(|(old, other, edit, at)| {
        let mut new = old.clone();
        let at = at.index(new.0.len().max(1));
        match edit {
            0 => return (old, other),
            1 if !new.0.is_empty() => drop(new.0.remove(at)),
            2 => new.0.splice(at..at, other.0.first().cloned()).for_each(drop),
            3 if new.0.len() > 1 => new.0.swap(0, at),
            4 => new.1 = other.1,
            _ => new
                .0
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|policy| policy.flow_control_schema = Some("other".to_owned())),
        }
        (old, new)
    })
}

prop_compose! {
    fn request()(
        method in select(vec!["GET", "GET", "POST", "DELETE", "PUT", "OPTIONS"]),
        target in select(vec![
            "/healthz", "/healthz/etcd", "/health", "/api", "/x", "/apis/apps/v1", "/api/v1/pods", "/api/v1/pods?watch=1",
            "/api/v1/pods?fieldSelector=metadata.name%3Da", "/api/v1/namespaces", "/api/v1/namespaces/a", "/api/v1/namespaces/a/status",
            "/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/pods/a", "/api/v1/namespaces/b/pods/a/log", "/api/v1/nodes/b",
            "/api/v1/nodes/b/log", "/apis/apps/v1/namespaces/a/pods/z", "/apis/apps/v1beta1/status", "/api/v1/watch/pods/a/log",
            "/api/v1/proxy/namespaces/a/pods/b", "/api/v1/namespaces/a/namespaces/b", "/apis/z/v2/namespaces/y/things/x/sub",
            "/api/v1/watch/namespaces/a", "/api/v1/namespaces?fieldSelector=metadata.name%3Db", "/api/v1/namespaces/a/watch",
        ]),
        name in select(vec!["alice", "al", "albert", "bob", "*x", "system:node:a", "system:serviceaccount:ns:sa", "system:anonymous"]),
        groups in vec(select(vec!["dev", "ops", "ci"]), 0..3),
        address in select(vec!["10.0.0.1", "10.1.2.3", "10.2.0.0", "192.0.2.1", "2001:db8::1", "::1"]),
        user_agent in select(vec!["", "kube", "kubectl/v1", "curl"]),
    ) -> ExampleRequest {
        let known = groups.into_iter().map(str::to_owned);
        let user = if name == "system:anonymous" {
            UserInfo::anonymous()
        } else {
            UserInfo::authenticated(name.to_owned(), String::new(), known.collect(), Vec::new())
        };
        ExampleRequest {
            method: method.to_owned(),
            target: target.to_owned(),
            user: Some(user),
            address: address.parse().unwrap(),
            user_agent: user_agent.to_owned(),
            shows_origin: true,
        }
    }
}

fn base() -> (Gateway, ClusterConfig) {
    let cluster = json!({"apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a.test"}});
    let set = ObjectSet { clusters: vec![cluster.into()], ..ObjectSet::default() };
    let environment = Environment::of_objects(&set, true).unwrap();
    (environment.gateway, environment.clusters.into_iter().next().unwrap().config)
}

fn config(base: &ClusterConfig, (policies, access): &Written) -> ClusterConfig {
    ClusterConfig { policies: policies.clone().into(), access: access.clone(), ..base.clone() }
}

/// The decider of a request by the filter's judgement.
fn decider(judgement: &Judgement, config: &ClusterConfig) -> Decider {
    if let Some(policy) = judgement.policy {
        let policies = config.policies.policies();
        return Decider::Policy { policy, rule: 0, effect: PolicyEffect::of(&policies[policy]) };
    }
    let refusal = judgement.refusal.as_ref().unwrap();
    let scope = config.access.first().map(|lists| lists.scope);
    match (
        refusal.cause,
        refusal.message.strip_prefix("entry ").and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok()),
    ) {
        (Cause::NoPolicy, _) => Decider::NoPolicy,
        (Cause::DeniedByList, None) => Decider::NotLetIn { scope: scope.unwrap() },
        (Cause::DeniedByList, Some(entry)) => {
            let message = config.access[0].deny[entry].message.clone();
            Decider::Denied { scope: scope.unwrap(), entry, message }
        }
        other => panic!("{other:?}"),
    }
}

/// The deciders of both, as a difference names them: of a request that one side's lists refuse, the other side's lists let it in.
fn deciders(one: Decider, two: Decider) -> (Decider, Decider) {
    let is_of_lists = |decider: &Decider| matches!(decider, Decider::Denied { .. } | Decider::NotLetIn { .. });
    match (is_of_lists(&one), is_of_lists(&two)) {
        (true, false) => (one, Decider::LetIn),
        (false, true) => (Decider::LetIn, two),
        _ => (one, two),
    }
}

fn is_same(one: &Decider, two: &Decider) -> bool {
    match (one, two) {
        (Decider::Policy { policy, .. }, Decider::Policy { policy: other, .. }) => policy == other,
        _ => one == two,
    }
}

/// Compares, and checks each difference and each request against the filter. The number of requests that are judged differently.
fn check(pair: &(Written, Written), requests: &[ExampleRequest]) -> Result<usize, TestCaseError> {
    let (gateway, base) = base();
    let (old, new) = (config(&base, &pair.0), config(&base, &pair.1));
    let clusters = [&old, &new].map(|config| Cluster::compile(config, &EmptyState).unwrap());
    let judged = |request: &ExampleRequest| {
        let [one, two] = [(&clusters[0], &old), (&clusters[1], &new)]
            .map(|(cluster, config)| decider(&judge(&gateway, cluster, request, NOW).unwrap(), config));
        deciders(one, two)
    };
    let findings = compare(&gateway, &old, &new, NOW).unwrap();
    prop_assert!(findings.uncompared.is_empty(), "{:?}", findings.uncompared);
    for difference in &findings.differences {
        let (then, now) = judged(&difference.example);
        prop_assert!(
            is_same(&then, &difference.then) && is_same(&now, &difference.now),
            "{:?} {:?} {:?} {}",
            difference,
            then,
            now,
            serde_json::to_string(&old.access).unwrap()
        );
        prop_assert!(!then.is_like(&now), "{:?}", difference);
    }
    let mut different = 0;
    for request in requests {
        let (then, now) = judged(request);
        let found = findings.differences.iter().any(|one| is_same(&one.then, &then) && is_same(&one.now, &now));
        prop_assert_eq!(found, !then.is_like(&now), "{:?} {:?} {:?}", request, then, now);
        different += usize::from(found);
    }
    Ok(different)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A request is judged differently if and only if there is a difference with what decides it then and now, and every example is
    /// judged differently by what its difference names.
    #[test]
    fn differences_are_those_of_the_filter(pair in pairs(), requests in vec(request(), 100)) {
        check(&pair, &requests)?;
    }
}

/// Lists and policies that are equal are not all that decides.
#[test]
fn decision_beside_lists_and_policies_is_named() {
    let (gateway, old) = base();
    let beside = |new: &ClusterConfig| compare(&gateway, &old, new, NOW).unwrap().beside;
    assert!(beside(&old).is_empty());
    let protected = Some(ProtectedIdentities { users: vec!["a".to_owned()], ..ProtectedIdentities::default() });
    let table = [
        (ClusterConfig { deny_all_requests: true, ..old.clone() }, "all requests"),
        (ClusterConfig { protected, ..old.clone() }, "identities that one side protects"),
        (ClusterConfig { allow_anonymous: !old.allow_anonymous, ..old.clone() }, "without a credential"),
    ];
    for (new, expected) in table {
        let found = beside(&new);
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    }
}

/// The property would also hold if hardly any request were judged differently.
#[test]
fn random_objects_differ_often_enough() {
    let mut runner = TestRunner::deterministic();
    let mut different = 0;
    for _ in 0..20 {
        let (pair, requests) = (pairs(), vec(request(), 100)).new_tree(&mut runner).unwrap().current();
        different += check(&pair, &requests).unwrap();
    }
    assert!(different > 100, "{different} of 2000");
}
