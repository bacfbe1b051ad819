//! Routes that are accepted, and whose connections are closed at some of their listeners.

use serde_json::{Value, json};

use super::world::{INFRA, class, gateway, http_route, inventory, listener, read};
use crate::condition::ConditionVerdict;
use crate::{Attached, ClosedRoutes, ObjectName, ParentVerdict, RouteClosure, RouteKind, attach};

fn closure(listener: &str) -> RouteClosure {
    let (gateway, message) = (ObjectName::new(INFRA, "g"), "no room".into());
    RouteClosure { gateway, listener: listener.to_owned(), reason: "TooManyClusters", message }
}

/// `Accepted` of each parent of a route at three listeners, with closures at some.
fn accepted(parents: &Value, closures: &[RouteClosure]) -> Vec<String> {
    let listeners = [("a", 443, ""), ("b", 8443, ""), ("c", 9443, "other.test")];
    let mut listeners: Vec<Value> =
        listeners.iter().map(|(name, port, host)| listener(name, *port, "HTTPS", host)).collect();
    listeners.push(listener("plain", 80, "HTTP", ""));
    let mut route = http_route("r", &["r.test"], &["c2"]);
    route["spec"]["parentRefs"] = parents.clone();
    let attached = attach(&read(&[class(), gateway(&json!(listeners)), route]), &inventory());
    let verdict = attached.routes[0]
        .with_closures(closures, |name| attached.served.iter().find(|one| one.gateway == *name).map(AsRef::as_ref));
    let one = |parent: &ParentVerdict| {
        let [accepted, resolved] = parent.conditions.as_slice() else { panic!("{parent:?}") };
        assert!(accepted.kind == "Accepted" && resolved.kind == "ResolvedRefs" && resolved.status);
        format!("{} {}: {}", accepted.status, accepted.reason, accepted.message)
    };
    verdict.parents.iter().map(one).collect()
}

fn parent(more: &Value) -> Value {
    let mut parent = json!({"name": "g", "namespace": INFRA});
    parent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    parent
}

#[test]
fn route_says_at_which_listeners_its_connections_are_closed() {
    let parents = json!([
        parent(&json!({})),
        parent(&json!({"sectionName": "a"})),
        parent(&json!({"sectionName": "b"})),
        parent(&json!({"port": 443})),
    ]);
    let at = |listener: &str| format!("connections at listener {listener} are closed: no room");
    let (open, closed) = ("true Accepted: ".to_owned(), "false TooManyClusters: ");
    let elsewhere = RouteClosure { gateway: ObjectName::new(INFRA, "other"), ..closure("a") };
    for (case, closures, expected) in [
        ("none", vec![], [open.clone(), open.clone(), open.clone(), open.clone()]),
        ("of another Gateway", vec![elsewhere], [open.clone(), open.clone(), open.clone(), open.clone()]),
        (
            "one of two",
            vec![closure("a")],
            [
                format!("{open}{}", at("a")),
                format!("{closed}{}", at("a")),
                open.clone(),
                format!("{closed}{}", at("a")),
            ],
        ),
        (
            "both",
            vec![closure("a"), closure("b")],
            [
                format!("{closed}{}; {}", at("a"), at("b")),
                format!("{closed}{}", at("a")),
                format!("{closed}{}", at("b")),
                format!("{closed}{}", at("a")),
            ],
        ),
    ] {
        assert_eq!(accepted(&parents, &closures), expected, "{case}");
    }
}

#[test]
fn message_about_closed_listeners_is_bounded() {
    let listeners: Vec<Value> =
        (0..6).map(|index| listener(&format!("l{index}"), 8_000 + index, "HTTPS", "")).collect();
    let route = http_route("r", &["r.test"], &["c2"]);
    let attached = attach(&read(&[class(), gateway(&json!(listeners)), route]), &inventory());
    let closures: Vec<_> = (0..6).map(|index| closure(&format!("l{index}"))).collect();
    let verdict = attached.routes[0]
        .with_closures(&closures, |name| attached.served.iter().find(|one| one.gateway == *name).map(AsRef::as_ref));
    let message = &verdict.parents[0].conditions[0].message;
    assert!(message.ends_with("listener l2 are closed: no room; and at 3 more"), "{message}");
}

/// The routes that each listener counts with these closures.
fn counts(attached: &Attached, closures: &[RouteClosure]) -> Vec<usize> {
    let key = (RouteKind::Http, attached.routes[0].name.clone());
    let closed = ClosedRoutes::of(attached, &[(key, closures.to_vec())].into());
    closed.gateway(&attached.gateways[0]).listeners.iter().map(|listener| listener.attached_routes).collect()
}

#[test]
fn route_without_any_open_listener_is_not_counted() {
    let listeners =
        json!([listener("a", 443, "HTTPS", ""), listener("b", 8443, "HTTPS", ""), listener("plain", 80, "HTTP", ""),]);
    let [whole, only_a, only_b] = [json!({}), json!({"sectionName": "a"}), json!({"sectionName": "b"})];
    for (why, parents, closed, expected) in [
        ("none is closed", vec![&whole], &[][..], [2, 2, 2]),
        ("one of two of a reference", vec![&whole], &["a"][..], [2, 2, 2]),
        ("all of a reference", vec![&whole], &["a", "b"][..], [1, 1, 1]),
        ("all of one reference", vec![&only_a, &only_b], &["a"][..], [1, 2, 1]),
        ("another reference is open", vec![&whole, &only_a], &["a"][..], [2, 2, 2]),
    ] {
        let mut route = http_route("r", &["r.test"], &["c2"]);
        route["spec"]["parentRefs"] = parents.into_iter().map(parent).collect();
        let other = http_route("s", &["s.test"], &["c2"]);
        let attached = attach(&read(&[class(), gateway(&listeners), route, other]), &inventory());
        let closures: Vec<_> = closed.iter().map(|name| closure(name)).collect();
        assert_eq!(counts(&attached, &closures), expected, "{why}");
    }
}

#[test]
fn closed_route_is_not_partially_invalid() {
    let listeners = json!([listener("a", 443, "HTTPS", ""), listener("b", 8443, "HTTPS", "")]);
    let mut attached =
        attach(&read(&[class(), gateway(&listeners), http_route("r", &["r.test"], &["c2"])]), &inventory());
    let partial = ConditionVerdict::holds("PartiallyInvalid", "UnsupportedValue", "a rule is dropped");
    attached.routes[0].parents[0].conditions.push(partial);
    let key = (RouteKind::Http, attached.routes[0].name.clone());
    for (closed, expected) in [(&["a"][..], true), (&["a", "b"][..], false)] {
        let closures = closed.iter().map(|name| closure(name)).collect();
        let found = ClosedRoutes::of(&attached, &[(key.clone(), closures)].into());
        let route = found.route(&attached.routes[0]);
        let has_partial = route.parents[0].conditions.iter().any(|one| one.kind == "PartiallyInvalid");
        assert_eq!(has_partial, expected, "{closed:?}");
    }
}
