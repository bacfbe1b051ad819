//! Redirects of plain HTTP where names, ports and addresses are of several tenants.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::holders::{attached as judged, listed};
use super::world::{
    HOME, INFRA, assert_among, assert_lines, backends, class, created, gateway, inventory, lines, listener, object,
    read,
};
use crate::{Attached, HostPattern, Inventory, ListenerRole, RedirectTable, attach};

/// A route of a namespace at a listener.
fn route(namespace: &str, name: &str, hosts: &[String], section: &str, year: u32) -> Value {
    let spec = json!({
        "parentRefs": [{"name": "g", "namespace": INFRA, "sectionName": section}], "hostnames": hosts,
        "rules": [{"backendRefs": backends(&["c2"])}],
    });
    created(object("HTTPRoute", namespace, name, &spec), year)
}

/// A grant by which routes of a namespace may lead to all clusters.
fn grant(namespace: &str) -> Value {
    let from = ["HTTPRoute", "TLSRoute"]
        .map(|kind| json!({"group": "gateway.networking.k8s.io", "kind": kind, "namespace": namespace}));
    let to = json!([{"group": "proxy.kubegateway.io", "kind": "UpstreamCluster"}]);
    object("ReferenceGrant", HOME, &format!("of-{namespace}"), &json!({"from": from, "to": to}))
}

/// A route at a listener, where connections are passed on if that is `passed`.
fn at_section((namespace, hosts, section, year): (&str, &[&str], &str, u32)) -> Value {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut route = route(namespace, &format!("{namespace}-{section}"), &hosts, section, year);
    if section == "passed" {
        route["kind"] = json!("TLSRoute");
    }
    route
}

#[test]
fn plain_http_leads_to_no_port_of_another_namespace() {
    for (why, routes, expected) in [
        (
            "the name at two ports",
            &[("team-a", &["x.test"][..], "high", 2020), ("team-b", &["x.test"], "low", 2025)][..],
            &[
                "no redirect x.test",
                "withheld http x.test",
                "bound high x.test team-a-high",
                "bound low x.test team-b-low",
                "route team-a-high#high Accepted True Accepted: plain HTTP answers 404 for x.test: routes of several",
            ][..],
        ),
        (
            "of one namespace",
            &[("team-a", &["x.test"], "high", 2020), ("team-a", &["x.test"], "low", 2025)],
            &["redirect x.test to 443", "no withheld http", "no route team-a-high#high Accepted True Accepted: plain"],
        ),
        (
            "a name below a wildcard at another port",
            &[("team-a", &["*.test"], "high", 2020), ("team-b", &["x.test"], "low", 2025)],
            &["redirect *.test to 8443", "withheld http x.test", "no redirect x.test"],
        ),
        (
            "a wildcard above a name at another port",
            &[("team-a", &["x.test"], "high", 2020), ("team-b", &["*.test"], "low", 2025)],
            &["redirect *.test to 443", "withheld http x.test", "no redirect x.test"],
        ),
        (
            "a wildcard of one namespace",
            &[("team-a", &["*.test"], "high", 2020), ("team-a", &["x.test"], "low", 2025)],
            &["redirect *.test to 8443", "redirect x.test to 443", "no withheld http"],
        ),
        (
            "a wildcard at the same port",
            &[("team-a", &["x.test"], "low", 2020), ("team-b", &["*.test"], "low", 2025)],
            &["redirect *.test to 443", "redirect x.test to 443", "no withheld http"],
        ),
        (
            "a wildcard above a name at all ports",
            &[
                ("team-a", &["x.test"], "low", 2020),
                ("team-a", &["x.test"], "high", 2020),
                ("team-b", &["*.test"], "low", 2025),
            ],
            &["redirect *.test to 443", "redirect x.test to 443", "no withheld http"],
        ),
        (
            "a narrower wildcard in between",
            &[
                ("team-a", &["x.a.test"], "low", 2020),
                ("team-a", &["*.a.test"], "high", 2020),
                ("team-b", &["*.test"], "high", 2025),
            ],
            &["redirect *.test to 8443", "redirect *.a.test to 8443", "redirect x.a.test to 443", "no withheld http"],
        ),
        (
            "a name that is passed on at another port",
            &[("team-a", &["x.test"], "passed", 2020), ("team-b", &["x.test"], "high", 2025)],
            &[
                "no redirect x.test",
                "withheld http x.test",
                "bound passed x.test team-a-passed",
                "bound high x.test team-b-high",
                "route team-b-high#high Accepted True Accepted: plain HTTP answers 404 for x.test: routes of several",
                "no route team-a-passed#passed Accepted True Accepted: plain",
            ],
        ),
        (
            "a wildcard above a name that is passed on",
            &[("team-a", &["x.test"], "passed", 2020), ("team-b", &["*.test"], "high", 2025)],
            &["redirect *.test to 8443", "withheld http x.test", "no redirect x.test"],
        ),
        (
            "a name below a wildcard that is passed on",
            &[("team-a", &["*.test"], "passed", 2020), ("team-b", &["x.test"], "high", 2025)],
            &["no redirect", "withheld http x.test"],
        ),
        (
            "names that are passed on below each other",
            &[
                ("team-b", &["x.a.test"], "passed", 2020),
                ("team-a", &["*.a.test"], "passed", 2025),
                ("team-a", &["*.test"], "high", 2025),
            ],
            &["redirect *.test to 8443", "withheld http x.a.test", "no withheld http *.a.test"],
        ),
        (
            "a name that its own namespace passes on",
            &[("team-a", &["x.test", "y.test"], "passed", 2020), ("team-a", &["x.test", "*.test"], "high", 2025)],
            &["redirect *.test to 8443", "redirect x.test to 8443", "no withheld http", "no redirect y.test"],
        ),
        (
            "a name that is passed on alone",
            &[("team-a", &["x.test"], "passed", 2020), ("team-b", &["y.test"], "high", 2025)],
            &["redirect y.test to 8443", "no withheld http"],
        ),
    ] {
        let gateway = gateway(&json!([
            listener("http", 80, "HTTP", ""),
            listener("low", 443, "HTTPS", ""),
            listener("high", 8443, "HTTPS", ""),
            listener("passed", 6443, "TLS", "")
        ]));
        let routes = routes.iter().copied().map(at_section);
        let documents: Vec<Value> = [gateway, grant("team-a"), grant("team-b")].into_iter().chain(routes).collect();
        assert_lines(why, &documents, expected);
    }
}

