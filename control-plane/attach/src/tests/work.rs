//! The work of an attach step grows with its objects, and not with their square.

use serde_json::{Value, json};

use super::steps::{Step, steps};
use super::world::{INFRA, class, gateway, http_route, inventory, listener, object, read};
use crate::{FormerCertificates, attach, referred_contents};

/// The comparisons of host names for this many routes, with as many clusters, at listeners that share a port.
fn work(count: usize) -> u64 {
    let listeners: Vec<Value> = ["", "*.test", "*.a.test", "*.b.test"]
        .iter()
        .zip(["l", "m", "n", "o"])
        .map(|(host, name)| listener(name, 443, "HTTPS", host))
        .collect();
    let host = |index: usize| format!("x{index}.{}.test", ["a", "b", "c"][index % 3]);
    let routes = (0..count).map(|index| http_route(&format!("r{index}"), &[&host(index)], &["c2"]));
    let wide = http_route("wide", &["*.test", "*.c.test"], &["c2"]);
    let documents: Vec<Value> = [class(), gateway(&json!(listeners)), wide].into_iter().chain(routes).collect();
    let objects = read(&documents);
    let mut inventory = inventory();
    for index in 0..count {
        let names = [format!("c{index}.c.test"), format!("*.c{index}.c.test")];
        inventory.clusters.insert(format!("cluster{index}"), names.into());
    }
    steps(Step::Host, || drop(attach(&objects, &inventory)))
}

#[test]
fn work_grows_with_the_number_of_objects() {
    let (some, many) = (work(100), work(400));
    assert!(some > 100, "{some}");
    assert!(many < some * 5, "{some} for 100 objects, and {many} for 400");
}

/// The looks at grants for this many grants in a namespace, none of which fits, and as many references to it, each twice.
fn looks_at_grants(count: usize) -> u64 {
    let from = |index: usize| json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": format!("n{index}")});
    let own = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": INFRA});
    let to = |grant: usize, index: usize| json!({"group": "", "kind": "Secret", "name": format!("{grant}-{index}")});
    let grant = |grant: usize| {
        let from: Vec<Value> = (0..15).map(from).chain([own.clone()]).collect();
        let to: Vec<Value> = (0..16).map(|index| to(grant, index)).collect();
        object("ReferenceGrant", "other", &format!("grant{grant}"), &json!({"from": from, "to": to}))
    };
    let reference = |index: usize| json!({"name": format!("s{}", index / 2), "namespace": "other"});
    let https = |port: u16| {
        let mut https = listener(&format!("l{port}"), port, "HTTPS", "");
        https["tls"] = json!({"certificateRefs": (0..count * 2).map(reference).collect::<Vec<_>>()});
        https
    };
    let gateway = gateway(&(443..447).map(https).collect());
    let objects = read(&[class(), gateway].into_iter().chain((0..count).map(grant)).collect::<Vec<_>>());
    let inventory = inventory();
    steps(Step::Grant, || {
        drop(referred_contents(&objects, &FormerCertificates::new()));
        drop(attach(&objects, &inventory));
    })
}

#[test]
fn work_grows_with_the_number_of_grants_and_references() {
    let (some, many) = (looks_at_grants(20), looks_at_grants(80));
    assert!(some > 100, "{some}");
    assert!(many < some * 5, "{some} for 20 grants and references, and {many} for 80");
}

/// A route has many host names, and its servers are resolved at its Gateway once.
#[test]
fn servers_of_a_route_are_resolved_once() {
    let looks = |count: usize| {
        let hosts: Vec<String> = (0..count).map(|index| format!("x{index}.test")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let listeners = json!([listener("l", 443, "HTTPS", ""), listener("m", 8443, "HTTPS", "")]);
        let objects = read(&[class(), gateway(&listeners), http_route("r", &hosts, &["c2"])]);
        let inventory = inventory();
        steps(Step::Grant, || drop(attach(&objects, &inventory)))
    };
    assert_eq!(looks(200), looks(1));
}

#[test]
fn selector_is_compared_once_with_a_namespace() {
    let comparisons = |count: usize| {
        let selector = json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]});
        let of = |port: u16| {
            let mut https = listener(&format!("l{port}"), port, "HTTPS", "");
            https["allowedRoutes"] = json!({"namespaces": {"from": "Selector", "selector": selector}});
            https
        };
        let route = |index: usize| {
            let mut route = http_route(&format!("r{index}"), &[&format!("x{index}.test")], &["c2"]);
            route["metadata"]["namespace"] = json!(["team-a", "team-b"][index % 2]);
            route
        };
        let gateway = gateway(&(443..446).map(of).collect());
        let objects = read(&[class(), gateway].into_iter().chain((0..count).map(route)).collect::<Vec<_>>());
        let inventory = inventory();
        steps(Step::Selector, || drop(attach(&objects, &inventory)))
    };
    assert_eq!((comparisons(2), comparisons(100)), (6, 6));
}
