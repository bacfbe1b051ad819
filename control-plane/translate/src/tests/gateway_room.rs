//! The room that a Gateway has for clusters behind doors with policies. Tenants write routes and policies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portcullis_api::{PolicyInEffect, PolicyKind, upstream_key};
use portcullis_attach::{
    BoundRoute, Door, DoorPolicies, HostPattern, ListenerRole, ObjectName, RedirectTable, ServedGateway, ServedListener,
};
use serde_json::json;

use super::fixture::Pki;
use super::gateway_doors::{at_listener, denies, of_route, policy, served, to};
use super::gateway_https::{edge, https, is_closed, route, world};
use super::gateway_upstreams::{KEY, add};
use super::gateway_world::{NAME, OTHER, World, chain_of, cluster, gateway, host, listeners};
use crate::listener::WIDER_STEPS;
use crate::resource::{ResourceGroup, type_urls};
use crate::{GatewayTranslator, translate_gateways};

/// A policy of about so many KiB, and an eighth of that in denials.
fn large(name: &str, kibibytes: usize) -> PolicyInEffect {
    let long = "x".repeat(8_000);
    let one = |index: usize| {
        let rules = json!([{"verbs": ["get"], "nonResourceURLs": [format!("/{name}/{index}/{long}")]}]);
        json!({"rules": rules, "portcullis": {"action": "Deny"}})
    };
    let denials: Vec<_> = (0..kibibytes / 8).map(one).collect();
    policy(PolicyKind::Dispatch, name, json!({"dispatchPolicies": denials}))
}

fn of_other(name: &str) -> BoundRoute {
    BoundRoute { route: ObjectName::new("other", name), ..to(name) }
}

/// Of a route with three large policies the configuration is as large as these, however small the cluster is.
#[test]
fn policies_count_in_each_configuration_that_has_them() {
    let pki = Pki::new();
    let (mut world, mut translator) = (world(&pki), GatewayTranslator::default());
    add(&mut world, &pki, "team-a", "prod", |_| {});
    let to_upstream = |name: &str| BoundRoute { backends: vec![cluster(KEY, 1)], ..to(name) };
    let names: Vec<String> = (0..100).map(|index| format!("r{index:03}")).collect();
    let hosts: Vec<String> = names.iter().map(|name| format!("{name}.test")).collect();
    for (case, is_upstream) in [("a cluster", false), ("an upstream", true)] {
        let route = |name: &str| if is_upstream { to_upstream(name) } else { to(name) };
        let mut routes: Vec<(&str, BoundRoute)> =
            names.iter().zip(&hosts).map(|(name, host)| (host.as_str(), route(name))).collect();
        routes.push(("z.test", of_other("z")));
        let own = large("team/x", 64);
        let mut policies: Vec<_> = names.iter().map(|name| (of_route(name), vec![own.clone()])).collect();
        policies.push((Door::Gateway(ObjectName::new("infra", "edge")), vec![large("infra/x", 64)]));
        policies.push((at_listener(), vec![large("infra/y", 64)]));
        policies.push((Door::Route(ObjectName::new("other", "z")), vec![denies("other/z", "/z")]));
        let gateway = Arc::new(served(routes, policies));
        let group = world.translate(&mut translator, &[gateway]).into_values().next().unwrap();
        let made = translator.tightened_text();
        assert!(made <= 9 << 20, "{case}: {made} bytes are made, and a namespace has 8 MiB");
        assert!(!is_closed(&chain_of(&group, "r000.test")) && is_closed(&chain_of(&group, "r099.test")), "{case}");
        assert!(!is_closed(&chain_of(&group, "z.test")), "{case}: another namespace keeps its own");
        let closures = translator.closures();
        assert!(closures.values().flatten().all(|one| one.reason == "TooManyConfigurations"), "{closures:?}");
    }
}