/// The author of the Gateway corrects the error, and no client is at another tenant's meanwhile.
#[test]
fn plain_http_leads_to_no_stranger_while_a_listener_is_wrong() {
    let terminating = |name: &str, port: u16| {
        let mut listener = listener(name, port, "TLS", "");
        listener["tls"]["mode"] = json!("Terminate");
        listener
    };
    let (high, passed) = (|protocol: &str| listener("high", 8443, protocol, ""), listener("passed", 6443, "TLS", ""));
    let closed = "route team-b-low#low Accepted True Accepted: plain HTTP answers 404 for x.test: routes of several";
    for (why, right, wrong) in [
        ("a protocol that is not served", high("HTTPS"), high("TCP")),
        ("a mode that is not served", high("HTTPS"), terminating("high", 8443)),
        ("plain HTTP", high("HTTPS"), high("HTTP")),
        ("TLS that is not passed on", passed, terminating("passed", 6443)),
    ] {
        let section = right["name"].as_str().unwrap();
        for (held, claimed, expected) in [
            ("x.test", "x.test", &["no redirect", "withheld http x.test", "bound low x.test", closed][..]),
            ("x.test", "*.test", &["redirect *.test to 443", "no redirect x.test", "withheld http x.test"]),
            ("*.test", "x.test", &["no redirect", "withheld http x.test", "bound low x.test", closed]),
        ] {
            let documents = |listener_of_a: &Value, names_of_a: &[&str]| -> Vec<Value> {
                let plain_and_low = [listener("http", 80, "HTTP", ""), listener("low", 443, "HTTPS", "")];
                let gateway = gateway(&plain_and_low.iter().chain([listener_of_a]).cloned().collect());
                let of_a = ("team-a", names_of_a, section, 2020);
                let routes = [of_a, ("team-b", &[claimed], "low", 2025)].map(at_section).map(|mut route| {
                    route["metadata"]["uid"] = route["metadata"]["name"].clone();
                    route
                });
                [gateway, grant("team-a"), grant("team-b")].into_iter().chain(routes).collect()
            };
            let after = |before: &Attached| Inventory { former_holders: Arc::clone(&before.holders), ..inventory() };
            let first = judged(&documents(&right, &[held]), &inventory());
            let listed_holders = Arc::new(listed(&first, str::to_owned));
            for (process, past) in [
                ("a process that goes on", after(&first)),
                ("a process that starts", Inventory { listed_holders, ..inventory() }),
            ] {
                let why = format!("{why}, {held} beside {claimed}, {process}");
                let away = judged(&documents(&wrong, &[held]), &past);
                assert_among(&why, &lines(&away), expected);
                let still = judged(&documents(&wrong, &[held]), &after(&away));
                assert_among(&format!("{why}, still"), &lines(&still), expected);
                let let_go = judged(&documents(&wrong, &["other.example"]), &after(&still));
                let to_b = format!("redirect {claimed} to 443");
                let expected = [to_b.as_str(), "no withheld http"];
                assert_among(&format!("{why}, no longer claimed"), &lines(&let_go), &expected);
            }
        }
    }
}

