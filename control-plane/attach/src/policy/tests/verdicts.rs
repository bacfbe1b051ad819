use portcullis_api::{MergeStrategy, PolicyKind, PolicyRole, oversized_policy};
use serde_json::{Value, json};

use super::{
    HOME, all_grants, at_cluster, attach_policies, grant, in_effect, limit, merged, policy, rules, targets, told,
};
use crate::policy::{PolicyObject, PolicyTargets, PolicyVerdict, overriding_policy};

const DISPATCH: PolicyKind = PolicyKind::Dispatch;

fn dispatch(server: &str) -> Value {
    json!({"overrides": {"dispatchPolicies": [{"rules": rules(), "upstreamSubset": [server]}]}})
}

fn home(name: &str, year: u32, strategy: &Value) -> PolicyObject {
    policy(DISPATCH, (HOME, name), year, &json!([at_cluster("a.test")]), strategy)
}

fn messages(policies: &[PolicyObject]) -> Vec<String> {
    let attached = attach_policies(policies, &all_grants(), &targets());
    let conditions = attached.verdicts.into_iter().flat_map(|one| one.ancestors).flat_map(|one| one.conditions);
    conditions.map(|one| one.message).collect()
}

#[test]
fn policy_of_the_control_planes_namespace_decides() {
    let attached = attach_policies(&[home("x", 2020, &dispatch("https://10.0.0.2"))], &[], &targets());
    assert_eq!(told(&attached), ["portcullis/x a.test: Accepted true Accepted"]);
    assert_eq!(merged(&attached, "a.test")["dispatchPolicies"][0]["upstreamSubset"], json!(["https://10.0.0.2"]));
    assert_eq!(in_effect(&attached, "b.test"), []);
    let affected = attached.affected("a.test");
    assert_eq!(affected.len(), 1);
    assert_eq!(affected[0].kind, "portcullis.dev/DispatchPolicyAffected");
    assert!(affected[0].message.starts_with("DispatchPolicy portcullis/x decides"), "{}", affected[0].message);
}

/// A condition is all that a tool has that only reads the object.
#[test]
fn condition_says_which_policy_overrides() {
    let at = json!([at_cluster("a.test")]);
    let tightens = policy(PolicyKind::FlowControl, ("team-a", "t"), 2019, &at, &json!({"overrides": limit("few", 3)}));
    let decides = |strategy: &str, name: &str| {
        policy(PolicyKind::FlowControl, (HOME, name), 2020, &at, &json!({strategy: limit("few", 3)}))
    };
    for (policies, expected) in [
        (vec![tightens.clone()], None),
        (vec![tightens.clone(), decides("overrides", "x")], Some("FlowControlPolicy portcullis/x")),
        (vec![decides("overrides", "x")], Some("FlowControlPolicy portcullis/x")),
    ] {
        let affected = attach_policies(&policies, &all_grants(), &targets()).affected("a.test");
        let messages: Vec<&str> = affected.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(messages.iter().find_map(|message| overriding_policy(message)), expected, "{messages:?}");
    }
    let mut without = targets();
    let mut own = without.clusters["a.test"].as_ref().clone();
    own["spec"].as_object_mut().unwrap().remove("flowControl");
    own["spec"]["dispatchPolicies"] = json!([{"rules": rules()}]);
    without.clusters.insert("a.test".to_owned(), std::sync::Arc::new(own));
    let affected = attach_policies(&[decides("defaults", "x")], &[], &without).affected("a.test");
    assert!(affected.len() == 1 && overriding_policy(&affected[0].message).is_none(), "{affected:?}");
}

