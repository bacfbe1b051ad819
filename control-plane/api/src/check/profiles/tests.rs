use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::check::{Cluster, check_cluster};
use crate::packed::pack_policies;
use crate::parse::parse_cluster;
use crate::{PolicyInEffect, PolicyKind, PolicyRole, behind_door, with_policies};

fn object(profile: &str, portcullis: &Value) -> Value {
    let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    json!({
        "apiVersion": crate::CLUSTER_API_VERSION, "kind": crate::CLUSTER_KIND,
        "metadata": {"name": "a.test", "annotations": {PROFILE_ANNOTATION: profile}},
        "spec": {
            "servers": [{"endpoint": "https://a.test"}],
            "clientConfig": {"insecure": true, "bearerToken": "YQ=="},
            "flowControl": {"flowControlSchemas": [{"name": "own", "exempt": {}}]},
            "dispatchPolicies": [{"flowControlSchemaName": "own", "rules": everything}],
            "portcullis": portcullis,
        },
    })
}

fn checked(profile: &str, portcullis: &Value) -> Result<Cluster, Vec<String>> {
    let outcome = check_cluster(&parse_cluster(&object(profile, portcullis)).unwrap(), false).outcome;
    outcome.map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn limits(cluster: &Cluster) -> Vec<&str> {
    cluster.policies.iter().map(|policy| policy.schema.as_deref().unwrap_or_default()).collect()
}

fn maintenance() -> Value {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    json!({
        "name": "maintenance",
        "flowControl": {"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 1}}]},
        "dispatchPolicies": [{"flowControlSchemaName": "few", "rules": rules}],
    })
}

#[test]
fn annotation_names_the_profile_that_is_in_effect() {
    let own = json!({"profiles": [maintenance()]});
    let (heartbeats, operators) = ("portcullis:heartbeats", "portcullis:operators");
    let table: [(&str, &[&str], bool); 5] = [
        ("", &["own"], false),
        ("frozen", &["own"], true),
        ("heartbeats", &[heartbeats, operators, "portcullis:closed"], false),
        (
            " trickle ",
            &[heartbeats, operators, "portcullis:controllers", "portcullis:nodes", "portcullis:others"],
            false,
        ),
        ("maintenance", &["few"], false),
    ];
    for (profile, expected, is_closed) in table {
        let cluster = checked(profile, &own).unwrap();
        assert_eq!(limits(&cluster), expected, "{profile}");
        assert_eq!(cluster.gates.deny_all_requests, is_closed, "{profile}");
        assert_eq!(cluster.profile.unwrap_or_default(), profile.trim());
        let raw = parse_cluster(&object(profile, &own)).unwrap();
        assert_eq!(with_profile(&raw).spec.dispatch_policies.len(), expected.len(), "{profile}");
    }
}

#[test]
fn profile_in_effect_is_a_warning() {
    let has_warning = |profile| {
        let checked = check_cluster(&parse_cluster(&object(profile, &json!({}))).unwrap(), false);
        checked.warnings.iter().any(|warning| warning.code == ProblemCode::ProfileInEffect)
    };
    assert!(!has_warning(""));
    assert_eq!(BUILT_IN_PROFILES.map(has_warning), [true; 3]);
}

#[test]
fn profile_is_wrong_before_it_is_needed() {
    let mut wrong = maintenance();
    wrong["dispatchPolicies"][0]["flowControlSchemaName"] = json!("none");
    let queue = json!([{"name": "few", "max": 1}]);
    let nameless = json!({"name": "Maintenance", "dispatchPolicies": maintenance()["dispatchPolicies"]});
    let denied = json!({"name": "x", "dispatchPolicies": [{"portcullis": {"action": "Deny"},
        "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}]});
    let place = "spec.portcullis.profiles[0]";
    let table = [
        (json!({"profiles": [wrong]}), format!("{place}.dispatchPolicies[0].flowControlSchemaName: is not one")),
        (
            json!({"profiles": [maintenance()], "fairQueues": queue}),
            format!("{place}.flowControl.flowControlSchemas[0].name: is used by a fair queue"),
        ),
        (json!({"profiles": [{"name": "empty"}]}), format!("{place}.dispatchPolicies: at least one policy")),
        (json!({"profiles": [nameless]}), format!("{place}.name: must be up to 63")),
        (json!({"profiles": [denied]}), format!("{place}.dispatchPolicies[0]: denies the heartbeats")),
        (json!({"profiles": [maintenance(), maintenance()]}), "profiles[1].name: is used by another".to_owned()),
        (json!({"operatorGroups": ["*"]}), "operatorGroups[0]: must be the name of a group".to_owned()),
        (json!({"operatorGroups": ["-x"]}), "operatorGroups[0]: must be the name of a group".to_owned()),
    ];
    for (portcullis, expected) in table {
        let problems = checked("", &portcullis).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(&expected)), "{expected}: {problems:?}");
    }
}

#[test]
fn profile_that_does_not_exist_refuses_the_object() {
    let problems = checked("maintenance", &json!({})).unwrap_err();
    assert!(problems[0].contains("is not the name of a profile"), "{problems:?}");
}

#[test]
fn object_replaces_a_profile_but_not_the_frozen_one() {
    let mut own = maintenance();
    own["name"] = json!("heartbeats");
    assert_eq!(limits(&checked("heartbeats", &json!({"profiles": [own]})).unwrap()), ["few"]);
    own["name"] = json!("frozen");
    let problems = checked("frozen", &json!({"profiles": [own]})).unwrap_err();
    assert!(problems[0].contains("answers every request with 429"), "{problems:?}");
}

#[test]
fn shadow_is_none_while_a_profile_is_in_effect() {
    let alternative = json!({"shadow": {"dispatchPolicies": maintenance()["dispatchPolicies"],
        "flowControl": maintenance()["flowControl"]}});
    assert!(checked("", &alternative).unwrap().shadow.is_some());
    for profile in BUILT_IN_PROFILES {
        assert!(checked(profile, &alternative).unwrap().shadow.is_none(), "{profile}");
    }
    let mut own = maintenance();
    own["dispatchPolicies"][0]["portcullis"] = json!({"mode": "Shadow"});
    let problems = checked("", &json!({"profiles": [own]})).unwrap_err();
    assert!(problems.iter().any(|one| one.contains("profiles[0].dispatchPolicies[0].portcullis.mode")), "{problems:?}");
}

#[test]
fn operators_are_those_that_the_object_names() {
    let groups =
        |portcullis: Value| checked("heartbeats", &portcullis).unwrap().policies[1].rules[0].user_groups.clone();
    assert_eq!(groups(json!({})), ["kubeadm:cluster-admins", "system:masters"]);
    assert_eq!(groups(json!({"operatorGroups": ["sre"]})), ["sre"]);
}

fn attached(kind: PolicyKind, role: PolicyRole, fields: Value) -> PolicyInEffect {
    let (policy, why) = (format!("{}/x", role.as_str()), "overrides".to_owned());
    PolicyInEffect { kind, policy, uid: None, role, why, fields: Ok(Arc::new(fields)) }
}

#[test]
fn denials_of_others_come_before_each_profile() {
    let own = json!({"profiles": [maintenance()]});
    let rules = |path: &str| json!([{"verbs": ["*"], "nonResourceURLs": [path]}]);
    let denial = |path: &str| json!({"dispatchPolicies": [{"rules": rules(path), "portcullis": {"action": "Deny"}}]});
    let base = json!({"dispatchPolicies": [{"rules": rules("/a")}, {"rules": rules("/b")}]});
    let base = attached(PolicyKind::Dispatch, PolicyRole::Decides, base);
    let tightens = |path: &str| attached(PolicyKind::Dispatch, PolicyRole::Tightens, denial(path));
    let denied = |policies: &[crate::Policy]| -> Vec<String> {
        let denials = policies.iter().filter(|policy| policy.deny.is_some());
        denials.flat_map(|policy| policy.rules[0].non_resource_urls.clone()).collect()
    };
    for profile in ["heartbeats", "trickle", "maintenance"] {
        let of_profile = checked(profile, &own).unwrap().policies.len();
        for is_packed in [false, true] {
            let mut document = object(profile, &own);
            if is_packed {
                pack_policies(&mut document);
            }
            let at_cluster = with_policies(&Arc::new(document), &[base.clone(), tightens("/x"), tightens("/y")]);
            let at_door = behind_door(&at_cluster, &tightens("/z")).unwrap();
            for (document, expected) in [(&at_cluster, &["/y", "/x"][..]), (&at_door, &["/z", "/y", "/x"])] {
                let raw = parse_cluster(document).unwrap();
                let cluster = check_cluster(&raw, false).outcome.unwrap();
                assert_eq!(denied(&cluster.policies[..expected.len()]), expected, "{profile}");
                assert_eq!(
                    cluster.policies.len(),
                    expected.len() + of_profile,
                    "{profile}: nothing of the base is left"
                );
                let shown = with_profile(&raw).spec.dispatch_policies.len();
                assert_eq!(shown, cluster.policies.len(), "{profile}: one list is judged and explained");
            }
        }
    }
    let frozen = with_policies(&Arc::new(object("frozen", &own)), &[tightens("/x")]);
    let frozen = check_cluster(&parse_cluster(&frozen).unwrap(), false).outcome.unwrap();
    assert!(frozen.gates.deny_all_requests);
}

#[test]
fn limits_of_a_profile_are_lowered_by_their_names() {
    let mut profile = maintenance();
    profile["flowControl"]["flowControlSchemas"] = json!([
        {"name": "own", "maxRequestsInflight": {"max": 50}}, {"name": "few", "maxRequestsInflight": {"max": 2}},
        {"name": "rate", "tokenBucket": {"qps": 9, "burst": 9}},
    ]);
    let mut document = object("maintenance", &json!({"profiles": [profile]}));
    document["spec"]["flowControl"]["flowControlSchemas"] = json!([
        {"name": "own", "maxRequestsInflight": {"max": 9}}, {"name": "few", "maxRequestsInflight": {"max": 9}},
        {"name": "rate", "maxRequestsInflight": {"max": 9}},
    ]);
    let lower = ["own", "few", "rate"].map(|name| json!({"name": name, "maxRequestsInflight": {"max": 3}}));
    let policy =
        attached(PolicyKind::FlowControl, PolicyRole::Tightens, json!({"flowControl": {"flowControlSchemas": lower}}));
    let document = Arc::new(document);
    for tightened in [with_policies(&document, std::slice::from_ref(&policy)), behind_door(&document, &policy).unwrap()]
    {
        let cluster = check_cluster(&parse_cluster(&tightened).unwrap(), false).outcome.unwrap();
        let limits: Vec<String> = cluster.schemas.iter().map(|one| format!("{} {:?}", one.name, one.limit)).collect();
        let expected =
            ["own MaxRequestsInflight(3)", "few MaxRequestsInflight(2)", "rate TokenBucket { qps: 9, burst: 9 }"];
        assert_eq!(limits, expected);
    }
}
