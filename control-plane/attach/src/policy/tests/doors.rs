//! Policies at Gateways, listeners and HTTPRoutes.

use std::collections::BTreeMap;

use portcullis_api::PolicyKind::{Dispatch, FlowControl, UpstreamIdentity};
use portcullis_api::{PolicyInEffect, PolicyKind, origins};
use portcullis_gateway_api::read_object;
use serde_json::{Value, json};

use super::{HOME, attach_policies, cluster, denial, limit, policy, rules, targets, told};
use crate::policy::{Door, DoorTargets, ListedDoors, PolicyTargets, affected_by, behind_doors};
use crate::{CONTROLLER_NAME, ClosedDoors, DoorPolicies, FormerPolicy, GatewayObjects, ObjectName, UnfitPolicy};

const GROUP: &str = "gateway.networking.k8s.io";

fn object(kind: &str, (namespace, name): (&str, &str), spec: &Value) -> Value {
    let mut metadata = json!({"name": name});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata, "spec": spec})
}

/// Gateways of this controller and of another one, each with a route of team-a.
/// The doors among objects.
pub(super) fn listed(objects: &GatewayObjects) -> DoorTargets {
    DoorTargets::Listed(ListedDoors::of(&objects.classes, &objects.gateways, &objects.http_routes))
}

pub(super) fn objects() -> GatewayObjects {
    let gateway = |namespace: &str, name: &str, class: &str| {
        let listeners = json!([{"name": "https", "port": 443, "protocol": "HTTPS"}]);
        object("Gateway", (namespace, name), &json!({"gatewayClassName": class, "listeners": listeners}))
    };
    let route = |name: &str, gateway: &str| {
        let parents = json!([{"name": gateway, "namespace": "infra"}]);
        object("HTTPRoute", ("team-a", name), &json!({"parentRefs": parents, "rules": []}))
    };
    let documents = [
        object("GatewayClass", ("", "own"), &json!({"controllerName": CONTROLLER_NAME})),
        object("GatewayClass", ("", "other"), &json!({"controllerName": "example.com/other"})),
        gateway("infra", "edge", "own"),
        gateway("infra", "foreign", "other"),
        gateway(HOME, "edge", "own"),
        route("prod", "edge"),
        route("elsewhere", "foreign"),
    ];
    let mut objects = GatewayObjects::default();
    documents.iter().for_each(|document| objects.add(read_object(document).unwrap()));
    objects
}

fn served() -> PolicyTargets {
    PolicyTargets { doors: listed(&objects()), ..targets() }
}

fn at(kind: &str, name: &str, section: Option<&str>) -> Value {
    let mut target = json!({"group": GROUP, "kind": kind, "name": name});
    if let Some(section) = section {
        target["sectionName"] = json!(section);
    }
    target
}

fn denies() -> Value {
    json!({"overrides": {"dispatchPolicies": [denial("/x")]}})
}

fn door(namespace: &str, kind: &str, name: &str) -> Door {
    let name = ObjectName::new(namespace, name);
    if kind == "Gateway" { Door::Gateway(name) } else { Door::Route(name) }
}

#[test]
fn target_is_a_door_of_the_policys_namespace() {
    for (namespace, target, expected) in [
        ("infra", at("Gateway", "edge", None), Some("Accepted")),
        ("infra", at("Gateway", "edge", Some("https")), Some("Accepted")),
        ("infra", at("Gateway", "edge", Some("http")), Some("TargetNotFound")),
        ("infra", at("Gateway", "none", None), Some("TargetNotFound")),
        // Another controller says what it makes of it.
        ("infra", at("Gateway", "foreign", None), None),
        (HOME, at("Gateway", "edge", None), Some("Accepted")),
        ("team-a", at("Gateway", "edge", None), Some("TargetNotFound")),
        ("team-a", at("HTTPRoute", "prod", None), Some("Accepted")),
        ("team-a", at("HTTPRoute", "elsewhere", None), None),
        ("team-b", at("HTTPRoute", "prod", None), Some("TargetNotFound")),
    ] {
        let one = policy(Dispatch, (namespace, "x"), 2020, &json!([target]), &denies());
        let attached = attach_policies(std::slice::from_ref(&one), &[], &served());
        let found = told(&attached).first().map(|line| line.rsplit(' ').next().unwrap().to_owned());
        assert_eq!(found.as_deref(), expected, "{namespace} {target}");
        assert_eq!(attached.at_doors.all().count(), 1, "its door may come next, and is not served without it");
        let unlisted = PolicyTargets { doors: DoorTargets::Unlisted, ..targets() };
        let attached = attach_policies(&[one], &[], &unlisted);
        assert_eq!((told(&attached).len(), attached.at_doors.all().count()), (0, 1));
    }
}