#[test]
fn oldest_policy_has_a_part_and_the_others_name_it() {
    let (first, second) = (dispatch("https://10.0.0.1"), dispatch("https://10.0.0.2"));
    for (policies, winner) in [
        ([home("b", 2020, &first), home("a", 2021, &second)], "portcullis/b"),
        ([home("b", 2020, &first), home("a", 2020, &second)], "portcullis/a"),
        // One that is refused keeps its part.
        (
            [home("b", 2020, &json!({"overrides": {"dispatchPolicies": [{}]}})), home("a", 2021, &second)],
            "portcullis/b",
        ),
    ] {
        let attached = attach_policies(&policies, &[], &targets());
        assert_eq!(in_effect(&attached, "a.test"), [(format!("DispatchPolicy {winner}"), PolicyRole::Decides)]);
        let conflicted: Vec<_> = told(&attached).into_iter().filter(|line| line.ends_with("Conflicted")).collect();
        assert_eq!(conflicted.len(), 1, "{conflicted:?}");
        assert!(messages(&policies).iter().any(|message| message.contains(&format!("{winner} comes first"))));
    }
}

#[test]
fn conflict_says_which_policies_have_no_time() {
    let undated = |mut policy: PolicyObject| {
        policy.metadata.creation_timestamp = None;
        policy
    };
    let (a, b) = (|| home("a", 2021, &dispatch("https://10.0.0.1")), || home("b", 2020, &dispatch("https://10.0.0.2")));
    for (policies, expected) in [
        ([a(), b()], None),
        ([undated(a()), b()], Some("portcullis/a has no creationTimestamp")),
        ([undated(a()), undated(b())], Some("portcullis/a and portcullis/b have no creationTimestamp")),
    ] {
        let messages = messages(&policies);
        let found = messages.iter().find(|message| message.contains("no creationTimestamp"));
        assert_eq!(found.is_some(), expected.is_some(), "{messages:?}");
        assert!(expected.is_none_or(|expected| found.unwrap().contains(expected)), "{messages:?}");
    }
}

#[test]
fn defaults_yield_to_fields_of_the_cluster() {
    let at = json!([at_cluster("a.test")]);
    let flow = policy(PolicyKind::FlowControl, (HOME, "flow"), 2020, &at, &json!({"defaults": limit("few", 3)}));
    let users = json!({"defaults": {"allowAnonymous": false}});
    let users = policy(PolicyKind::UpstreamIdentity, (HOME, "users"), 2020, &at, &users);
    let attached = attach_policies(&[flow, users], &[], &targets());
    let expected = [
        "portcullis/flow a.test: Accepted true Accepted",
        "portcullis/flow a.test: Programmed false Overridden",
        "portcullis/users a.test: Accepted true Accepted",
    ];
    assert_eq!(told(&attached), expected);
    let spec = merged(&attached, "a.test");
    assert_eq!(spec["flowControl"]["flowControlSchemas"][0]["maxRequestsInflight"]["max"], 5);
    assert_eq!(spec["portcullis"]["allowAnonymous"], false);
}

#[test]
fn target_is_looked_for_after_the_permission() {
    let deny = json!({"overrides": {"dispatchPolicies": [super::denial("/x")]}});
    let gateway = |section: &str| json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g", "sectionName": section});
    let route = |name: &str| json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name});
    let targets_of =
        json!([at_cluster("a.test"), at_cluster("none.test"), gateway("https"), gateway("none"), route("r")]);
    let of_team = policy(DISPATCH, ("team-a", "x"), 2020, &targets_of, &deny);
    let reasons = |grants: &[_], targets: &PolicyTargets| {
        let attached = attach_policies(std::slice::from_ref(&of_team), grants, targets);
        told(&attached).iter().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let rest = ["UnsupportedValue"; 3];
    let granted = grant(HOME, DISPATCH, "team-a", None);
    assert_eq!(reasons(&[granted], &targets())[..2], ["Accepted", "TargetNotFound"]);
    for grants in [
        vec![],
        vec![grant("team-a", DISPATCH, "team-a", None)],
        vec![grant(HOME, PolicyKind::FlowControl, "team-a", None)],
        vec![grant(HOME, DISPATCH, "team-b", None)],
        vec![grant(HOME, DISPATCH, "team-a", Some("b.test"))],
    ] {
        let found = reasons(&grants, &targets());
        assert_eq!(found[..2], ["RefNotPermitted", "RefNotPermitted"], "{grants:?}");
        assert_eq!(found[2..], rest);
    }
    let offline = PolicyTargets { is_complete: false, ..targets() };
    assert_eq!(reasons(&all_grants(), &offline)[..2], ["Accepted", "Accepted"]);
}

