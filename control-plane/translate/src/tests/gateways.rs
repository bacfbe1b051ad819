//! Gateways of the Gateway API: listeners, chains by route, and the pools behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints};
use envoy_types::pb::envoy::config::listener::v3::FilterChain;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use portcullis_api::DiscoveredServer;
use portcullis_attach::{HostPattern, ListenerRole, ObjectName, ServedListener};
use prost::Message;
use serde_json::json;

use super::fixture::{Pki, set, translated};
use super::gateway_world::{NAME, OTHER, World, chain_of, cluster, gateway, host, listener, listeners, route, service};
use super::render::render;
use crate::GatewayTranslator;
use crate::resource::{Resource, type_urls};

/// The pools of a chain with their weights; none of one that closes connections.
fn pools_of(group: &[Arc<Resource>], server_name: &str) -> Vec<(String, u32)> {
    let chain = chain_of(group, server_name);
    let [filter] = chain.filters.as_slice() else { panic!("{chain:?}") };
    let Some(ConfigType::TypedConfig(config)) = &filter.config_type else { panic!("{filter:?}") };
    if !config.type_url.ends_with(".TcpProxy") {
        return Vec::new();
    }
    match TcpProxy::decode(config.value.as_slice()).unwrap().cluster_specifier.unwrap() {
        ClusterSpecifier::Cluster(name) => vec![(name, 1)],
        ClusterSpecifier::WeightedClusters(all) => all.clusters.into_iter().map(|one| (one.name, one.weight)).collect(),
    }
}

fn without_generation(pools: Vec<(String, u32)>) -> Vec<(String, u32)> {
    let short = |name: String| name.split('@').next().unwrap().to_owned();
    pools.into_iter().map(|(name, weight)| (short(name), weight)).collect()
}

#[test]
fn gateway_has_listeners_chains_and_pools_of_its_own() {
    let (pki, addresses) = (Pki::new(), vec![[192, 0, 2, 1].into(), "2001:db8::1".parse().unwrap()]);
    let routes = vec![
        ("a.test", route("a", vec![cluster(NAME, 1)], 0)),
        ("*.b.test", route("b", vec![service(3), cluster(OTHER, 1)], 1)),
    ];
    let group = World::new(&pki).one(gateway("edge", addresses, vec![listener("tls", 8443, routes, &["x.b.test"])]));
    let mut resources: Vec<_> = group.iter().collect();
    resources.sort();
    let text: String = resources.into_iter().map(render).collect();
    insta::assert_snapshot!("gateway", pki.hide(&text));
}

#[test]
fn pool_is_that_of_a_cluster_which_is_passed_on_itself() {
    let pki = Pki::new();
    let world = World::new(&pki);
    let routes = vec![("a.test", route("a", vec![cluster(NAME, 1)], 0))];
    let group = world.one(gateway("edge", Vec::new(), vec![listener("tls", 443, routes, &[])]));
    let mut itself = pki.cluster(NAME);
    set(&mut itself, "/spec/portcullis", json!({"transport": "TLSPassthrough"}));
    let translation = translated(&world.settings, &[itself]);
    let own: Vec<_> = translation.resources().into_iter().filter(|one| one.owner.is_some()).collect();
    assert_eq!(own.len(), 2);
    for one in own {
        let twin = group.iter().find(|other| (&other.type_url, &other.name) == (&one.type_url, &one.name)).unwrap();
        assert_eq!((&twin.value, &twin.assignment), (&one.value, &one.assignment), "{}", one.name);
    }
    let all: Vec<_> = listeners(&group).into_iter().map(|one| one.name).collect();
    assert_eq!(all, ["-/-/-/gateway-0.0.0.0-443"], "without addresses that of the settings");
}