#[test]
fn policy_at_a_door_only_tightens_whatever_its_namespace() {
    let limit_of = |schema: Value| json!({"overrides": {"flowControl": {"flowControlSchemas": [schema]}}});
    let inflight = |max: i32| json!({"name": "few", "maxRequestsInflight": {"max": max}});
    for namespace in ["infra", HOME] {
        for (kind, strategy, is_accepted) in [
            (Dispatch, denies(), true),
            (Dispatch, json!({"defaults": {"dispatchPolicies": [denial("/x")]}}), false),
            (Dispatch, json!({"overrides": {"dispatchPolicies": [denial("/x"), {"rules": rules()}]}}), false),
            (Dispatch, json!({"overrides": {"dispatchPolicies": [{}]}}), false),
            (FlowControl, limit_of(inflight(3)), true),
            (FlowControl, limit_of(json!({"name": "of-another-cluster", "maxRequestsInflight": {"max": 3}})), true),
            (FlowControl, limit_of(inflight(0)), false),
            (FlowControl, limit_of(json!({"name": "few", "tokenBucket": {"qps": 1, "burst": 1}})), false),
            (FlowControl, limit_of(json!({"name": "few", "exempt": {}})), false),
            (FlowControl, json!({"overrides": {"fairQueues": [{"name": "few", "max": 1}]}}), false),
            (UpstreamIdentity, json!({"overrides": {"allowAnonymous": false}}), false),
        ] {
            let one = policy(kind, (namespace, "x"), 2020, &json!([at("Gateway", "edge", None)]), &strategy);
            let attached = attach_policies(&[one], &[], &served());
            let expected = if is_accepted { "true Accepted" } else { "false Invalid" };
            assert_eq!(told(&attached), [format!("{namespace}/x edge: Accepted {expected}")], "{kind} {strategy}");
            let count = attached.at_doors.at(&door(namespace, "Gateway", "edge")).len();
            assert_eq!(count, usize::from(is_accepted), "one with a mistake is left out");
        }
    }
}

#[test]
fn policy_of_two_instances_is_refused_at_its_doors_and_holds() {
    let both = json!([at("Gateway", "edge", None), at("Gateway", "none", None)]);
    let mut attached = attach_policies(&[policy(Dispatch, ("infra", "x"), 2020, &both, &denies())], &[], &served());
    let before = (told(&attached), attached.at_doors.clone());
    attached.refuse_spanning_at_doors(&[((FlowControl, "infra/x".to_owned()), "two".to_owned())].into());
    assert_eq!((told(&attached), attached.at_doors.clone()), before);
    attached.refuse_spanning_at_doors(&[((Dispatch, "infra/x".to_owned()), "two".to_owned())].into());
    let expected = ["infra/x edge: Accepted false SpansInstances", "infra/x none: Accepted false TargetNotFound"];
    assert_eq!((told(&attached).as_slice(), attached.at_doors), (&expected.map(str::to_owned)[..], before.1));
}

#[test]
fn oldest_policy_of_a_kind_has_its_door() {
    let at_gateway = json!([at("Gateway", "edge", None)]);
    let of = |name: &str, year: u32, kind: PolicyKind, strategy: &Value| {
        policy(kind, ("infra", name), year, &at_gateway, strategy)
    };
    let limits = json!({"overrides": limit("few", 3)});
    let policies = [
        of("b", 2020, Dispatch, &denies()),
        of("a", 2021, Dispatch, &denies()),
        of("c", 2022, FlowControl, &limits),
        policy(Dispatch, ("infra", "d"), 2023, &json!([at("Gateway", "edge", Some("https"))]), &denies()),
    ];
    let attached = attach_policies(&policies, &[], &served());
    let mut conflicted = told(&attached).into_iter().filter(|line| line.ends_with("Conflicted"));
    assert_eq!(conflicted.next().as_deref(), Some("infra/a edge: Accepted false Conflicted"));
    assert_eq!(conflicted.next(), None, "a listener is a door of its own");
    let at_door = attached.at_doors.at(&door("infra", "Gateway", "edge"));
    assert_eq!(at_door.iter().map(|one| one.policy.as_str()).collect::<Vec<_>>(), ["infra/b", "infra/c"]);
    let doors = attached.at_doors.doors(
        &ObjectName::new("infra", "edge"),
        "https",
        &ObjectName::new("team-a", "prod"),
        "a.test",
    );
    assert_eq!(doors.len(), 2, "{doors:?}");
}

fn in_effect(kind: PolicyKind, name: &str, strategy: &Value) -> PolicyInEffect {
    let one = policy(kind, ("team-a", name), 2020, &json!([at("HTTPRoute", "prod", None)]), strategy);
    let attached = attach_policies(&[one], &[], &served());
    attached.at_doors.at(&door("team-a", "HTTPRoute", "prod"))[0].clone()
}