/// A Gateway with a port for HTTPS and others for plain HTTP.
fn multiplying(plain_ports: u16, addresses: usize) -> Value {
    let plain = (0..plain_ports).map(|index| listener(&format!("http{index}"), 8_000 + index, "HTTP", ""));
    let listeners: Vec<Value> = [listener("https", 443, "HTTPS", "")].into_iter().chain(plain).collect();
    let mut gateway = gateway(&json!(listeners));
    gateway["spec"]["addresses"] = (1..=addresses).map(|last| json!({"value": format!("192.0.2.{last}")})).collect();
    gateway
}

/// Routes with 16 names each, of which the first ones are the oldest.
fn crowd(namespace: &str, count: usize, suffix: impl Fn(usize) -> &'static str) -> Vec<Value> {
    let one = |number: usize| {
        let hosts: Vec<String> = (0..16).map(|index| format!("n{index}.r{number:03}.{}", suffix(number))).collect();
        route(namespace, &format!("r{number:03}"), &hosts, "https", 2020)
    };
    (0..count).map(one).collect()
}

fn attached(documents: Vec<Value>) -> Attached {
    let grants = ["crowd", "late"].map(grant);
    let all: Vec<Value> = [class()].into_iter().chain(grants).chain(documents).collect();
    attach(&read(&all), &inventory())
}

/// The tables of all listeners for plain HTTP.
fn tables(attached: &Attached) -> Vec<&Arc<RedirectTable>> {
    let listeners = attached.served.iter().flat_map(|gateway| &gateway.listeners);
    let table = listeners.filter_map(|listener| match &listener.role {
        ListenerRole::Redirect(table) => Some(table),
        _ => None,
    });
    table.collect()
}

fn entries(table: &RedirectTable) -> usize {
    table.ports.len() + table.withheld.len()
}

fn host(text: &str) -> HostPattern {
    HostPattern::parse(text).unwrap()
}

/// Each port at each address has all of them in Envoy, and the author of the Gateway chooses how many there are.
#[test]
fn names_of_redirects_are_bounded_and_namespaces_share_them() {
    let late = route("late", "own", &["late.test".to_owned()], "https", 2026);
    let documents = [multiplying(63, 16)].into_iter().chain(crowd("crowd", 256, |_| "test")).chain([late]);
    let attached = attached(documents.collect());
    let tables = tables(&attached);
    assert_eq!(tables.len(), 63);
    let copies: usize = tables.iter().map(|table| entries(table) * 16).sum();
    assert!((50_000..=65_536 + 63 * 16).contains(&copies), "{copies} of 65,536 for a namespace");
    let allocations: BTreeSet<_> = tables.iter().map(|table| Arc::as_ptr(table)).collect();
    assert_eq!(allocations.len(), 1, "listeners with the same host name share a table");
    assert_eq!(tables[0].ports.get(&host("late.test")), Some(&443), "another namespace keeps its redirect");
    let expected = [
        "route r000#https Accepted True Accepted: ",
        "bound https n0.r255.test r255",
        "route r255#https Accepted True Accepted: plain HTTP answers 404 for its host names: those of redirects",
        "no route own#https Accepted True Accepted: plain HTTP",
    ];
    assert_among("a route without room is served by HTTPS", &lines(&attached), &expected);
    assert!(tables[0].ports.contains_key(&host("n0.r000.test")), "the oldest have room first");
}

