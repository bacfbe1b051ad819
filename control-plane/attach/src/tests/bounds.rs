//! Routes with too many host names or servers, which any tenant can write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{class, created, gateway, inventory, listener, object, read};
use crate::{Attached, ListenerRole, attach};

/// A route to a Service of the Gateways' namespace, which needs a grant and has none: only its host names matter here.
pub(super) fn route(namespace: &str, name: &str, hosts: impl Iterator<Item = String>, year: u32) -> Value {
    let spec = json!({
        "parentRefs": [{"name": "g", "namespace": super::world::INFRA}], "hostnames": hosts.collect::<Vec<_>>(),
        "rules": [{"backendRefs": super::world::backends(&["c2"])}],
    });
    created(object("TLSRoute", namespace, name, &spec), year)
}

pub(super) fn names(prefix: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |index| format!("{prefix}{index}.test"))
}

/// At listeners of several ports.
fn outcome(listeners: u16, routes: Vec<Value>) -> Attached {
    let listeners: Vec<Value> =
        (0..listeners).map(|index| listener(&format!("l{index}"), 1_000 + index, "TLS", "")).collect();
    let all: Vec<Value> = [class(), gateway(&json!(listeners))].into_iter().chain(routes).collect();
    attach(&read(&all), &inventory())
}

fn reasons(attached: &Attached) -> Vec<(String, &'static str)> {
    let reason = |one: &crate::RouteVerdict| (one.name.to_string(), one.parents[0].conditions[0].reason);
    attached.routes.iter().map(reason).collect()
}

fn held(attached: &Attached) -> usize {
    let listeners = attached.served.iter().flat_map(|gateway| &gateway.listeners);
    let table = |role: &ListenerRole| match role {
        ListenerRole::Passthrough(table) => table.routes.len() + table.withheld.len(),
        _ => 0,
    };
    listeners.map(|listener| table(&listener.role)).sum()
}

#[test]
fn route_with_too_many_names_is_refused_and_keeps_its_first() {
    let home = super::world::HOME;
    let wide = route(home, "wide", names("x", 1_024), 2024);
    let mut late = route("team-b", "late", names("x", 1), 2025);
    late["spec"]["parentRefs"][0]["sectionName"] = json!("l0");
    let attached = outcome(5, vec![wide.clone(), late, route(home, "other", names("y", 1), 2025)]);
    let found = reasons(&attached);
    assert_eq!(
        found,
        [
            (format!("{home}/wide"), "TooManyHostnames"),
            (format!("{home}/other"), "Accepted"),
            ("team-b/late".to_owned(), "HostnameConflict"),
        ]
    );
    assert_eq!(reasons(&outcome(4, vec![wide]))[0].1, "Accepted");
}

#[test]
fn names_of_one_namespace_leave_room_for_others() {
    let hostile =
        (0..40).map(|index| route("team-a", &format!("r{index:02}"), names(&format!("a{index}x"), 1_024), 2024));
    let late = route(super::world::HOME, "late", names("late", 2), 2025);
    let attached = outcome(1, hostile.chain([late]).collect());
    let found = reasons(&attached);
    let refused = found.iter().filter(|(_, reason)| *reason == "TooManyHostnames").count();
    assert_eq!((refused, found.last().unwrap().1), (24, "Accepted"), "{found:?}");
    assert!(held(&attached) <= 16_384 + 2, "{}", held(&attached));
}

