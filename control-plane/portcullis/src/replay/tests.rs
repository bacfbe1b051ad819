use std::sync::Arc;

use portcullis_core::identity::UserInfo;
use portcullis_sources::ObjectSet;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::judge::{LineVerdict, ReplayedCluster};
use super::outcome::Unjudged;
use super::output;
use super::record::LogRecord;
use super::tally::Tally;
use crate::explain::paste::PastedRequest;
use crate::explain::{Environment, ExplainedObjects, Explanation, explain};

const GROUPS: [&str; 4] = ["dev", "ops", "ci", "system:authenticated"];
const USERS: [&str; 4] = ["alice", "albert", "bob", "system:serviceaccount:ns:sa"];

fn set(portcullis: &Value, policies: &Value, settings: &Value) -> ObjectSet {
    let api = "proxy.kubegateway.io/v1alpha1";
    let policies: Vec<Value> = policies.as_array().unwrap().clone();
    let cluster = json!({"apiVersion": api, "kind": "UpstreamCluster", "metadata": {"name": "a.test"},
        "spec": {"servers": [{"endpoint": "https://192.0.2.1:6443"}], "dispatchPolicies": policies, "portcullis": portcullis,
            "flowControl": {"flowControlSchemas": [{"name": "slow", "maxRequestsInflight": {"max": 1}}]}}});
    let settings = json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings",
        "metadata": {"name": "default"}, "spec": settings});
    ObjectSet { clusters: vec![Arc::new(cluster)], settings: vec![settings], ..ObjectSet::default() }
}

fn judge_of(set: ObjectSet) -> impl Fn(&Value) -> LineVerdict {
    let environment = Environment::of_objects(&set, true).unwrap();
    let config = environment.clusters.first().unwrap().config.clone();
    let cluster = ReplayedCluster::new(config).unwrap();
    move |line| {
        let line = line.to_string();
        cluster.judge(&environment.gateway, &LogRecord::read(line.as_bytes()).unwrap(), 1_800_000_000)
    }
}

/// A line of a request for pods in a namespace.
fn line(more: &Value) -> Value {
    let mut line = json!({"time": "2026-11-27T10:00:00.000Z", "client": "192.0.2.9", "cluster": "a.test", "method": "GET",
        "path": "/api/v1/namespaces/prod/pods", "verb": "list", "apiVersion": "v1", "resource": "pods", "namespace": "prod",
        "user": "alice", "groups": ["dev", "system:authenticated"], "policy": "0", "schema": "-", "serverGroup": "all",
        "requestId": "x", "decision": "forwarded", "reason": "-", "code": 200});
    let (Value::Object(all), Value::Object(more)) = (&mut line, more) else { unreachable!() };
    for (name, value) in more {
        if value.is_null() {
            all.remove(name)
        } else {
            all.insert(name.clone(), value.clone())
        };
    }
    line
}

fn rules(rule: &Value) -> Value {
    let mut all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]});
    for (name, value) in rule.as_object().unwrap() {
        all[name] = value.clone();
    }
    json!([all])
}

/// The word for a verdict, with the policies.
fn word(verdict: &LineVerdict) -> String {
    match verdict {
        LineVerdict::Unjudged(Unjudged::Refused(reason)) => format!("not judged: {reason}"),
        LineVerdict::Unjudged(other) => format!("not judged: {}", other.reason()),
        LineVerdict::Unknown(reason) => format!("unknown: {reason}"),
        LineVerdict::Judged { then, now, .. } => {
            let met = |met: &super::outcome::MetOutcome| {
                let number = met.policy.map_or("-".to_owned(), |policy| policy.to_string());
                format!("{number} {}", met.refused.or(met.schema.as_deref()).unwrap_or("-"))
            };
            let relation = if then.is_like(now) { "==" } else { "!=" };
            format!("{} {relation} {}", met(then), met(now))
        }
    }
}