/// Each one is a check of the cluster and a copy of its configuration: tenants make routes, and a policy of each costs them little.
#[test]
fn configurations_without_room_are_not_even_made() {
    let pki = Pki::new();
    let (mut world, mut translator) = (world(&pki), GatewayTranslator::default());
    // A configuration of more than a MiB.
    let long = "x".repeat(1_000);
    let one = |index: usize| json!({"rules": [{"verbs": ["get"], "nonResourceURLs": [format!("/{index}/{long}")]}]});
    world.edit(NAME, "/spec/dispatchPolicies", (0..1_024).map(one).collect());
    let names: Vec<String> = (0..20).map(|index| format!("r{index:02}")).collect();
    let hosts: Vec<String> = names.iter().map(|name| format!("{name}.test")).collect();
    let routes = names.iter().zip(&hosts).map(|(name, host)| (host.as_str(), to(name))).collect();
    let policies = names.iter().map(|name| (of_route(name), vec![denies("team/x", "/x")])).collect();
    let gateway = Arc::new(served(routes, policies));
    let group = world.translate(&mut translator, &[Arc::clone(&gateway)]).into_values().next().unwrap();
    let made = translator.tightened_count();
    assert!((1..8).contains(&made), "8 MiB of a namespace: {made}");
    assert!(!is_closed(&chain_of(&group, "r00.test")) && is_closed(&chain_of(&group, "r19.test")));
    let closures = translator.closures();
    assert!(closures.values().flatten().all(|one| one.reason == "TooManyConfigurations"), "{closures:?}");
    assert_eq!(closures.len(), 20 - made, "each closed route says so");
    let again = world.translate(&mut translator, &[gateway]).into_values().next().unwrap();
    assert!(Arc::ptr_eq(&group, &again) && translator.tightened_count() == made);
}

/// A cluster with many groups of servers has many routes, however short its configuration is.
#[test]
fn groups_of_servers_count_for_each_configuration() {
    let pki = Pki::new();
    let mut world = world(&pki);
    let servers: Vec<String> = (0..100).map(|index| format!("https://10.1.0.{index}:6443")).collect();
    world.edit(NAME, "/spec/servers", servers.iter().map(|endpoint| json!({"endpoint": endpoint})).collect());
    let policy = |(index, endpoint): (usize, &String)| {
        let rules = json!([{"verbs": ["get"], "nonResourceURLs": [format!("/{index}")]}]);
        json!({"upsteamSubset": [endpoint], "rules": rules})
    };
    world.edit(NAME, "/spec/dispatchPolicies", servers.iter().take(90).enumerate().map(policy).collect());
    let names: Vec<String> = (0..20).map(|index| format!("r{index:02}")).collect();
    let hosts: Vec<String> = names.iter().map(|name| format!("{name}.test")).collect();
    let routes = names.iter().zip(&hosts).map(|(name, host)| (host.as_str(), to(name))).collect();
    let policies = names.iter().map(|name| (of_route(name), vec![denies("team/x", "/x")])).collect();
    let group = world.one(served(routes, policies));
    let open = hosts.iter().filter(|host| !is_closed(&chain_of(&group, host))).count();
    assert_eq!(open, 2, "of about 3 MiB each, in the 8 MiB of a namespace");
}

/// The bytes of all routes.
fn route_bytes<'a>(groups: impl IntoIterator<Item = &'a ResourceGroup>) -> usize {
    let all = groups.into_iter().flat_map(|group| group.iter());
    all.filter(|one| one.type_url == type_urls::route_configuration()).map(|one| one.value.len()).sum()
}

/// A Gateway with four listeners, each with a route of `namespace` to each of two clusters, and a policy of a MiB.
fn wide(name: &str, namespace: &str) -> Arc<ServedGateway> {
    let to = |cluster_name: &str, name: &str| BoundRoute {
        route: ObjectName::new(namespace, name),
        ..route(name, vec![cluster(cluster_name, 1)], 0)
    };
    let listener = |index: u16| {
        let routes = vec![("a.test", to(NAME, "a")), ("b.test", to(OTHER, "b"))];
        ServedListener { port: 443 + index, ..https(&format!("https{index}"), routes, &[]) }
    };
    let policies = DoorPolicies::new([(Door::Gateway(ObjectName::new("infra", name)), vec![large("infra/x", 1_024)])]);
    Arc::new(ServedGateway { policies, ..gateway(name, Vec::new(), (0..4).map(listener).collect()) })
}

/// One with a small route.
fn modest(name: &str, route: BoundRoute) -> Arc<ServedGateway> {
    Arc::new(gateway(name, Vec::new(), vec![https("https", vec![("a.test", route)], &[])]))
}