#[test]
fn names_without_room_are_not_led_to_a_wildcards_port() {
    // The youngest of many has no room, and is below a wildcard of another namespace.
    let routes = crowd("crowd", 256, |number| if number == 255 { "v.other" } else { "test" });
    let wildcard = route("late", "own", &["*.v.other".to_owned()], "https", 2026);
    let attached = attached([multiplying(63, 1)].into_iter().chain(routes).chain([wildcard]).collect());
    let tables = tables(&attached);
    let table = tables[0];
    assert_eq!(table.ports.get(&host("*.v.other")), Some(&443), "the wildcard's namespace has room for those below it");
    for name in ["n0.r255.v.other", "n15.r255.v.other"] {
        assert!(table.withheld.contains(&host(name)) && !table.ports.contains_key(&host(name)), "{name}");
    }
    assert!(!table.withheld.contains(&host("n0.r254.test")), "no wildcard is above it");
    let copies = entries(table) * tables.len();
    assert!(copies <= 65_536 + 17 * 63, "{copies}");
}

#[test]
fn names_passed_on_below_a_wildcard_count_for_its_route() {
    let passed_on = |mut route: Value| {
        (route["kind"], route["spec"]["parentRefs"][0]["sectionName"]) = (json!("TLSRoute"), json!("passed"));
        route
    };
    for (count, port) in [(1, Some(&443)), (80, None)] {
        let mut gateway = multiplying(62, 1);
        gateway["spec"]["listeners"].as_array_mut().unwrap().push(listener("passed", 6443, "TLS", ""));
        let routes = crowd("crowd", count, |_| "v.other").into_iter().map(passed_on);
        let wildcard = route("late", "own", &["*.v.other".to_owned()], "https", 2026);
        let attached = attached([gateway].into_iter().chain(routes).chain([wildcard]).collect());
        let tables = tables(&attached);
        assert_eq!(tables.len(), 62);
        assert_eq!(tables[0].ports.get(&host("*.v.other")), port, "{count}");
        assert_eq!(tables[0].withheld.contains(&host("n0.r000.v.other")), port.is_some(), "{count}");
        assert!(entries(tables[0]) * tables.len() <= 65_536, "{count}");
        let expected = ["bound passed n0.r000.v.other r000", "no route r000#passed Accepted True Accepted: plain HTTP"];
        assert_among("a route that passes TLS on", &lines(&attached), &expected);
    }
}

/// Those of the listeners are in memory here, those of the ports in Envoy.
#[test]
fn host_names_of_plain_listeners_count_as_ports_do() {
    let wildcard = |labels: usize| format!("*.{}test", "a.".repeat(labels));
    let plain = (0..63).map(|index| listener(&format!("http{index}"), 80, "HTTP", &wildcard(index)));
    let listeners: Vec<Value> = [listener("https", 443, "HTTPS", "")].into_iter().chain(plain).collect();
    let routes = crowd("crowd", 128, |_| "test").into_iter().map(|mut route| {
        for host in route["spec"]["hostnames"].as_array_mut().unwrap() {
            *host = json!(format!("{}.{}test", host.as_str().unwrap().replace(".test", ""), "a.".repeat(64)));
        }
        route
    });
    let attached = attached([gateway(&json!(listeners))].into_iter().chain(routes).collect());
    let all: usize = tables(&attached).into_iter().map(|table| entries(table)).sum();
    assert!((50_000..=65_536).contains(&all), "{all}");
}
