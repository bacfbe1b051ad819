//! The work of an attach step grows with its objects, and not with their square.

use serde_json::{Value, json};

use super::bounds::{names, route, wide_gateway};
use super::steps::{Step, steps};
use super::world::{HOME, INFRA, class, gateway, http_route, inventory, listener, object, read, tls_route};
use crate::{FormerCertificates, Inventory, attach, referred_contents};

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

/// The work of a route of 1,000 names at this many Gateways of 64 listeners: comparisons, names that are listed, and names that it holds;
/// first without a past, then with it.
fn work_at_full_gateways(count: usize) -> [(u64, u64, usize); 2] {
    let name = |index: usize| format!("g{index:02}");
    let gateways = (0..count).map(|index| wide_gateway(&name(index)));
    let mut wide = route(HOME, "wide", names("x", 1_000), 2024);
    wide["spec"]["parentRefs"] = (0..count).map(|index| json!({"name": name(index), "namespace": INFRA})).collect();
    let objects = read(&[class(), wide].into_iter().chain(gateways).collect::<Vec<_>>());
    let of = |inventory: &Inventory| {
        let count = |step: Step| steps(step, || drop(attach(&objects, inventory)));
        (count(Step::Host), count(Step::Name), attach(&objects, inventory).holders.each().count())
    };
    let without = inventory();
    let former_holders = attach(&objects, &without).holders;
    [of(&without), of(&Inventory { former_holders, ..inventory() })]
}

#[test]
fn names_beyond_the_bound_of_a_route_take_no_work() {
    let (at_two, at_many) = (work_at_full_gateways(2), work_at_full_gateways(32));
    for (two, many) in at_two.into_iter().zip(at_many) {
        assert_eq!((two.2, many.2), (4_096, 4_096), "as many as a route may have");
        // The last listener has room for some of them.
        assert!(many.1 <= 5_000 && many.1 <= two.1 + 1, "{many:?} names are listed at 32 Gateways, and {two:?} at two");
        assert!(many.0 < two.0 * 3 / 2, "{two:?} steps for two Gateways, and {many:?} for 32");
    }
}

/// The comparisons for names with this many labels below wildcards of clusters, listeners and another tenant, at all of which each is
/// looked for.
fn work_for_labels(count: usize) -> u64 {
    let listeners = [("l", ""), ("m", "*.test"), ("n", "*.b.test")];
    let listeners: Vec<Value> = listeners.iter().map(|(name, host)| listener(name, 443, "TLS", host)).collect();
    let labels = "a.".repeat(count - 2);
    let hosts: Vec<String> = (0..200).map(|index| format!("x{index}.{labels}test")).collect();
    let of_team = |name: &str, hosts: &[&str]| {
        let mut route = tls_route(name, hosts, &["c2"]);
        route["metadata"]["namespace"] = json!(name);
        route
    };
    let narrow: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let mut routes = [of_team("team-a", &["*.test", "*.b.test"]), of_team("team-b", &narrow)];
    routes[1]["spec"]["parentRefs"][0]["sectionName"] = json!("m");
    let documents: Vec<Value> = [class(), gateway(&json!(listeners))].into_iter().chain(routes).collect();
    let (objects, inventory) = (read(&documents), inventory());
    let attached = attach(&objects, &inventory);
    assert!(format!("{:?}", attached.routes).contains("has a wildcard above it"), "they are lost");
    steps(Step::Host, || drop(attach(&objects, &inventory)))
}

#[test]
fn work_for_a_name_is_the_same_whatever_its_labels() {
    let (few, many) = (work_for_labels(4), work_for_labels(100));
    assert!(few > 400 && many < few * 3 / 2, "{few} steps for 4 labels, and {many} for 100");
}