#[test]
fn cluster_that_keeps_users_out_gets_no_connection() {
    let pki = Pki::new();
    let backends = || vec![cluster(NAME, 1), cluster(OTHER, 2)];
    let of = |world: &World| {
        let routes = vec![("a.test", route("a", backends(), 0)), ("b.test", route("b", vec![cluster(NAME, 1)], 0))];
        let group = world.one(gateway("edge", Vec::new(), vec![listener("tls", 443, routes, &[])]));
        [without_generation(pools_of(&group, "a.test")), without_generation(pools_of(&group, "b.test"))]
    };
    let refused = |world: &World| {
        let names = [NAME.to_owned(), OTHER.to_owned()];
        GatewayTranslator::default().refused(&names, [], &world.input(&[])).connections
    };
    let pool = |name: &str, weight| (format!("lab/-/{name}/all.tcp"), weight);
    let closed = [vec![("lab/-/-/nowhere".to_owned(), 1), pool(OTHER, 2)], Vec::new()];
    let mut world = World::new(&pki);
    let open = [vec![pool(OTHER, 2), pool(NAME, 1)], vec![pool(NAME, 1)]];
    assert_eq!((of(&world), refused(&world)), (open.clone(), BTreeMap::new()));

    world.edit(NAME, "/spec/portcullis", json!({"access": {"deny": [{"users": ["eve"]}]}}));
    assert_eq!(of(&world), closed);
    let why = refused(&world);
    assert!(why.len() == 1 && why[NAME].contains("spec.portcullis.access"), "{why:?}");

    world.edit(NAME, "/spec/portcullis", json!({}));
    assert_eq!(of(&world), open);
    world.edit(NAME, "/metadata/annotations", json!({"portcullis.dev/profile": "frozen"}));
    assert_eq!((of(&world), refused(&world)), (closed.clone(), BTreeMap::new()), "frozen is closed, not refused");

    world.clusters.remove(NAME);
    assert_eq!(of(&world), closed);
}

#[test]
fn client_addresses_of_a_cluster_hold_at_a_gateway() {
    let pki = Pki::new();
    let mut world = World::new(&pki);
    world.edit(NAME, "/spec/portcullis", json!({"clientAddresses": {"allow": ["10.0.0.0/8"]}}));
    let routes = vec![
        ("a.test", route("a", vec![cluster(NAME, 1)], 0)),
        ("b.test", route("b", vec![cluster(NAME, 1), cluster(OTHER, 2)], 0)),
        ("c.test", route("c", vec![cluster(NAME, 0), cluster(OTHER, 2)], 0)),
        ("d.test", route("d", vec![cluster(NAME, 1), cluster(OTHER, 0)], 0)),
        ("e.test", route("e", vec![cluster(NAME, 0)], 0)),
    ];
    let group = world.one(gateway("edge", Vec::new(), vec![listener("tls", 443, routes, &[])]));
    let ranges = |name: &str| chain_of(&group, name).filter_chain_match.unwrap().source_prefix_ranges.len();
    assert_eq!((ranges("a.test"), ranges("b.test")), (1, 0));
    assert_eq!((ranges("c.test"), ranges("d.test")), (0, 1), "without weight there is no server");
    let open = |name: &str| without_generation(pools_of(&group, name));
    assert_eq!(open("c.test"), [(format!("lab/-/{OTHER}/all.tcp"), 1)]);
    assert_eq!((open("d.test"), open("e.test")), (vec![(format!("lab/-/{NAME}/all.tcp"), 1)], Vec::new()));
    let shared = without_generation(pools_of(&group, "b.test"));
    assert_eq!(shared, [("lab/-/-/nowhere".to_owned(), 1), (format!("lab/-/{OTHER}/all.tcp"), 2)]);
}

#[test]
fn withheld_names_are_closed_unless_a_narrower_one_has_them() {
    let pki = Pki::new();
    let wide = vec![("*.test", route("wide", vec![cluster(NAME, 1)], 0))];
    let narrow = vec![("a.test", route("narrow", vec![cluster(OTHER, 1)], 0))];
    let listeners = vec![listener("wide", 443, wide, &["a.test", "b.test"]), listener("narrow", 443, narrow, &[])];
    let group = World::new(&pki).one(gateway("edge", Vec::new(), listeners));
    assert_eq!(without_generation(pools_of(&group, "a.test")), [(format!("lab/-/{OTHER}/all.tcp"), 1)]);
    assert_eq!(pools_of(&group, "b.test"), []);
}