#[test]
fn names_at_many_gateways_leave_room_for_others() {
    let name = |index: usize| format!("g{index:02}");
    let gateways = (0..16).map(|index| {
        let mut gateway = gateway(&json!([listener("l", 443, "TLS", "")]));
        gateway["metadata"]["name"] = json!(name(index));
        gateway
    });
    let at = |mut route: Value, gateways: &[usize]| {
        let parent = |index: &usize| json!({"name": name(*index), "namespace": super::world::INFRA});
        route["spec"]["parentRefs"] = gateways.iter().map(parent).collect();
        route
    };
    // Each holds 4,096 names, and no Gateway more than 4,096.
    let hostile = (0..16).map(|index| {
        let route = route("team-a", &format!("r{index:02}"), names(&format!("a{index}x"), 1_024), 2024);
        let first = index % 4 * 4;
        at(route, &[first, first + 1, first + 2, first + 3])
    });
    let late = at(route(super::world::HOME, "late", names("late", 2), 2025), &[15]);
    let all: Vec<Value> = [class()].into_iter().chain(gateways).chain(hostile).chain([late]).collect();
    let attached = attach(&read(&all), &inventory());
    let found = reasons(&attached);
    let refused = found.iter().filter(|(_, reason)| *reason == "TooManyHostnames").count();
    assert_eq!((refused, found.last().unwrap().1), (8, "Accepted"), "{found:?}");
    assert!(held(&attached) <= 32_768 + 2, "{}", held(&attached));
}

/// Many namespaces may be one tenant's: a name stays with the older route.
#[test]
fn names_of_younger_routes_in_many_namespaces_take_none() {
    let listeners: Vec<Value> = (0..4).map(|index| listener(&format!("l{index}"), 1_000 + index, "TLS", "")).collect();
    let gateways = ["g", "h"].map(|name| {
        let mut gateway = gateway(&json!(listeners));
        gateway["metadata"]["name"] = json!(name);
        gateway
    });
    // Each has 32,768 at four listeners of two Gateways, as many as a namespace may.
    let crowd = (0..9).flat_map(|team| (0..8).map(move |number| (team, number))).map(|(team, number)| {
        let prefix = format!("a{team}-{number}x");
        let mut one = route(&format!("crowd-{team}"), &format!("r{number}"), names(&prefix, 1_024), 2020);
        one["spec"]["parentRefs"][0]["name"] = json!(["g", "h"][number % 2]);
        one
    });
    let old: Vec<Value> =
        (0..8).map(|number| route("old", &format!("r{number}"), names(&format!("o{number}x"), 1_024), 2010)).collect();
    let all: Vec<Value> = [class()].into_iter().chain(gateways).chain(crowd).chain(old).collect();
    let attached = attach(&read(&all), &inventory());
    let found = reasons(&attached);
    let kept = found.iter().filter(|(name, reason)| name.starts_with("old/") && *reason == "Accepted").count();
    assert_eq!(kept, 4, "as many as a namespace may have at one Gateway: {found:?}");
    assert!(found.iter().any(|(name, reason)| name.starts_with("crowd-") && *reason == "TooManyHostnames"));
    assert!(held(&attached) <= 262_144, "{}", held(&attached));
}

/// A route of a namespace to this many Services of it, the first of which is `first`.
pub(super) fn to_services(namespace: &str, name: &str, first: usize, count: usize, year: u32) -> Value {
    let backend = |index: usize| json!({"name": format!("s{index:04}"), "port": 443});
    let spec = json!({
        "parentRefs": [{"name": "g", "namespace": super::world::INFRA}], "hostnames": [format!("{name}.{namespace}.test")],
        "rules": [{"backendRefs": (first..first + count).map(backend).collect::<Vec<_>>()}],
    });
    created(object("TLSRoute", namespace, name, &spec), year)
}

/// At one Gateway; all Services are assumed to exist.
fn of_services(routes: Vec<Value>) -> Attached {
    let all: Vec<Value> =
        [class(), gateway(&json!([listener("l", 443, "TLS", "")]))].into_iter().chain(routes).collect();
    attach(&read(&all), &crate::Inventory { is_complete: false, ..inventory() })
}