#[test]
fn lines_are_judged_by_what_they_say() {
    let policies = json!([
        {"rules": rules(&json!({"userGroups": ["ops"]})), "flowControlSchemaName": "slow"},
        {"rules": rules(&json!({"users": ["mallory"]})), "portcullis": {"action": "Deny"}},
        {"rules": rules(&json!({"resources": ["pods"], "resourceNames": ["x"], "nonResourceURLs": []})), "flowControlSchemaName": "slow"},
        {"rules": rules(&json!({"nonResourceURLs": ["/healthz*"], "resources": []})), "flowControlSchemaName": "slow"},
        {"rules": rules(&json!({}))},
    ]);
    let judge = judge_of(set(&json!({}), &policies, &json!({})));
    let plain =
        json!({"path": "/healthz/etcd", "verb": "get", "apiVersion": null, "resource": null, "namespace": null});
    let mut long = plain.clone();
    long["path"] = format!("/healthz{}…", "x".repeat(1_016)).into();
    let table = [
        (json!({}), "0 - == 4 -"),
        (json!({"groups": ["ops"]}), "0 - != 0 slow"),
        (json!({"user": "mallory", "serverGroup": "all"}), "0 - != 1 denied_by_policy"),
        (json!({"schema": "slow"}), "0 slow != 4 -"),
        (
            json!({"schema": "slow", "groups": ["ops"], "decision": "refused", "reason": "flow_control"}),
            "0 slow == 0 slow",
        ),
        (json!({"decision": "ended", "reason": "server_removed"}), "0 - == 4 -"),
        // The query is not logged, and its part in the attributes is.
        (json!({"verb": "watch", "name": "x"}), "0 - != 2 slow"),
        (json!({"name": "x"}), "0 - != 2 slow"),
        (json!({"verb": "watch"}), "0 - == 4 -"),
        (plain, "0 - != 3 slow"),
        (long, "0 - != 3 slow"),
        (json!({"resource": "nodes"}), "unknown: the attributes, which do not follow from the path of the line"),
        (json!({"moreGroups": 4}), "unknown: the user's groups behind the first 32"),
        (json!({"moreGroups": 4, "groups": ["ops"]}), "0 - != 0 slow"),
        (json!({"user": null, "groups": null}), "unknown: the user"),
        (json!({"impersonatedUser": "bob"}), "unknown: the groups of the impersonated user"),
        (json!({"decision": "refused", "reason": "unauthorized", "policy": null}), "not judged: unauthorized"),
        (json!({"decision": "abandoned", "reason": "client_left", "policy": null}), "not judged: client_left"),
        (json!({"decision": "refused", "reason": "no_policy", "policy": null}), "- no_policy != 4 -"),
        (
            json!({"decision": "refused", "reason": "protected_identity", "policy": null}),
            "unknown: the identity that was asked for and is protected",
        ),
        (json!({"decision": "replaced", "reason": "gateway_credential"}), "0 - == 4 -"),
    ];
    for (more, expected) in table {
        assert_eq!(word(&judge(&line(&more))), expected, "{more}");
    }
}

