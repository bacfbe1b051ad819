//! Gateways whose class is gone, or is another controller's by now.

use serde_json::{Value, json};

use super::world::{INFRA, assert_among, class, gateway, inventory, lines, listener, read, tls_route};
use crate::{GatewayObjects, ObjectName, attach, has_own_conditions, without_own_conditions};

fn own() -> ObjectName {
    ObjectName::new(INFRA, "g")
}

fn documents(class: Option<Value>) -> GatewayObjects {
    let gateway = gateway(&json!([listener("l", 443, "TLS", ""), listener("s", 8443, "HTTPS", "")]));
    let all: Vec<Value> = class.into_iter().chain([gateway, tls_route("r", &["r.test"], &["c2"])]).collect();
    GatewayObjects { orphans: [own()].into(), ..read(&all) }
}

#[test]
fn gateway_is_pending_and_keeps_its_routes_without_its_class() {
    let orphan = documents(None);
    assert_eq!(orphan.without_class().count(), 1);
    let attached = attach(&orphan, &inventory());
    assert!(attached.served.is_empty() && attached.classes.is_empty() && attached.foreign.is_empty());
    let expected = [
        "gateway g Accepted Unknown Pending: GatewayClass portcullis is not there",
        "gateway g ResolvedRefs True",
        "listener l kinds TLSRoute routes 1",
        "listener s ResolvedRefs True",
        "route r Accepted True Accepted: the Gateway is not accepted",
    ];
    assert_among("the class is gone", &lines(&attached), &expected);
    let back = documents(Some(class()));
    assert_eq!(
        attach(&back, &inventory()),
        attach(&GatewayObjects { orphans: [].into(), ..back.clone() }, &inventory())
    );
    let unknown = attach(&GatewayObjects { orphans: [].into(), ..orphan }, &inventory());
    assert!(unknown.gateways.is_empty() && unknown.foreign.is_empty(), "it may be any controller's");
}

#[test]
fn gateway_passes_to_the_controller_of_its_new_class() {
    let mut other = class();
    other["spec"]["controllerName"] = json!("example.com/other");
    let objects = GatewayObjects { orphans: [].into(), ..documents(Some(other)) };
    let attached = attach(&objects, &inventory());
    assert!(attached.gateways.is_empty() && objects.without_class().next().is_none());
    assert_eq!(attached.foreign, [own()].into());
}

#[test]
fn conditions_of_the_own_domain_alone_are_removed() {
    let (own, other) = (json!({"type": "portcullis.dev/X"}), json!({"type": "example.com/X"}));
    let listener = |conditions: Value| json!({"name": "l", "attachedRoutes": 1, "conditions": conditions});
    let lists = |at_gateway: Value, at_listener: Value| json!({"conditions": at_gateway, "listeners": [listener(at_listener)], "addresses": [1]});
    for (stored, expected) in [
        (Value::Null, None),
        (lists(json!([other]), json!([other])), None),
        (lists(json!([other, own]), json!([other])), Some(json!({"conditions": [other]}))),
        (lists(json!([other]), json!([own])), Some(json!({"listeners": [listener(json!([]))]}))),
        (
            lists(json!([own]), json!([own, other])),
            Some(json!({"conditions": [], "listeners": [listener(json!([other]))]})),
        ),
    ] {
        let found = without_own_conditions(&stored);
        assert_eq!(has_own_conditions(&stored), found.is_some(), "{stored}");
        assert!(found.as_ref().is_none_or(|lists| !has_own_conditions(lists)), "{stored}");
        assert_eq!(found, expected, "{stored}");
    }
}