#[test]
fn mistake_of_a_deciding_policy_refuses_the_cluster() {
    let unknown_server = home("x", 2020, &dispatch("https://10.9.9.9"));
    let malformed = home("x", 2020, &json!({"overrides": {"dispatchPolicies": [{"rule": []}]}}));
    for policy in [unknown_server, malformed] {
        let attached = attach_policies(&[policy], &[], &targets());
        assert_eq!(told(&attached), ["portcullis/x a.test: Accepted false Invalid"]);
        assert_eq!(
            in_effect(&attached, "a.test").len(),
            1,
            "its cluster is refused, and does not go back to its own fields"
        );
    }
}

#[test]
fn oversized_policy_keeps_its_part_and_refuses_the_cluster() {
    let document = |strategy: &str| {
        let metadata = json!({"name": "x", "namespace": HOME, "creationTimestamp": "2020-01-01T00:00:00Z"});
        let spec = json!({"targetRefs": [at_cluster("a.test")], strategy: {"dispatchPolicies": []}});
        json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": DISPATCH.as_str(), "metadata": metadata, "spec": spec})
    };
    let read = |strategy: &str| PolicyObject::read(DISPATCH, &oversized_policy(&document(strategy)));
    let (oversized, younger) = (read("overrides"), home("y", 2021, &dispatch("https://10.0.0.1")));
    let attached = attach_policies(&[oversized, younger], &[], &targets());
    let expected = ["portcullis/x a.test: Accepted false Invalid", "portcullis/y a.test: Accepted false Conflicted"];
    assert_eq!(told(&attached), expected);
    assert!(attached.in_effect["a.test"][0].fields.is_err(), "what was accepted last stays in use");
    assert_eq!(read("defaults").strategy, MergeStrategy::Defaults);
}

#[test]
fn policy_of_several_instances_is_refused_where_it_is_in_effect() {
    let both = json!([at_cluster("a.test"), at_cluster("gone.test")]);
    let flow = |of: (&str, &str), year, max| {
        policy(PolicyKind::FlowControl, of, year, &both, &json!({"overrides": limit("few", max)}))
    };
    let (own, of_team) = (flow((HOME, "own"), 2020, 4), flow(("team-a", "theirs"), 2021, 3));
    let mut attached = attach_policies(&[own, of_team], &all_grants(), &targets());
    let (before, in_effect) = (told(&attached), attached.in_effect.clone());
    let why = || "one to Instance a, one to Instance b".to_owned();
    let key = |policy: &str| (PolicyKind::FlowControl, policy.to_owned());
    attached.refuse_spanning(&[(key("portcullis/none"), why())].into());
    assert_eq!(told(&attached), before);
    attached.refuse_spanning(&[(key(&format!("{HOME}/own")), why()), (key("team-a/theirs"), why())].into());
    assert_eq!(attached.in_effect, in_effect, "no moment is without them");
    let conditions = |verdict: &PolicyVerdict| -> Vec<(&'static str, String)> {
        let all = verdict.ancestors.iter().flat_map(|ancestor| &ancestor.conditions);
        all.map(|one| (one.reason, one.message.clone())).collect()
    };
    for (verdict, rest) in attached.verdicts.iter().zip(["stays in use until", "holds there all the same"]) {
        let found = conditions(verdict);
        assert_eq!((found[0].0, found[1].0), ("SpansInstances", "TargetNotFound"), "{found:?}");
        assert!(found[0].1.starts_with(&why()) && found[0].1.contains(rest), "{found:?}");
    }
}