#[test]
fn access_lists_are_asked_as_far_as_the_log_knows() {
    let policies = json!([{"rules": rules(&json!({}))}]);
    let access = json!({"access": {"deny": [
        {"addresses": ["198.51.100.0/24"], "userAgents": ["bad"]},
        {"users": ["mallory"]},
        {"users": ["bob"], "until": "2020-01-01T00:00:00Z"},
        {"userGroups": ["banned"], "rules": rules(&json!({"namespaces": ["secret"]}))},
    ]}});
    let judge = judge_of(set(&access, &policies, &json!({"protectedIdentities": {"groups": ["masters"]}})));
    let long = format!("{}…", "b".repeat(256));
    let table = [
        (json!({}), "0 - == 0 -"),
        (json!({"user": "mallory"}), "0 - != - denied_by_list"),
        (json!({"user": "bob"}), "0 - == 0 -"),
        (
            json!({"user": "mallory", "decision": "refused", "reason": "denied_by_list"}),
            "0 denied_by_list == - denied_by_list",
        ),
        (json!({"groups": ["masters"]}), "0 - != - protected_identity"),
        (json!({"client": "198.51.100.7", "userAgent": "bad/1"}), "0 - != - denied_by_list"),
        (json!({"client": "198.51.100.7", "userAgent": long}), "0 - == 0 -"),
        (json!({"client": null}), "unknown: the client's address"),
        (json!({"requestId": null}), "unknown: the user agent"),
        // A group that is banned elsewhere cannot matter here, and a protected one can.
        (json!({"moreGroups": 1}), "unknown: the user's groups behind the first 32"),
        (json!({"moreGroups": 1, "user": "mallory"}), "0 - != - denied_by_list"),
        (
            json!({"user": null, "groups": null, "client": "198.51.100.7", "userAgent": "bad"}),
            "0 - != - denied_by_list",
        ),
    ];
    for (more, expected) in table {
        assert_eq!(word(&judge(&line(&more))), expected, "{more}");
    }
    let judge = judge_of(set(&access, &policies, &json!({})));
    assert_eq!(word(&judge(&line(&json!({"moreGroups": 1})))), "0 - == 0 -", "no group matters here");
}

#[test]
fn tokens_that_nothing_reviews_are_of_unknown_users() {
    let policies = json!([
        {"rules": rules(&json!({"users": ["alice"]})), "flowControlSchemaName": "slow"},
        {"rules": rules(&json!({}))},
    ]);
    let identity = json!({"upstreamIdentity": "RequestHeader", "requestHeader": {"tokenReview": false}});
    let judge = judge_of(set(&identity, &policies, &json!({})));
    assert_eq!(word(&judge(&line(&json!({"user": null, "groups": null})))), "0 - == 1 -");
    assert_eq!(word(&judge(&line(&json!({})))), "0 - != 0 slow", "by a certificate");
}

/// Lines with ever new values, as long as a line may be.
#[test]
fn forged_log_takes_bounded_memory() {
    let policies = json!([{"rules": rules(&json!({"users": ["x*"]}))}, {"rules": rules(&json!({})), "flowControlSchemaName": "slow"}]);
    let judge = judge_of(set(&json!({}), &policies, &json!({})));
    let mut tally = Tally::default();
    let long = |number: usize, word: &str| format!("{word}{number}{}", "x".repeat(20_000));
    for number in 0..6_000 {
        let more = match number % 4 {
            0 => json!({"user": long(number, "u"), "userAgent": long(number, "a")}),
            1 => json!({"schema": long(number, "s"), "user": "x"}),
            2 => json!({"serverGroup": long(number, "g"), "groups": [long(number, "g")], "user": "x"}),
            _ => json!({"cluster": long(number, "c")}),
        };
        let text = line(&more).to_string();
        let record = LogRecord::read(text.as_bytes()).unwrap();
        if number % 4 == 3 {
            tally.of_other_cluster(&record, false);
        } else {
            tally.count(&record, judge(&line(&more)));
        }
    }
    let (text, all) = (output::text(&tally, &[], usize::MAX), output::json(&tally, &[], usize::MAX).unwrap());
    assert!(text.len() < 80 << 20 && all.len() < 160 << 20, "{} {}", text.len(), all.len());
    assert_eq!((tally.lines, tally.different), (6_000, 4_500));
    let named: u64 = tally.differences().iter().map(|(_, difference)| difference.count).sum();
    assert_eq!(named + tally.unnamed, 4_500, "what has no room is counted");
    assert!(tally.kept_bytes() <= 32 << 20 && tally.unnamed > 0);
}

fn list(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        4 => Just(Vec::new()),
        3 => vec(select(words).prop_map(str::to_owned), 1..3),
        2 => vec(select(words).prop_map(|word| format!("-{word}")), 1..3),
        1 => Just(vec!["*".to_owned()]),
    ]
}