/// Tenants write Gateways, too.
#[test]
fn gateways_share_the_room_for_configurations() {
    let pki = Pki::new();
    let (world, mut translator) = (world(&pki), GatewayTranslator::default());
    let mut gateways: Vec<_> = (0..12).map(|index| wide(&format!("g{index:02}"), "team")).collect();
    gateways.extend([modest("late", of_other("a")), modest("own", to("a"))]);
    let groups = world.translate(&mut translator, &gateways);
    let bytes = route_bytes(groups.values());
    assert!(bytes <= 72 << 20, "{bytes} bytes of routes of one namespace");
    for name in ["late", "own"] {
        let group = &groups[&ObjectName::new("infra", name)];
        assert!(!is_closed(&chain_of(group, "a.test")), "{name}: its Gateway has almost none of the room");
    }
    let closures = translator.closures();
    assert!(closures.values().flatten().all(|one| one.reason == "TooManyConfigurations"), "{closures:?}");
    let closed = closures.values().flatten().count();
    assert!((28..40).contains(&closed), "{closed} of 96 of about a MiB each, of 64 MiB");
    let again = world.translate(&mut translator, &gateways);
    assert!(groups.iter().all(|(name, group)| Arc::ptr_eq(group, &again[name])));
    gateways.truncate(1);
    let alone = world.translate(&mut translator, &gateways);
    assert_eq!((translator.closures().len(), alone.len()), (0, 1), "the room of Gateways that are gone is free");
    assert_eq!(alone, world.translate(&mut GatewayTranslator::default(), &gateways));
}

/// Each instance has settings of its own, and tenants may have several.
#[test]
fn gateways_of_several_instances_share_the_room() {
    let pki = Pki::new();
    let (world, mut translators) = (world(&pki), [GatewayTranslator::default(), GatewayTranslator::default()]);
    let mut gateways: Vec<_> = (0..12).map(|index| wide(&format!("g{index:02}"), "team")).collect();
    gateways.push(modest("late", of_other("a")));
    let [one, other] = &mut translators;
    let (first, second) = gateways.split_at(6);
    let groups = translate_gateways(&mut [(one, world.input(first)), (other, world.input(second))]);
    let bytes = route_bytes(groups.iter().flat_map(|groups| groups.values()));
    assert!(bytes <= 72 << 20, "{bytes} bytes of routes of one namespace");
    assert_eq!(groups.iter().map(|groups| groups.len()).collect::<Vec<_>>(), [6, 7]);
    let is_closed = |translator: &GatewayTranslator| translator.closures().values().flatten().count();
    let closed = translators.iter().map(is_closed).collect::<Vec<_>>();
    assert!(closed.iter().all(|closed| (10..20).contains(closed)), "both have the same part: {closed:?}");
}

/// The same Gateways belong to other instances, or to instances with settings of their own.
#[test]
fn gateways_have_the_same_room_however_they_are_divided() {
    let pki = Pki::new();
    let (world, mut translator) = (world(&pki), GatewayTranslator::default());
    let gateways: Vec<_> = (0..12).map(|index| wide(&format!("g{index:02}"), "team")).collect();
    let together = world.translate(&mut translator, &gateways);
    let closed = translator.closures().values().flatten().count();
    assert!(!closed.is_multiple_of(gateways.len()), "some have room for one more: {closed}");
    let (mut one, mut other) = (GatewayTranslator::default(), GatewayTranslator::default());
    let (first, second) = gateways.split_at(6);
    let divided = translate_gateways(&mut [(&mut one, world.input(second)), (&mut other, world.input(first))]);
    assert!(divided.into_iter().flatten().collect::<BTreeMap<_, _>>() == together);
}

/// Upstreams with a wildcard each, of which every one is below the next, and names below all of them.
fn nested(world: &mut World, pki: &Pki, (upstreams, names, labels): (usize, usize, usize)) -> ServedGateway {
    let suffix = |labels: usize| format!("{}test", "a.".repeat(labels));
    let to = |name: &str| BoundRoute { backends: vec![cluster(&upstream_key("team", name), 1)], ..to(name) };
    let mut routes = Vec::new();
    for index in 0..upstreams {
        let name = format!("u{index}");
        add(world, pki, "team", &name, |_| {});
        routes.push((format!("*.{}", suffix(index)), to(&name)));
    }
    routes.extend((0..names).map(|index| (format!("n{index}.{}", suffix(labels)), to("u0"))));
    edge(vec![https("https", routes.iter().map(|(host, route)| (host.as_str(), route.clone())).collect(), &[])])
}

