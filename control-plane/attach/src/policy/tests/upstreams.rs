//! Policies of `KubernetesUpstreams`, which decide there: the upstream's namespace is its owner's.

use std::sync::Arc;

use portcullis_api::PolicyKind::{Dispatch, FlowControl, UpstreamIdentity};
use portcullis_api::{PolicyInEffect, PolicyKind, PolicyRole, assumed_material, parse_upstream, upstream_rules};
use serde_json::{Value, json};

use super::doors::{listed, objects};
use super::{HOME, attach_policies, denial, limit, policy, rules, targets, told};
use crate::policy::{AttachedPolicies, DoorTargets, PolicyTargets, affected_by, upstream_behind_doors};
use crate::{DoorPolicies, ObjectName};

fn at_upstream(name: &str) -> Value {
    json!([{"group": "portcullis.dev", "kind": "KubernetesUpstream", "name": name}])
}

fn prod() -> ObjectName {
    ObjectName::new("team-a", "prod")
}

/// The upstream `prod` of team-a.
fn with_upstream() -> PolicyTargets {
    let document = json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "KubernetesUpstream",
        "metadata": {"name": "prod", "namespace": "team-a"},
        "spec": {
            "servers": [{"endpoint": "https://10.0.0.1"}], "serverName": "kubernetes",
            "references": {"upstreamCA": {"configMap": {"name": "ca"}}, "token": {"secret": {"name": "gateway"}}},
        },
    });
    PolicyTargets { doors: listed(&objects()), upstreams: [(prod(), Arc::new(document))].into(), ..targets() }
}

fn limited() -> Value {
    json!({"overrides": {"dispatchPolicies": [denial("/x"), {"rules": rules(), "flowControlSchemaName": "few"}]}})
}

fn of(kind: PolicyKind, name: &str, year: u32, strategy: &Value) -> crate::PolicyObject {
    policy(kind, ("team-a", name), year, &at_upstream("prod"), strategy)
}

/// The rules of the upstream with what is in effect there.
fn in_effect(attached: &AttachedPolicies) -> Value {
    upstream_rules(attached.at_upstreams.get(&prod()).map_or(&[][..], Vec::as_slice))["spec"].clone()
}

#[test]
fn policies_of_the_upstreams_namespace_decide() {
    for strategy in ["overrides", "defaults"] {
        let limits = json!({strategy: limit("few", 3)});
        let all = [of(Dispatch, "x", 2020, &limited()), of(FlowControl, "y", 2020, &limits)];
        let attached = attach_policies(&all, &[], &with_upstream());
        assert_eq!(told(&attached), ["team-a/x prod: Accepted true Accepted", "team-a/y prod: Accepted true Accepted"]);
        let spec = in_effect(&attached);
        assert_eq!(spec["dispatchPolicies"], limited()["overrides"]["dispatchPolicies"]);
        assert_eq!(spec["flowControl"], limit("few", 3)["flowControl"]);
        assert!(attached.at_upstreams[&prod()].iter().all(|one| one.role == PolicyRole::Decides));
        assert!(attached.in_effect.is_empty() && attached.at_doors == DoorPolicies::default());
    }
}

#[test]
fn target_is_an_upstream_of_the_policys_namespace() {
    let unlisted = || PolicyTargets { doors: DoorTargets::Unlisted, ..with_upstream() };
    let unserved = || PolicyTargets { doors: DoorTargets::Unserved, ..with_upstream() };
    let incomplete = || PolicyTargets { is_complete: false, ..with_upstream() };
    for (case, namespace, name, targets, expected, holds) in [
        ("its own", "team-a", "prod", with_upstream(), Some("Accepted"), true),
        ("not there", "team-a", "none", with_upstream(), Some("TargetNotFound"), false),
        ("another's", "team-b", "prod", with_upstream(), Some("TargetNotFound"), false),
        ("the control plane's", HOME, "prod", with_upstream(), Some("TargetNotFound"), false),
        ("of files", "team-b", "prod", incomplete(), Some("Accepted"), false),
        ("not listed yet", "team-a", "prod", unlisted(), None, true),
        ("without Gateways", "team-a", "prod", unserved(), Some("UnsupportedValue"), false),
    ] {
        let one = policy(
            Dispatch,
            (namespace, "x"),
            2020,
            &at_upstream(name),
            &json!({"overrides": {"dispatchPolicies": [{"rules": rules()}]}}),
        );
        let attached = attach_policies(&[one], &[], &targets);
        let found = told(&attached).first().map(|line| line.rsplit(' ').next().unwrap().to_owned());
        assert_eq!(found.as_deref(), expected, "{case}");
        assert_eq!(attached.at_upstreams.contains_key(&prod()), holds, "{case}: of no other namespace");
    }
    let of_group = |group: &str| json!([{"group": group, "kind": "KubernetesUpstream", "name": "prod"}]);
    let other = policy(Dispatch, ("team-a", "x"), 2020, &of_group("proxy.kubegateway.io"), &limited());
    let attached = attach_policies(&[other], &[], &with_upstream());
    assert!(attached.at_upstreams.is_empty() && told(&attached)[0].ends_with("false Invalid"), "{:?}", told(&attached));
}

