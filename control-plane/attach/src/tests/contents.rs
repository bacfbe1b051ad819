//! Secrets and `ConfigMaps` that are read for Gateways: those they may refer to, and a bounded number.

use serde_json::{Value, json};

use super::world::{INFRA, assert_lines, class, created, gateway, inventory, listener, object, read};
use crate::{FormerCertificates, Inventory, ListenerName, ObjectName, Usability, attach, referred_contents};

fn https(name: &str, port: u16, references: &Value) -> Value {
    let mut https = listener(name, port, "HTTPS", "a.test");
    https["tls"] = json!({"certificateRefs": references});
    https
}

fn names(documents: &[Value]) -> Vec<String> {
    referred_contents(&read(documents), &FormerCertificates::new()).iter().map(ToString::to_string).collect()
}

fn grant(kind: &str) -> Value {
    let from = json!([{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": INFRA}]);
    object("ReferenceGrant", "other", "grant", &json!({"from": from, "to": [{"group": "", "kind": kind}]}))
}

fn named(mut gateway: Value, name: &str, year: u32) -> Value {
    gateway["metadata"]["name"] = json!(name);
    created(gateway, year)
}

/// References to so many Secrets.
fn secrets(prefix: &str, count: usize) -> Value {
    (0..count).map(|index| json!({"name": format!("{prefix}{index}")})).collect()
}

#[test]
fn contents_are_those_that_gateways_may_refer_to() {
    let references = json!([
        {"name": "cert"}, {"name": "guest", "namespace": "other"}, {"kind": "ConfigMap", "name": "kind"},
        {"group": "a.test", "name": "group"},
    ]);
    let mut passed = listener("t", 8443, "TLS", "b.test");
    passed["tls"] = json!({"mode": "Passthrough", "certificateRefs": [{"name": "unused"}]});
    let mut own = gateway(&json!([https("l", 443, &references), passed]));
    let authority =
        |name: &str, namespace: &str| json!({"group": "", "kind": "ConfigMap", "name": name, "namespace": namespace});
    let validation = |references: &Value| json!({"validation": {"caCertificateRefs": references}});
    own["spec"]["tls"] = json!({"frontend": {
        "default": validation(&json!([authority("ca", INFRA), authority("ca", "other")])),
        "perPort": [{"port": 8443, "tls": validation(&json!([authority("unused", INFRA)]))}],
    }});
    let mut foreign = named(gateway(&json!([https("l", 443, &json!([{"name": "foreign"}]))])), "foreign", 2024);
    foreign["spec"]["gatewayClassName"] = json!("of-another-controller");
    let all = [class(), own, foreign];
    assert_eq!(names(&all), ["Secret infra/cert", "ConfigMap infra/ca"], "without a grant");
    let with = |kind: &str| names(&all.iter().cloned().chain([grant(kind)]).collect::<Vec<_>>());
    assert_eq!(with("Secret"), ["Secret infra/cert", "Secret other/guest", "ConfigMap infra/ca"]);
    assert_eq!(with("ConfigMap"), ["Secret infra/cert", "ConfigMap infra/ca", "ConfigMap other/ca"]);
}

#[test]
fn gateway_refers_to_a_bounded_number_of_contents() {
    let listeners =
        json!([https("l", 443, &secrets("a", 64)), https("m", 8443, &json!([{"name": "a3"}, {"name": "cert"}]))]);
    let gateway = gateway(&listeners);
    assert_eq!(names(&[class(), gateway.clone()]).len(), 64);
    let excess = "listener m ResolvedRefs False InvalidCertificateRef: spec.listeners[1].tls.certificateRefs";
    assert_lines("a3 is not there, and cert is one too many", std::slice::from_ref(&gateway), &[excess, "no served m"]);
    let with_room =
        json!([https("l", 443, &secrets("a", 63)), https("m", 8443, &json!([{"name": "a3"}, {"name": "cert"}]))]);
    assert_lines("room for it", &[super::world::gateway(&with_room)], &["served m:8443 a.test terminate infra/cert"]);
    let mut known = inventory();
    let all = secrets("a", 64);
    let all = all.as_array().unwrap().iter().map(|one| ObjectName::new(INFRA, one["name"].as_str().unwrap()));
    known.secrets.extend(all.map(|name| (name, Usability::Usable)));
    let attached = attach(&read(&[class(), gateway]), &known);
    let message = &attached.gateways[0].listeners[1].conditions[2].message;
    assert!(message.contains("Secret infra/cert is not read: more than 64"), "{message}");
}

/// A Gateway of its own namespace that refers to so many Secrets there.
fn gateway_of(namespace: &str, name: &str, year: u32, count: usize) -> Value {
    let gateway = gateway(&json!([https("l", 443, &secrets(&format!("{name}x"), count))]));
    let mut gateway = named(gateway, name, year);
    gateway["metadata"]["namespace"] = json!(namespace);
    gateway
}

fn with_class(gateways: impl IntoIterator<Item = Value>) -> Vec<Value> {
    [class()].into_iter().chain(gateways).collect()
}

#[test]
fn contents_of_older_gateways_have_room_first() {
    let gateways = |count: usize| {
        let one = |index: usize| {
            let name = format!("g{index}");
            gateway_of(&format!("team-{index}"), &name, 2024 - u32::try_from(index).unwrap(), 50)
        };
        (0..count).map(one).collect::<Vec<_>>()
    };
    let all = names(&with_class(gateways(10)));
    assert_eq!(all.len(), 500);
    let more = names(&with_class(gateways(11)));
    assert_eq!(more.len(), 500);
    assert!(more.iter().any(|name| name.contains("team-10/g10x")), "the oldest is the last of them here");
    assert!(!more.iter().any(|name| name.contains("team-0/g0x")), "the youngest is left out");
    let reversed: Vec<Value> = with_class(gateways(11)).into_iter().rev().collect();
    assert_eq!(names(&reversed), more, "their order makes no difference");
}

#[test]
fn gateways_of_one_namespace_leave_room_for_others() {
    let crowd = (0..10).map(|index| gateway_of("crowd", &format!("c{index}"), 2001 + index, 64));
    let all = names(&with_class(crowd.chain([gateway_of("team", "late", 2024, 64)])));
    let of = |namespace: &str| all.iter().filter(|name| name.contains(&format!(" {namespace}/"))).count();
    assert_eq!((of("crowd"), of("team")), (128, 64));
}

/// A listener whose references have turned from these Secrets to one that is not read yet.
fn turned_from(former: &[(&str, &str)], grants: &[Value]) -> Vec<String> {
    let gateway = gateway(&json!([https("l", 443, &json!([{"name": "unread"}]))]));
    let documents: Vec<Value> = [class(), gateway].into_iter().chain(grants.iter().cloned()).collect();
    let listener = ListenerName { gateway: ObjectName::new(INFRA, "g"), listener: "l".to_owned() };
    let former: Vec<_> = former.iter().map(|(namespace, name)| ObjectName::new(*namespace, *name)).collect();
    let mut known = Inventory { former_certificates: [(listener, former)].into(), ..inventory() };
    known.secrets.insert(ObjectName::new(INFRA, "unread"), Usability::Malformed("it is not read yet".to_owned()));
    let objects = read(&documents);
    let referred = referred_contents(&objects, &known.former_certificates);
    let lines = super::world::lines(&attach(&objects, &known));
    let served = lines.into_iter().filter(|line| line.starts_with("served ") || line.contains("ResolvedRefs False"));
    served.chain(referred.iter().map(|name| format!("read {name}"))).collect()
}

#[test]
fn former_certificate_stays_while_the_new_one_is_not_read() {
    let unread = "listener l ResolvedRefs False InvalidCertificateRef: spec.listeners[0].tls.certificateRefs[0]: Secret \
                  infra/unread: it is not read yet";
    let is_served = |lines: &[String], with: &str| lines.contains(&format!("served l:443 a.test terminate {with}"));
    let kept = turned_from(&[(INFRA, "cert")], &[]);
    assert!(is_served(&kept, "infra/cert") && kept.iter().any(|line| line == unread), "{kept:#?}");
    assert!(kept.contains(&"read Secret infra/cert".to_owned()), "it is read, so that its end is noticed");
    for (case, former, grants) in [
        ("no former one", vec![], vec![]),
        ("one that is gone", vec![(INFRA, "gone")], vec![]),
        ("one that is malformed", vec![(INFRA, "bad")], vec![]),
        ("one without a grant any more", vec![("other", "cert")], vec![]),
        ("a grant for another kind", vec![("other", "cert")], vec![grant("ConfigMap")]),
    ] {
        let lines = turned_from(&former, &grants);
        assert!(!lines.iter().any(|line| line.starts_with("served ")), "{case}: {lines:#?}");
    }
    let granted = turned_from(&[("other", "cert")], &[grant("Secret")]);
    assert!(is_served(&granted, "other/cert"), "{granted:#?}");
}

#[test]
fn listener_with_a_usable_certificate_has_no_former_one() {
    let gateway = gateway(&json!([https("l", 443, &json!([{"name": "unread"}, {"name": "cert"}]))]));
    let listener = ListenerName { gateway: ObjectName::new(INFRA, "g"), listener: "l".to_owned() };
    let former = [(listener, vec![ObjectName::new("other", "cert")])].into();
    let known = Inventory { former_certificates: former, ..inventory() };
    let lines = super::world::lines(&attach(&read(&[class(), gateway, grant("Secret")]), &known));
    assert!(lines.contains(&"served l:443 a.test terminate infra/cert".to_owned()), "{lines:#?}");
}

#[test]
fn former_certificates_take_no_room_from_new_ones() {
    let gateway = gateway(&json!([https("l", 443, &secrets("a", 63)), https("m", 8443, &json!([{"name": "b"}]))]));
    let listener = ListenerName { gateway: ObjectName::new(INFRA, "g"), listener: "l".to_owned() };
    let former = [(listener, vec![ObjectName::new(INFRA, "former")])].into();
    let all = referred_contents(&read(&[class(), gateway]), &former);
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert!(names.len() == 64 && names.contains(&"Secret infra/b".to_owned()), "{names:?}");
    assert!(!names.contains(&"Secret infra/former".to_owned()));
}