/// Listeners of one port share names below their wildcards, and Envoy refuses a name that is there twice.
#[test]
fn names_of_clusters_below_wildcards_are_closed_once() {
    let pki = Pki::new();
    let owned = |wildcard: &str, names: &[&str]| {
        (host(wildcard), Arc::new(names.iter().map(|name| host(name)).collect::<BTreeSet<HostPattern>>()))
    };
    let with = |mut listener: ServedListener, owned: Vec<(HostPattern, Arc<BTreeSet<HostPattern>>)>| {
        let ListenerRole::Passthrough(table) = &mut listener.role else { panic!() };
        table.owned = owned.into_iter().collect();
        listener
    };
    let wide = vec![
        ("*.test", route("wide", vec![cluster(NAME, 1)], 0)),
        ("c.a.test", route("own", vec![cluster(OTHER, 1)], 0)),
    ];
    let narrow = vec![("*.a.test", route("narrow", vec![cluster(OTHER, 1)], 0))];
    let of_all = owned("*.test", &["b.test", "b.a.test", "c.a.test"]);
    let wide = with(listener("wide", 443, wide, &["b.test"]), vec![of_all]);
    let narrow = with(listener("narrow", 443, narrow, &[]), vec![owned("*.a.test", &["b.a.test", "c.a.test"])]);
    let group = World::new(&pki).one(gateway("edge", Vec::new(), vec![wide, narrow]));
    let chains = &listeners(&group)[0].filter_chains;
    let withheld: Vec<_> = chains.iter().filter(|chain| chain.name.ends_with("withheld")).collect();
    let names = |chain: &FilterChain| chain.filter_chain_match.clone().unwrap().server_names;
    assert_eq!(withheld.into_iter().map(names).collect::<Vec<_>>(), [["b.a.test", "b.test"]]);
    assert_eq!(without_generation(pools_of(&group, "c.a.test")), [(format!("lab/-/{OTHER}/all.tcp"), 1)]);
}

/// A grant to refer to a cluster is none to read it.
#[test]
fn refusal_quotes_nothing_of_a_cluster() {
    let pki = Pki::new();
    let mut world = World::new(&pki);
    world.edit(NAME, "/spec/servers", json!([{"endpoint": "https://hidden-value.internal:none"}]));
    world.edit(NAME, "/spec/portcullis", json!({"identity": {"mode": "Hidden-value"}}));
    let all = [NAME.to_owned()];
    let refused = GatewayTranslator::default().refused(&all, &all, &world.input(&[]));
    for why in [&refused.connections[NAME], &refused.requests[NAME]] {
        assert!(!why.to_lowercase().contains("hidden-value") && why.contains("spec."), "{why}");
    }
}

#[test]
fn gateway_without_routes_has_a_listener_that_closes() {
    let group = World::new(&Pki::new()).one(gateway("edge", Vec::new(), vec![listener("tls", 443, Vec::new(), &[])]));
    let listeners = listeners(&group);
    assert_eq!((listeners.len(), listeners[0].filter_chains.len(), group.len()), (1, 1, 1));
}

#[test]
fn edit_makes_only_gateways_anew_that_lead_there() {
    let pki = Pki::new();
    let mut world = World::new(&pki);
    let of = |name: &str, to: &str| {
        let routes = vec![("a.test", route("a", vec![cluster(to, 1)], 0))];
        gateway(name, Vec::new(), vec![listener("tls", 443, routes, &[])])
    };
    let gateways = [of("one", NAME), of("two", OTHER)].map(Arc::new);
    let mut translator = GatewayTranslator::default();
    let before = world.translate(&mut translator, &gateways);
    world.edit(NAME, "/spec/servers", json!([{"endpoint": "https://10.0.0.9:6443"}]));
    let after = world.translate(&mut translator, &gateways);
    let is_same = |name: &str| {
        let name = ObjectName::new("infra", name);
        Arc::ptr_eq(&before[&name], &after[&name])
    };
    assert_eq!((is_same("one"), is_same("two")), (false, true));
    assert_eq!(
        after,
        world.translate(&mut GatewayTranslator::default(), &gateways),
        "it does not depend on earlier ones"
    );
}

/// The addresses of a Service's servers, with their zones.
fn servers_of(group: &[Arc<Resource>]) -> Vec<String> {
    let assignment = group.iter().find(|one| one.type_url == type_urls::assignment()).unwrap();
    let assignment = ClusterLoadAssignment::decode(assignment.value.as_slice()).unwrap();
    let of_zone = |zone: &LocalityLbEndpoints| {
        let name = zone.locality.as_ref().map(|locality| locality.zone.clone()).unwrap_or_default();
        zone.lb_endpoints.iter().map(|one| format!("{} {name}", shown(one)).trim_end().to_owned()).collect::<Vec<_>>()
    };
    assignment.endpoints.iter().flat_map(of_zone).collect()
}