#[test]
fn cluster_behind_doors_denies_more_and_limits_lower() {
    let (name, document) = cluster("a.test");
    let wide = in_effect(Dispatch, "wide", &denies());
    let narrow =
        in_effect(Dispatch, "narrow", &json!({"overrides": {"dispatchPolicies": [denial("/y"), denial("/z")]}}));
    let limits = json!({"overrides": {"flowControl": {"flowControlSchemas": [
        {"name": "few", "maxRequestsInflight": {"max": 3}}, {"name": "free", "maxRequestsInflight": {"max": 3}},
        {"name": "of-another-cluster", "maxRequestsInflight": {"max": 3}},
    ]}}});
    let limits = in_effect(FlowControl, "limits", &limits);
    let (tightened, unfit) = behind_doors(&document, &name, [&wide, &limits, &narrow]);
    assert_eq!(unfit, BTreeMap::new());
    let spec = &tightened["spec"];
    assert_eq!(spec["dispatchPolicies"].as_array().unwrap().len(), 4);
    assert_eq!(spec["dispatchPolicies"][3], document["spec"]["dispatchPolicies"][0]);
    let expected = json!([{"name": "few", "maxRequestsInflight": {"max": 3}}, {"name": "free", "exempt": {}}]);
    assert_eq!(spec["flowControl"]["flowControlSchemas"], expected);
    assert_eq!(spec["portcullis"], document["spec"]["portcullis"]);
    let places = origins(&tightened).into_iter().map(|one| (one.policy, one.first, one.entries)).collect::<Vec<_>>();
    let place = |name: &str, first, entries| (format!("team-a/{name}"), first, entries);
    assert_eq!(places, [place("wide", 2, 1), place("limits", 2, 0), place("narrow", 0, 2)]);
}

#[test]
fn policy_that_would_refuse_a_cluster_is_left_out_there() {
    let (name, document) = cluster("a.test");
    let mut passed_on = document.as_ref().clone();
    passed_on["spec"]["portcullis"] = json!({"transport": "TLSPassthrough"});
    passed_on["spec"].as_object_mut().unwrap().remove("flowControl");
    passed_on["spec"]["dispatchPolicies"] = json!([{"rules": rules()}]);
    let (deny, document) = (in_effect(Dispatch, "x", &denies()), std::sync::Arc::new(passed_on));
    let (tightened, unfit) = behind_doors(&document, &name, [&deny]);
    assert!(std::sync::Arc::ptr_eq(&tightened, &document));
    let key = UnfitPolicy { cluster: name.clone(), kind: Dispatch, policy: "team-a/x".to_owned() };
    assert!(unfit[&key].contains("would be refused with it: spec.") && unfit[&key].ends_with(": invalid"), "{unfit:?}");
    let condition = affected_by(&[&deny], Some(&name), &unfit).remove(0);
    assert_eq!((condition.status, condition.reason), (false, "PolicyLeftOut"));
    let condition = affected_by(&[&deny], Some("b.test"), &unfit).remove(0);
    assert_eq!((condition.kind, condition.status), ("portcullis.dev/DispatchPolicyAffected", true));
}

/// A former version neither takes the room of another door's newest policy, nor is its own newest one marked for it.
#[test]
fn former_versions_come_behind_what_all_doors_have() {
    let (name, document) = cluster("a.test");
    let many = |count: usize| vec![denial("/many"); count];
    let former = in_effect(Dispatch, "x", &json!({"overrides": {"dispatchPolicies": many(19_998)}}));
    let [newest, narrow] = ["x", "narrow"].map(|policy| in_effect(Dispatch, policy, &denies()));
    let [gateway, route] = [("Gateway", "g"), ("HTTPRoute", "r")].map(|(kind, name)| door("team-a", kind, name));
    let policies = DoorPolicies::new([(gateway.clone(), vec![newest]), (route.clone(), vec![narrow.clone()])]);
    let held = FormerPolicy { policy: former, clusters: None };
    let policies = policies.with_former([(gateway.clone(), vec![held])], ClosedDoors::default());
    let all = policies.of_doors(&[gateway, route], &name);
    let (tightened, unfit) = behind_doors(&document, &name, all.iter().flat_map(|policies| policies.iter()));
    assert!(origins(&tightened).iter().any(|origin| origin.policy == narrow.policy));
    assert_eq!(unfit, BTreeMap::new(), "{:?}", tightened["spec"]["dispatchPolicies"].as_array().map(Vec::len));
}

/// A policy has up to 16 targets, which need not be there.
#[test]
fn fields_of_a_policy_are_in_memory_once() {
    let names: Vec<String> = (0..16).map(|index| format!("r{index}")).collect();
    let all: Vec<Value> = names.iter().map(|name| at("HTTPRoute", name, None)).collect();
    let one = policy(Dispatch, ("team-a", "x"), 2020, &json!(all), &denies());
    let attached = attach_policies(std::slice::from_ref(&one), &[], &served());
    for name in &names {
        let at_door = attached.at_doors.at(&door("team-a", "HTTPRoute", name));
        let (found, own) = (at_door[0].fields.as_ref().unwrap(), one.checked.as_ref().unwrap());
        assert!(std::sync::Arc::ptr_eq(found, own), "{name}");
    }
}