prop_compose! {
    fn rule()(
        users in list(&["alice", "al*", "bob", "system:serviceaccount:ns:sa"]),
        groups in list(&GROUPS),
        namespaces in list(&["prod", "test"]),
        has_account in prop::bool::weighted(0.1),
    ) -> Value {
        let accounts = if has_account { json!([{"namespace": "ns", "name": "sa"}]) } else { json!([]) };
        json!({"users": users, "userGroups": groups, "namespaces": namespaces, "serviceAccounts": accounts})
    }
}

prop_compose! {
    fn objects()(
        policies in vec((rule(), prop::bool::weighted(0.2)), 1..5),
        deny in vec(rule(), 0..2),
        allow in prop_oneof![3 => Just(Vec::new()), 1 => vec(rule(), 1..3)],
        protected in select(vec![json!([]), json!(["ci"])]),
        drops in any::<bool>(),
    ) -> ObjectSet {
        let policies: Vec<Value> = policies.into_iter().map(|(rule, denies)| {
            let action = if denies { "Deny" } else { "" };
            json!({"rules": rules(&rule), "portcullis": {"action": action}})
        }).collect();
        let entries = |rules_of: Vec<Value>| rules_of.iter().map(|rule| json!({"rules": rules(rule)})).collect::<Vec<_>>();
        let access = json!({"access": {"deny": entries(deny), "allow": entries(allow), "force": true}});
        let action = if drops { "DropGroup" } else { "Refuse" };
        let settings = json!({"protectedIdentities": {"groups": protected, "action": action}});
        set(&access, &Value::Array(policies), &settings)
    }
}

prop_compose! {
    fn user()(name in select(&USERS[..]), groups in vec(select(&GROUPS[..]), 0..4)) -> UserInfo {
        let mut groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
        groups.dedup();
        UserInfo { name: name.to_owned(), groups, ..UserInfo::default() }
    }
}

fn explained(
    objects: &ExplainedObjects,
    user: &UserInfo,
    namespace: &str,
    impersonated: Option<&UserInfo>,
) -> Explanation {
    let mut request = PastedRequest {
        method: "GET".to_owned(),
        target: format!("/api/v1/namespaces/{namespace}/pods"),
        ..PastedRequest::default()
    };
    if let Some(target) = impersonated {
        request.headers.push(("Impersonate-User".to_owned(), target.name.clone()));
        let groups = target.groups.iter().map(|group| ("Impersonate-Group".to_owned(), group.clone()));
        request.headers.extend(groups);
    }
    explain(objects, ("a.test", None), &request, Some(user.clone())).unwrap().0
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A line that names everything is judged as explain judges, and one that does not is judged so or not at all.
    #[test]
    fn lines_are_judged_as_explain_judges_or_not_at_all(
        objects in objects(),
        requests in vec((user(), select(vec!["prod", "test"]), 0_usize..4, prop::option::weighted(0.3, user())), 12),
    ) {
        let judge = judge_of(ObjectSet { clusters: objects.clusters.clone(), settings: objects.settings.clone(), ..ObjectSet::default() });
        let written = format!("{:?}", objects.clusters);
        let objects = ExplainedObjects::new(Arc::new(objects));
        for (user, namespace, kept, impersonated) in &requests {
            let truth = explained(&objects, user, namespace, impersonated.as_ref());
            let kept = (*kept).min(user.groups.len());
            let more = json!({
                "path": format!("/api/v1/namespaces/{namespace}/pods"), "namespace": namespace, "user": user.name,
                "groups": user.groups[..kept], "moreGroups": user.groups.len() - kept,
                "impersonatedUser": impersonated.as_ref().map(|user| &user.name),
            });
            match judge(&line(&more)) {
                LineVerdict::Judged { now, .. } => {
                    let message = truth.refusal.as_ref().map(|refusal| refusal.message.clone());
                    prop_assert_eq!(&now.message, &message, "{} {:?} {}", more, user, written);
                    let policy = truth.dispatch.and_then(|dispatch| dispatch.policy);
                    prop_assert_eq!(now.policy, policy, "{}", more);
                }
                LineVerdict::Unknown(_) => prop_assert!(kept < user.groups.len() || impersonated.is_some(), "{}", more),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