/// Each is a name of another one for all clusters with a wildcard above it.
#[test]
fn names_below_wildcards_take_room_for_each_wildcard() {
    let pki = Pki::new();
    let (mut world, mut translator) = (world(&pki), GatewayTranslator::default());
    let gateway = Arc::new(nested(&mut world, &pki, (48, 4_000, 100)));
    let groups = world.translate(&mut translator, &[gateway]);
    let bytes = route_bytes(groups.values());
    assert!(bytes <= 72 << 20, "{bytes} bytes of routes of one namespace");
    let closures = translator.closures();
    assert!((1..40).contains(&closures.len()), "{}", closures.len());
    assert!(closures.values().flatten().all(|one| one.reason == "TooManyConfigurations"), "{closures:?}");
}

/// A route configuration is one for all routes to a cluster at a listener.
#[test]
fn names_of_one_namespace_close_no_route_of_another_one() {
    let pki = Pki::new();
    let (world, mut translator) = (world(&pki), GatewayTranslator::default());
    let long = format!("{}.{}", ["n".repeat(62).as_str(); 3].join("."), "n".repeat(40));
    let names: Vec<String> = (10_000..100_000).map(|index| format!("{index}.{long}.test")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let routes = vec![("*.test", to("wide")), ("own.other", of_other("own"))];
    let groups = world.translate(&mut translator, &[Arc::new(edge(vec![https("https", routes, &names)]))]);
    let closed = groups.values().map(|group| ["*.test", "own.other"].map(|name| is_closed(&chain_of(group, name))));
    assert_eq!(closed.collect::<Vec<_>>(), [[true, false]], "more than 64 MiB are below the wildcard");
}

#[test]
fn names_are_gone_through_once_whatever_clusters_there_are() {
    let pki = Pki::new();
    let steps = |upstreams: usize| {
        let mut world = world(&pki);
        let gateway = nested(&mut world, &pki, (upstreams, 100, 40));
        WIDER_STEPS.set(0);
        world.one(gateway);
        WIDER_STEPS.get()
    };
    let (few, many) = (steps(2), steps(20));
    assert!(few > 4_000 && many < few * 2, "{few} for 2 clusters, and {many} for 20");
}

/// Ports and addresses are chosen by the authors of Gateways.
#[test]
fn listeners_for_plain_http_share_the_bytes_of_one_table() {
    let pki = Pki::new();
    let name = |index: usize| host(&format!("{}.{index}.test", "n".repeat(63)));
    let table = RedirectTable { ports: (0..1_000).map(|index| (name(index), 443)).collect(), ..Default::default() };
    let table = Arc::new(table);
    let plain = |index: u16| ServedListener {
        name: format!("http{index}"),
        port: 8_000 + index,
        host: HostPattern::Any,
        role: ListenerRole::Redirect(Arc::clone(&table)),
    };
    let mut all = vec![https("https", vec![("a.test", to("a"))], &["*.withheld.test"])];
    all.extend((0..8).map(plain));
    let addresses = (1..=16_u8).map(|last| [192, 0, 2, last].into()).collect();
    let group = world(&pki).one(ServedGateway { addresses, ..edge(all) });
    let of_listeners: Vec<_> = group.iter().filter(|one| one.type_url == type_urls::listener()).collect();
    let own: usize = of_listeners.iter().map(|one| one.value.len()).sum();
    assert!(own < 256 << 10, "{own} bytes of {} listeners", of_listeners.len());
    let large = of_listeners.iter().filter(|one| one.common.len() > 60_000);
    assert_eq!(large.clone().count(), 8 * 16);
    assert_eq!(large.map(|one| one.common.as_ptr()).collect::<BTreeSet<_>>().len(), 1, "of all ports and addresses");
    let whole = listeners(&group);
    assert_eq!(whole.len(), 9 * 16);
    assert!(whole.iter().all(|listener| !listener.filter_chains.is_empty()), "each is read as one message");
}