fn shown(endpoint: &LbEndpoint) -> String {
    let Some(HostIdentifier::Endpoint(endpoint)) = &endpoint.host_identifier else { panic!("{endpoint:?}") };
    match endpoint.address.as_ref().unwrap().address.as_ref().unwrap() {
        Address::SocketAddress(socket) => socket.address.clone(),
        other => panic!("{other:?}"),
    }
}

/// Tenants write EndpointSlices, with any address and any text as a zone.
#[test]
fn servers_of_a_service_are_those_that_an_object_may_have() {
    let pki = Pki::new();
    let mut world = World::new(&pki);
    let servers_with = |world: &mut World, servers: Vec<DiscoveredServer>| {
        world.services.values_mut().for_each(|service| service.servers.clone_from(&servers));
        let routes = vec![("a.test", route("a", vec![service(1)], 0))];
        servers_of(&world.one(gateway("edge", Vec::new(), vec![listener("tls", 443, routes, &[])])))
    };
    let server = |ip: &str, zone: &str| DiscoveredServer { ip: ip.parse().unwrap(), port: 443, zone: zone.to_owned() };
    let found = [
        "169.254.169.254",
        "64:ff9b::7f00:1",
        "168.63.129.16",
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "0.0.0.0",
        "::ffff:10.8.0.2",
        "10.8.0.2",
    ];
    let found = || found.iter().map(|ip| server(ip, "")).chain([server("10.8.0.3", "b"), server("10.8.0.4", "a/\n")]);
    assert_eq!(servers_with(&mut world, found().collect()), ["10.8.0.2", "10.8.0.4", "10.8.0.3 b"]);
    let many = (0..1_200_u32).map(|number| server(&std::net::Ipv4Addr::from(0x0a09_0000 + number).to_string(), ""));
    assert_eq!(servers_with(&mut world, many.collect()).len(), portcullis_api::MAX_SERVERS);
    world.settings.allow_loopback_upstreams = true;
    let allowed = servers_with(&mut world, found().collect());
    assert!(allowed.contains(&"127.0.0.1".to_owned()) && allowed.iter().all(|one| !one.starts_with("169.")));
}

#[test]
fn translator_follows_the_servers_of_a_service() {
    let pki = Pki::new();
    let mut world = World::new(&pki);
    let routes = vec![("a.test", route("a", vec![service(1)], 0))];
    let gateways = [Arc::new(gateway("edge", Vec::new(), vec![listener("tls", 443, routes, &[])]))];
    let (mut translator, edge) = (GatewayTranslator::default(), ObjectName::new("infra", "edge"));
    let mut before = world.translate(&mut translator, &gateways);
    let edits: [fn(&mut World); 3] = [
        |world| world.services.values_mut().for_each(|service| service.servers.clear()),
        |world| world.services.values_mut().for_each(|service| service.uid = "other".to_owned()),
        |world| world.services.clear(),
    ];
    for edit in edits {
        let again = world.translate(&mut translator, &gateways);
        assert!(Arc::ptr_eq(&before[&edge], &again[&edge]), "nothing is other than before");
        edit(&mut world);
        let after = world.translate(&mut translator, &gateways);
        assert_eq!(after, world.translate(&mut GatewayTranslator::default(), &gateways));
        assert_ne!(after, before);
        before = after;
    }
}

#[test]
fn service_of_another_uid_has_another_pool() {
    let pki = Pki::new();
    let mut world = World::new(&pki);
    let one = || {
        let routes = vec![("a.test", route("a", vec![service(1)], 0))];
        gateway("edge", Vec::new(), vec![listener("tls", 443, routes, &[])])
    };
    let before = pools_of(&world.one(one()), "a.test");
    assert_eq!(without_generation(before.clone()), [("lab/team/web/port-443.tcp".to_owned(), 1)]);
    world.services.values_mut().for_each(|servers| servers.servers.clear());
    assert_eq!(pools_of(&world.one(one()), "a.test"), before, "servers are endpoints");
    world.services.values_mut().for_each(|servers| servers.uid = "other".to_owned());
    assert_ne!(pools_of(&world.one(one()), "a.test"), before);
    world.services.clear();
    assert_eq!(pools_of(&world.one(one()), "a.test"), []);
}