fn served_services(attached: &Attached) -> usize {
    let services = attached.served.iter().flat_map(|gateway| gateway.services());
    services.collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn services_of_one_namespace_at_a_gateway_are_bounded() {
    let of_team = |number: usize| to_services("team-a", &format!("r{number}"), number * 16, 16, 2024);
    let mut routes: Vec<Value> = (0..9).map(of_team).collect();
    // Of servers that are counted already, and of another namespace.
    routes.push(to_services("team-a", "same", 0, 16, 2025));
    routes.push(to_services("team-b", "other", 0, 16, 2025));
    let attached = of_services(routes);
    let found = reasons(&attached);
    let refused: Vec<&str> =
        found.iter().filter(|(_, reason)| *reason == "TooManyBackends").map(|(name, _)| name.as_str()).collect();
    assert_eq!(refused, ["team-a/r8"], "the youngest of them: {found:?}");
    assert_eq!(found.iter().filter(|(_, reason)| *reason == "Accepted").count(), 10, "{found:?}");
    assert_eq!(served_services(&attached), 128 + 16);
}

#[test]
fn services_of_all_namespaces_at_a_gateway_are_bounded() {
    let route =
        |team: usize, number: usize| to_services(&format!("team-{team}"), &format!("r{number}"), number * 16, 16, 2024);
    let routes = (0..9).flat_map(|team| (0..8).map(move |number| route(team, number)));
    let attached = of_services(routes.collect());
    let refused = reasons(&attached).into_iter().filter(|(_, reason)| *reason == "TooManyBackends").count();
    assert_eq!((refused, served_services(&attached)), (8, 1_024));
}

/// Each has a connection manager in Envoy.
#[test]
fn routes_for_requests_of_one_namespace_are_bounded() {
    let https = gateway(&json!([listener("l", 443, "HTTPS", ""), listener("m", 8443, "HTTPS", "*.wide.test")]));
    let of_team = |team: &str, number: usize, year: u32| {
        let mut one = route(team, &format!("r{number:03}"), names(&format!("{team}-{number:03}x"), 1), year);
        one["kind"] = json!("HTTPRoute");
        one
    };
    let mut routes: Vec<Value> = (0..300).map(|number| of_team("team-a", number, 2024)).collect();
    routes.push(of_team("team-b", 0, 2025));
    let all: Vec<Value> = [class(), https].into_iter().chain(routes).collect();
    let found = reasons(&attach(&read(&all), &inventory()));
    let refused = found.iter().filter(|(_, reason)| *reason == "TooManyRoutes").count();
    assert_eq!((refused, found[255].1, found[256].1), (44, "Accepted", "TooManyRoutes"), "the youngest of them");
    assert_eq!(found.last().unwrap(), &("team-b/r000".to_owned(), "Accepted"));
}

/// A Gateway of 64 listeners for TLS.
pub(super) fn wide_gateway(name: &str) -> Value {
    let listeners: Vec<Value> = (0..64).map(|index| listener(&format!("l{index}"), 1_000 + index, "TLS", "")).collect();
    let mut gateway = gateway(&json!(listeners));
    gateway["metadata"]["name"] = json!(name);
    gateway
}

/// A route with a wildcard above the names of all clusters.
pub(super) fn wildcard(namespace: &str, gateway: &str, year: u32) -> Value {
    let mut route = route(namespace, &format!("at-{gateway}"), ["*.test".to_owned()].into_iter(), year);
    route["spec"]["parentRefs"][0]["name"] = json!(gateway);
    route
}

/// A thousand clusters with two names each.
fn with_many_clusters() -> crate::Inventory {
    let mut inventory = inventory();
    for index in 0..1_000 {
        let names = [format!("c{index}.k.test"), format!("*.c{index}.k.test")];
        inventory.clusters.insert(format!("cluster{index}"), names.into());
    }
    inventory
}

/// Clusters are many, and a listener with a wildcard above their names has all of these in Envoy.
#[test]
fn names_of_clusters_below_wildcards_are_bounded() {
    let name = |index: usize| format!("g{index:02}");
    let gateways = (0..16).map(|index| wide_gateway(&name(index)));
    let hostile = (0..16).map(|index| wildcard("team-a", &name(index), 2024));
    let late = [wildcard("team-b", "modest", 2025), wildcard("team-b", "g15", 2025)];
    let all: Vec<Value> = [class(), modest()].into_iter().chain(gateways).chain(hostile).chain(late).collect();
    let attached = attach(&read(&all), &with_many_clusters());
    let found = reasons(&attached);
    let of = |namespace: &str, reason: &str| {
        found.iter().filter(|(name, found)| name.starts_with(namespace) && *found == reason).count()
    };
    assert_eq!((of("team-a/", "Accepted"), of("team-a/", "TooManyHostnames")), (2, 14), "{found:?}");
    assert!(found.contains(&("team-b/at-modest".to_owned(), "Accepted")), "{found:?}");
    assert!(found.contains(&("team-b/at-g15".to_owned(), "HostnameConflict")), "a refused one keeps its names");
    let listeners = attached.served.iter().flat_map(|gateway| &gateway.listeners);
    let tables = listeners.filter_map(|listener| match &listener.role {
        ListenerRole::Passthrough(table) => Some(&table.owned),
        _ => None,
    });
    let owned: Vec<_> = tables.flat_map(|owned| owned.values()).collect();
    assert_eq!(owned.iter().map(|names| names.len()).sum::<usize>(), (2 * 64 + 1) * 2_000, "in Envoy");
    let allocations: BTreeSet<_> = owned.iter().map(|names| Arc::as_ptr(names)).collect();
    assert_eq!(allocations.len(), 1, "in memory they are there once");
}

#[test]
fn names_of_clusters_at_one_gateway_are_bounded() {
    let at = |team: usize| {
        let mut route = wildcard(&format!("team-{team}"), "g", 2020 + u32::try_from(team).unwrap());
        // A wildcard of its own, and all of them above the same names.
        route["spec"]["hostnames"][0] = json!(["*.test", "*.k.test"][team % 2]);
        route
    };
    let all: Vec<Value> = [class(), wide_gateway("g")].into_iter().chain((0..6).map(at)).collect();
    let found = reasons(&attach(&read(&all), &with_many_clusters()));
    let refused = found.iter().filter(|(_, reason)| *reason == "TooManyHostnames").count();
    assert_eq!((found[0].1, refused), ("Accepted", 2), "four times 128,000 are as many as may be: {found:?}");
}

/// The same with 46 names more, so that 64 listeners have almost as many as a namespace may have at a Gateway.
pub(super) fn with_almost_too_many_clusters() -> crate::Inventory {
    let mut inventory = with_many_clusters();
    inventory.clusters.insert("more".to_owned(), (0..46).map(|index| format!("m{index}.k.test")).collect());
    inventory
}

/// With one listener.
pub(super) fn modest() -> Value {
    let mut modest = gateway(&json!([listener("l", 443, "TLS", "")]));
    modest["metadata"]["name"] = json!("modest");
    modest
}

/// An edit of an old Gateway multiplies what old routes take.
#[test]
fn older_namespaces_leave_names_of_clusters_to_a_younger_one() {
    let name = |index: usize| format!("g{index:02}");
    let crowd = (0..16).map(|index| wildcard(&format!("crowd-{}", index / 2), &name(index), 2020));
    let gateways = (0..16).map(|index| wide_gateway(&name(index)));
    let late = wildcard("late", "modest", 2025);
    let all: Vec<Value> = [class(), modest()].into_iter().chain(gateways).chain(crowd).chain([late]).collect();
    let found = reasons(&attach(&read(&all), &with_almost_too_many_clusters()));
    let accepted = found.iter().filter(|(_, reason)| *reason == "Accepted").count();
    assert_eq!((found.last().unwrap().1, accepted), ("Accepted", 8), "{found:?}");
}

#[test]
fn older_namespaces_at_a_gateway_leave_some_to_a_younger_one() {
    let crowd = (0..4).map(|team| {
        let mut route = wildcard(&format!("crowd-{team}"), "g", 2020);
        route["spec"]["hostnames"][0] = json!(["*.test", "*.k.test"][team % 2]);
        route
    });
    let mut late = wildcard("late", "g", 2025);
    late["spec"]["parentRefs"][0]["sectionName"] = json!("l0");
    let all: Vec<Value> = [class(), wide_gateway("g")].into_iter().chain(crowd).chain([late]).collect();
    let found = reasons(&attach(&read(&all), &with_almost_too_many_clusters()));
    let refused = found.iter().filter(|(_, reason)| *reason == "TooManyHostnames").count();
    assert_eq!((found.last().unwrap().1, refused), ("HostnameConflict", 1), "{found:?}");
}

/// The author of a Gateway chooses its listeners, and its routes are of others.
#[test]
fn gateway_that_multiplies_names_takes_none_from_another() {
    let hostile = ["g", "h"].map(wide_gateway);
    let routes = [wildcard("team", "g", 2020), wildcard("team", "h", 2021), wildcard("team", "modest", 2025)];
    let all: Vec<Value> = [class(), modest()].into_iter().chain(hostile).chain(routes).collect();
    let found = reasons(&attach(&read(&all), &with_almost_too_many_clusters()));
    let found: Vec<&str> = found.iter().map(|(_, reason)| *reason).collect();
    assert_eq!(found, ["Accepted", "TooManyHostnames", "Accepted"]);
}

#[test]
fn addresses_and_plain_ports_count_for_names_of_clusters() {
    let reason = |listeners: Vec<Value>, addresses: usize| {
        let mut gateway = gateway(&json!(listeners));
        let address = |index: usize| json!({"type": "IPAddress", "value": format!("192.0.2.{index}")});
        gateway["spec"]["addresses"] = (1..=addresses).map(address).collect();
        let mut route = wildcard("team-a", "g", 2024);
        if listeners[0]["protocol"] == "HTTPS" {
            route["kind"] = json!("HTTPRoute");
        }
        reasons(&attach(&read(&[class(), gateway, route]), &with_many_clusters()))[0].1
    };
    let tls = |count: u16| (0..count).map(|index| listener(&format!("l{index}"), 1_000 + index, "TLS", "")).collect();
    assert_eq!((reason(tls(16), 4), reason(tls(16), 5)), ("Accepted", "TooManyHostnames"));
    let https = |count: u16| {
        let plain = (0..count).map(|index| listener(&format!("p{index}"), 8_000 + index, "HTTP", ""));
        [listener("l", 443, "HTTPS", "")].into_iter().chain(plain).collect::<Vec<_>>()
    };
    assert_eq!((reason(https(31), 2), reason(https(32), 2)), ("Accepted", "TooManyHostnames"));
}

#[test]
fn selector_of_a_listener_is_bounded() {
    let accepted = |selector: Value| {
        let mut https = listener("l", 443, "HTTPS", "");
        https["allowedRoutes"] = json!({"namespaces": {"from": "Selector", "selector": selector}});
        let attached = attach(&read(&[class(), gateway(&json!([https]))]), &inventory());
        attached.gateways[0].listeners[0].conditions[0].clone()
    };
    let labels = |count: usize| {
        let labels: BTreeMap<String, &str> = (0..count).map(|index| (format!("l{index}"), "x")).collect();
        json!({"matchLabels": labels})
    };
    let values = |count: usize| {
        let values: Vec<String> = (0..count).map(|index| format!("v{index}")).collect();
        json!({"matchExpressions": [{"key": "team", "operator": "In", "values": values}]})
    };
    for (selector, is_good) in [(labels(32), true), (labels(33), false), (values(64), true), (values(65), false)] {
        let found = accepted(selector);
        assert_eq!((found.status, found.reason == "UnsupportedValue"), (is_good, !is_good), "{}", found.message);
        assert_eq!(found.message.contains("allowedRoutes.namespaces.selector"), !is_good, "{}", found.message);
    }
}