#[test]
fn policy_with_a_mistake_refuses_its_upstream() {
    let dispatch = |policy: Value| json!({"overrides": {"dispatchPolicies": [policy]}});
    let shadow = json!({"rules": rules(), "portcullis": {"mode": "Shadow"}});
    let many: Vec<Value> = (0..600).map(|index| json!({"name": format!("limit-{index}"), "exempt": {}})).collect();
    for (case, kind, strategy, why) in [
        ("a limit that is not there", Dispatch, limited(), "flowControlSchemas"),
        (
            "a subset",
            Dispatch,
            dispatch(json!({"rules": rules(), "upstreamSubset": ["https://10.0.0.1"]})),
            "upstreamSubset",
        ),
        ("a shadow", Dispatch, json!({"overrides": {"dispatchPolicies": [shadow, {"rules": rules()}]}}), "mode Shadow"),
        ("no rule", Dispatch, dispatch(json!({})), "rules"),
        ("too large", FlowControl, json!({"overrides": {"flowControl": {"flowControlSchemas": many}}}), "16384 bytes"),
    ] {
        let attached = attach_policies(&[of(kind, "x", 2020, &strategy)], &[], &with_upstream());
        let message = &attached.verdicts[0].ancestors[0].conditions[0].message;
        assert_eq!(told(&attached), ["team-a/x prod: Accepted false Invalid"], "{case}");
        assert!(message.contains(why) && message.contains("requests of its routes get 500"), "{case}: {message}");
        assert!(attached.at_upstreams.contains_key(&prod()), "{case}: its routes lead nowhere by it");
    }
    // The upstream alone decides about users: nothing is closed for a policy that could not have an effect.
    let users = of(UpstreamIdentity, "x", 2020, &json!({"overrides": {"allowAnonymous": false}}));
    let attached = attach_policies(&[users], &[], &with_upstream());
    assert_eq!(told(&attached), ["team-a/x prod: Accepted false Invalid"]);
    assert!(attached.at_upstreams.is_empty());
}

#[test]
fn oldest_policy_of_a_kind_decides_at_an_upstream() {
    let limits = |max: i32| json!({"overrides": limit("few", max)});
    let all = [of(FlowControl, "a", 2021, &limits(1)), of(FlowControl, "b", 2020, &limits(2))];
    let attached = attach_policies(&all, &[], &with_upstream());
    assert_eq!(told(&attached), ["team-a/b prod: Accepted true Accepted", "team-a/a prod: Accepted false Conflicted"]);
    assert_eq!(in_effect(&attached)["flowControl"], limit("few", 2)["flowControl"]);
}

/// A policy that is left out may deny something at an upstream of this namespace, wherever the route to it is.
#[test]
fn upstream_of_a_namespace_with_too_many_policies_is_closed() {
    let doors = DoorPolicies::default().with_unread(&["team-a".to_owned()].into());
    let (gateway, route) = (ObjectName::new("infra", "edge"), ObjectName::new("team-b", "r"));
    let of_gateway = |cluster: &str| doors.of_gateway(&gateway, &[&route].into(), &[cluster].into());
    for (cluster, is_closed) in [("team-a/prod", true), ("team-b/prod", false), ("team-a", false)] {
        assert_eq!(doors.are_unread(&gateway, "https", &route, cluster), is_closed, "{cluster}");
        assert_eq!(of_gateway(cluster).are_unread(&gateway, "https", &route, cluster), is_closed, "{cluster}");
    }
}

/// A denial of a Gateway that asks for the user, at an upstream whose servers find that out.
#[test]
fn policy_that_does_not_fit_an_upstream_closes_the_route() {
    let mut document = with_upstream().upstreams[&prod()].as_ref().clone();
    document["spec"]["references"] = ["upstreamCA", "clientCA", "client"]
        .map(|name| (name.to_owned(), json!({"secret": {"name": name.to_lowercase()}})))
        .into_iter()
        .collect();
    let in_effect = |name: &str, rule: Value| {
        let fields = json!({"dispatchPolicies": [{"rules": [rule], "portcullis": {"action": "Deny"}}]});
        let (policy, why) = (name.to_owned(), "overrides".to_owned());
        let (uid, role, fields) = (None, PolicyRole::Tightens, Ok(Arc::new(fields)));
        PolicyInEffect { kind: Dispatch, policy, uid, role, why, fields }
    };
    let contractors = json!({"verbs": ["*"], "nonResourceURLs": ["/x"], "userGroups": ["contractors"]});
    let by_user = in_effect("infra/contractors", contractors);
    let by_path = in_effect("team-a/path", json!({"verbs": ["*"], "nonResourceURLs": ["/y"]}));
    for (identity, is_open) in [("Impersonate", true), ("RequestHeader", false)] {
        document["spec"]["upstreamIdentity"] = json!(identity);
        let raw = parse_upstream(&document).unwrap();
        let all = [&by_user, &by_path];
        let (_, unfit) = upstream_behind_doors(&raw, &assumed_material(&raw), &upstream_rules(&[]), all);
        assert_eq!(unfit.is_empty(), is_open, "{identity}: {unfit:?}");
        let condition = affected_by(&all, Some("team-a/prod"), &unfit).remove(0);
        assert_eq!(condition.status, is_open, "{identity}: {}", condition.message);
        if !is_open {
            let why = "DispatchPolicy infra/contractors closes the route: KubernetesUpstream team-a/prod would be refused with it: spec.";
            assert_eq!(condition.reason, "UnsupportedPolicies");
            assert!(condition.message.starts_with(why), "{}", condition.message);
        }
    }
}
