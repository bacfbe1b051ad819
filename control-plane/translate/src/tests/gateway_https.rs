//! HTTPS listeners of Gateways: a cluster is served there as under its own names, and nothing of it where no route leads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::transport_socket;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, FilterChainMatch};
use envoy_types::pb::envoy::config::route::v3::redirect_action::RedirectResponseCode;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::http::dynamic_modules::v3::DynamicModuleFilterPerRoute;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
use envoy_types::pb::google::protobuf::StringValue;
use portcullis_attach::{
    BoundRoute, HostTable, ListenerRole, ObjectName, RedirectTable, RouteKind, ServedGateway, ServedListener,
    WeightedBackend,
};
use portcullis_filter_config::names::HTTP_FILTER;
use prost::Message;
use serde_json::{Value, json};

use super::fixture::{Pki, set, translated};
use super::gateway_world::{NAME, OTHER, World, chain_of, cluster, gateway, host, listener, listeners, service};
use super::golden::hide_identity;
use super::render::render;
use crate::resource::{Resource, type_urls};
use crate::{GatewaySecrets, GatewayTranslator, holds_key};

pub(super) fn certificate() -> ObjectName {
    ObjectName::new("infra", "cert")
}

pub(super) fn route(name: &str, backends: Vec<WeightedBackend>, refused_weight: u32) -> BoundRoute {
    BoundRoute { kind: RouteKind::Http, ..super::gateway_world::route(name, backends, refused_weight) }
}

pub(super) fn https(name: &str, routes: Vec<(&str, BoundRoute)>, withheld: &[&str]) -> ServedListener {
    let routes = routes.into_iter().map(|(name, route)| (host(name), route)).collect();
    let routes =
        HostTable { routes, withheld: withheld.iter().map(|name| host(name)).collect(), owned: BTreeMap::new() };
    let role = ListenerRole::Terminate { certificates: vec![certificate()], client_ca: None, routes };
    ServedListener { role, ..listener(name, 443, Vec::new(), &[]) }
}

pub(super) fn edge(listeners: Vec<ServedListener>) -> ServedGateway {
    gateway("edge", Vec::new(), listeners)
}

/// With the listener's certificate.
pub(super) fn world(pki: &Pki) -> World {
    let mut world = World::new(pki);
    let pair = world.settings.default_certificate.clone().unwrap();
    world.secrets.serving.insert(certificate(), Arc::new(pair));
    world
}

pub(super) fn names(group: &[Arc<Resource>], type_url: &str) -> BTreeSet<String> {
    group.iter().filter(|one| one.type_url == type_url).map(|one| one.name.to_string()).collect()
}

/// The parts of Secrets' names that hold keys, without generations.
pub(super) fn keys(group: &[Arc<Resource>]) -> Vec<&str> {
    let keys = group.iter().filter(|one| holds_key(one.type_url, &one.value));
    keys.map(|one| one.name.split('@').next().unwrap()).collect()
}

pub(super) fn routes_of(one: &Resource) -> (VirtualHost, Value) {
    let mut routes = RouteConfiguration::decode(one.value.as_slice()).unwrap();
    let host = routes.virtual_hosts.remove(0);
    let config = &host.typed_per_filter_config[HTTP_FILTER].value;
    let config = DynamicModuleFilterPerRoute::decode(config.as_slice()).unwrap().filter_config.unwrap();
    let config = StringValue::decode(config.value.as_slice()).unwrap().value;
    let config = serde_json::from_str(&config).unwrap();
    (host, config)
}

pub(super) fn is_closed(chain: &FilterChain) -> bool {
    chain.transport_socket.is_none() && chain.filters.len() == 1 && chain.filters[0].name.ends_with("direct_response")
}

#[test]
fn https_listener_has_chains_routes_and_credentials() {
    let pki = Pki::new();
    let routes = vec![
        ("a.test", route("a", vec![cluster(NAME, 1)], 0)),
        ("*.b.test", route("b", vec![cluster(NAME, 3), cluster(NAME, 1)], 0)),
    ];
    let group = world(&pki).one(edge(vec![https("https", routes, &["x.b.test"])]));
    let shown = |one: &&Arc<Resource>| one.type_url == type_urls::listener() || one.type_url.contains("RouteConfig");
    let mut resources: Vec<_> = group.iter().filter(shown).collect();
    resources.sort();
    let mut text: String = resources.into_iter().map(render).collect();
    let mut others: Vec<_> = group.iter().filter(|one| !shown(one)).map(|one| format!("# {}\n", one.name)).collect();
    others.sort();
    text.extend(others);
    insta::assert_snapshot!("gateway_https", hide_identity(&pki.hide(&text)));
}

/// The same pools, credentials, CAs, policies and limits: only names and the certificate that clients see are the route's.
#[test]
fn cluster_at_a_gateway_is_served_as_under_its_own_names() {
    let addresses = json!({"clientAddresses": {"allow": ["192.0.2.0/24", "2001:db8::/32"]}});
    let handshake = json!({"clientCertificateVerification": "Handshake"});
    for fields in [json!({}), addresses, handshake] {
        is_served_as_under_its_own_names(&fields);
    }
}

fn server_names(chain: &FilterChain) -> Vec<String> {
    chain.filter_chain_match.clone().unwrap().server_names
}

fn is_served_as_under_its_own_names(fields: &Value) {
    let pki = Pki::new();
    let mut world = world(&pki);
    world.edit(NAME, "/spec/portcullis", fields.clone());
    let group = world.one(edge(vec![https("https", vec![("a.test", route("a", vec![cluster(NAME, 1)], 0))], &[])]));
    let own = translated(&world.settings, &[world.clusters[NAME].as_ref().clone()]);
    let is_its_own = |one: &&&Arc<Resource>| one.owner.as_deref() == Some(NAME);
    let own: Vec<_> = own.resources();
    let (mut twins, mut routes) = (0, 0);
    for one in own.iter().filter(is_its_own) {
        if one.name.ends_with("/serving") {
            assert!(!group.iter().any(|other| other.name == one.name), "its certificate is for its own names");
        } else if one.type_url == type_urls::route_configuration() {
            let place = format!("lab/infra/edge/https/{NAME}/routes");
            let at_gateway = group.iter().find(|other| *other.name == place).unwrap();
            let ((host, mut config), (own_host, own_config)) = (routes_of(at_gateway), routes_of(one));
            assert_eq!(config["authorities"], json!(["a.test"]));
            config["authorities"] = own_config["authorities"].clone();
            assert_eq!(config.as_object_mut().unwrap().remove("listener"), Some(json!("https")));
            assert_eq!((config, host.matcher, host.domains), (own_config, own_host.matcher, own_host.domains));
            routes += 1;
        } else {
            let twin = group.iter().find(|other| (&other.type_url, &other.name) == (&one.type_url, &one.name)).unwrap();
            assert_eq!((&twin.value, &twin.assignment, twin.on_demand), (&one.value, &one.assignment, one.on_demand));
            twins += 1;
        }
    }
    assert!(twins > 8 && routes == 1, "{twins}");
    let own_listener = own.iter().find(|one| one.name.ends_with("/listener")).unwrap();
    let own_chains = listeners(&[Arc::clone(own_listener)]).remove(0).filter_chains;
    let has_name = |chain: &&FilterChain| server_names(chain).iter().any(|name| name == NAME);
    // Beside it is the one that closes connections of other addresses.
    let own_chain = own_chains.iter().filter(has_name).find(|chain| chain.transport_socket.is_some()).unwrap().clone();
    let chain = chain_of(&group, "a.test");
    let manager = |chain: &FilterChain| {
        let Some(ConfigType::TypedConfig(config)) = &chain.filters[1].config_type else { panic!("{chain:?}") };
        HttpConnectionManager::decode(config.value.as_slice()).unwrap()
    };
    let (mut mine, its) = (manager(&chain), manager(&own_chain));
    let of_others = mine.access_log.split_off(its.access_log.len());
    assert_eq!(of_others.len(), 1, "requests for names of others have a line");
    assert_eq!(HttpConnectionManager { route_specifier: its.route_specifier.clone(), ..mine }, its);
    let tls = |chain: &FilterChain| {
        let socket = chain.transport_socket.clone().unwrap();
        let Some(transport_socket::ConfigType::TypedConfig(config)) = socket.config_type else { panic!("{socket:?}") };
        DownstreamTlsContext::decode(config.value.as_slice()).unwrap()
    };
    let (mut mine, its) = (tls(&chain), tls(&own_chain));
    let own_certificates = its.common_tls_context.clone().unwrap().tls_certificate_sds_secret_configs;
    mine.common_tls_context.as_mut().unwrap().tls_certificate_sds_secret_configs = own_certificates;
    assert_eq!(mine, its, "the certificate is the route's, client certificates are asked for as by the cluster");
    assert_eq!(server_names(&chain), ["a.test"]);
    let condition = FilterChainMatch { server_names: server_names(&own_chain), ..chain.filter_chain_match.unwrap() };
    assert_eq!(Some(condition), own_chain.filter_chain_match, "clientAddresses are the cluster's");
    assert_eq!(chain.filters[0], own_chain.filters[0], "the certificate is recorded");
}

#[test]
fn gateway_has_keys_of_clusters_alone_that_its_routes_lead_to() {
    let pki = Pki::new();
    let world = world(&pki);
    let gateways = [
        edge(vec![https("https", vec![("a.test", route("a", vec![cluster(NAME, 1)], 0))], &[])]),
        gateway(
            "other",
            Vec::new(),
            vec![https("https", vec![("b.test", route("b", vec![cluster(OTHER, 1)], 0))], &[])],
        ),
        gateway("none", Vec::new(), vec![https("https", Vec::new(), &[])]),
    ];
    let gateways = gateways.map(Arc::new);
    let made = world.translate(&mut GatewayTranslator::default(), &gateways);
    let keys_of =
        |name: &str| keys(&made[&ObjectName::new("infra", name)]).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let expected = |gateway: &str, cluster: &str| {
        [format!("lab/infra/{gateway}/certificate/infra/cert"), format!("lab/-/{cluster}/client")]
    };
    assert_eq!(keys_of("edge"), expected("edge", NAME));
    assert_eq!(keys_of("other"), expected("other", OTHER));
    assert_eq!(keys_of("none"), [""; 0], "Envoy asks for no certificate of a listener without routes");
    for (name, group) in &made {
        let foreign = if name.name == "edge" { OTHER } else { NAME };
        let holds = group.iter().any(|one| String::from_utf8_lossy(&one.message()).contains(foreign));
        assert!(!holds, "{name} has nothing of {foreign}");
    }
}

#[test]
fn route_of_shares_or_without_its_certificate_is_closed() {
    let pki = Pki::new();
    let one = |backends, refused| vec![("a.test", route("a", backends, refused))];
    let nothing: &dyn Fn(&mut World) = &|_| {};
    for (case, edit, backends, refused) in [
        ("two clusters", nothing, vec![cluster(NAME, 1), cluster(OTHER, 1)], 0),
        ("a refused share", nothing, vec![cluster(NAME, 1)], 1),
        ("a Service", nothing, vec![service(1)], 0),
        ("no certificate", &|world| world.secrets = GatewaySecrets::default(), vec![cluster(NAME, 1)], 0),
        ("no certificate and no backend", &|world| world.secrets = GatewaySecrets::default(), vec![], 0),
    ] {
        let mut world = world(&pki);
        edit(&mut world);
        let listener = https("https", one(backends, refused), &[]);
        let is_listener_closed = world.secrets.closed_because(&listener).is_some();
        let group = world.one(edge(vec![listener]));
        assert!(is_closed(&chain_of(&group, "a.test")), "{case}");
        assert_eq!((group.len(), keys(&group).len()), (1, 0), "{case}: only the listener");
        assert_eq!(is_listener_closed, case.starts_with("no certificate"));
    }
}

#[test]
fn clusters_that_take_no_requests_are_named() {
    let pki = Pki::new();
    let mut world = world(&pki);
    world.edit(NAME, "/spec/portcullis", json!({"transport": "TLSPassthrough"}));
    let names = [NAME.to_owned(), OTHER.to_owned()];
    let refused = GatewayTranslator::default().refused([], &names, &world.input(&[]));
    assert_eq!(refused.requests.keys().collect::<Vec<_>>(), [NAME]);
    assert!(refused.requests[NAME].contains("spec.portcullis.transport") && refused.connections.is_empty());
}

/// A request may wait for long between its decision and its way: routes of two clusters have no name in common.
#[test]
fn route_to_another_cluster_has_other_routes_and_another_chain() {
    let pki = Pki::new();
    let mut world = world(&pki);
    // From files: the two differ in their names alone.
    for name in [NAME, OTHER] {
        let mut document = world.clusters[name].as_ref().clone();
        set(&mut document, "/metadata", json!({"name": name}));
        world.clusters.insert(name.to_owned(), Arc::new(document));
    }
    let of =
        |to: &str| world.one(edge(vec![https("https", vec![("a.test", route("a", vec![cluster(to, 1)], 0))], &[])]));
    let (before, after) = (of(NAME), of(OTHER));
    for url in [type_urls::route_configuration(), type_urls::cluster(), type_urls::assignment()] {
        assert!(names(&before, url).is_disjoint(&names(&after, url)), "{url}");
    }
    assert_ne!(chain_of(&before, "a.test"), chain_of(&after, "a.test"));
}

#[test]
fn names_of_others_below_a_wildcard_are_misdirected() {
    let pki = Pki::new();
    let routes = vec![
        ("*.test", route("wide", vec![cluster(NAME, 1)], 0)),
        ("own.b.test", route("wide", vec![cluster(NAME, 1)], 0)),
        ("*.b.test", route("narrow", vec![cluster(OTHER, 1)], 0)),
        ("c.test", route("exact", vec![cluster(OTHER, 1)], 0)),
        ("same.test", route("same", vec![cluster(NAME, 1)], 0)),
    ];
    let mut listener = https("https", routes, &["gone.test"]);
    let ListenerRole::Terminate { routes: table, .. } = &mut listener.role else { panic!() };
    table.owned = [(host("*.test"), Arc::new([host("k.test"), host("own.b.test")].into()))].into();
    let group = world(&pki).one(edge(vec![listener]));
    let of = |cluster: &str| {
        let name = format!("lab/infra/edge/https/{cluster}/routes");
        let one = group.iter().find(|one| *one.name == name).unwrap();
        RouteConfiguration::decode(one.value.as_slice()).unwrap()
    };
    let wide = of(NAME);
    let [own, others] = wide.virtual_hosts.as_slice() else { panic!("{wide:?}") };
    let as_written = |names: &[&str]| -> Vec<String> {
        names.iter().flat_map(|name| [(*name).to_owned(), format!("{name}.")]).collect()
    };
    assert_eq!(own.domains[0], "*");
    assert_eq!(own.domains[1..], as_written(&["own.b.test", "same.test", "*.test"]), "its own, of whichever route");
    assert_eq!(
        others.domains,
        as_written(&["c.test", "gone.test", "k.test", "*.b.test"]),
        "with a dot at the end, too"
    );
    assert!(wide.ignore_port_in_host_matching);
    let Some(Action::DirectResponse(answer)) = &others.routes[0].action else { panic!("{others:?}") };
    assert_eq!((answer.status, others.typed_per_filter_config.len()), (421, 1), "the filter is off where nothing is");
    assert_eq!(of(OTHER).virtual_hosts[1].domains, as_written(&["own.b.test"]));
    let exact = vec![("c.test", route("exact", vec![cluster(OTHER, 1)], 0))];
    let group = world(&pki).one(edge(vec![https("https", exact, &["gone.test"])]));
    let routes = group.iter().find(|one| one.type_url == type_urls::route_configuration()).unwrap();
    let routes = RouteConfiguration::decode(routes.value.as_slice()).unwrap();
    assert_eq!((routes.virtual_hosts.len(), routes.ignore_port_in_host_matching), (1, false));
}

#[test]
fn resources_of_gateways_have_owners_that_no_object_has() {
    let pki = Pki::new();
    let routes = vec![("a.test", route("a", vec![cluster(NAME, 1)], 0))];
    let group = world(&pki).one(edge(vec![https("https", routes, &[])]));
    let owners: BTreeSet<&str> = group.iter().filter_map(|one| one.owner.as_deref()).collect();
    assert_eq!(owners, [format!("UpstreamCluster {NAME}").as_str()].into());
    let parts = group.iter().flat_map(|one| &one.parts).map(|part| part.owner.as_ref()).collect::<Vec<_>>();
    assert_eq!(parts, ["HTTPRoute team/a"]);
}

#[test]
fn one_port_has_both_uses_of_tls() {
    let pki = Pki::new();
    let passed =
        listener("tls", 443, vec![("p.test", super::gateway_world::route("p", vec![cluster(OTHER, 1)], 0))], &[]);
    let judged = https("https", vec![("a.test", route("a", vec![cluster(NAME, 1)], 0))], &[]);
    let group = world(&pki).one(edge(vec![passed, judged]));
    assert_eq!(listeners(&group).len(), 1);
    assert!(
        chain_of(&group, "a.test").transport_socket.is_some() && chain_of(&group, "p.test").transport_socket.is_none()
    );
}

fn plain(port: u16, ports: &[(&str, u16)], withheld: &[&str]) -> ServedListener {
    let ports = ports.iter().map(|(name, port)| (host(name), *port)).collect();
    let owned = [(host("*.test"), Arc::new([host("a.test"), host("d.test")].into()))].into();
    let table = RedirectTable { ports, withheld: withheld.iter().map(|name| host(name)).collect(), owned };
    ServedListener {
        role: ListenerRole::Redirect(Arc::new(table)),
        ..listener(&format!("http-{port}"), port, Vec::new(), &[])
    }
}

/// The answers of a port, by domains: a code, and the port of a redirect.
fn answers(group: &[Arc<Resource>], name: &str) -> Vec<(Vec<String>, u32, u32)> {
    let listener = listeners(group).into_iter().find(|one| one.name.ends_with(name)).unwrap();
    let Some(ConfigType::TypedConfig(config)) = &listener.filter_chains[0].filters[0].config_type else { panic!() };
    let manager = HttpConnectionManager::decode(config.value.as_slice()).unwrap();
    let Some(RouteSpecifier::RouteConfig(routes)) = manager.route_specifier else { panic!() };
    assert_eq!(routes.ignore_port_in_host_matching, routes.virtual_hosts.len() > 1);
    let answer = |host: VirtualHost| match host.routes[0].action.as_ref().unwrap() {
        Action::DirectResponse(answer) => (host.domains, answer.status, 0),
        Action::Redirect(redirect) => {
            assert_eq!(redirect.response_code(), RedirectResponseCode::PermanentRedirect);
            let added = host.routes[0].response_headers_to_add.iter().filter_map(|one| one.header.as_ref());
            let added: Vec<(&str, &str)> = added.map(|one| (one.key.as_str(), one.value.as_str())).collect();
            assert_eq!(added, [("cache-control", "no-store")], "no client keeps it");
            (host.domains, 308, redirect.port_redirect)
        }
        other => panic!("{other:?}"),
    };
    routes.virtual_hosts.into_iter().map(answer).collect()
}

#[test]
fn plain_http_leads_to_https_that_is_served_and_nowhere_else() {
    let pki = Pki::new();
    let served = |ports: &[(&str, u16)], withheld: &[&str], world: &World| {
        let judged = https("https", vec![("a.test", route("a", vec![cluster(NAME, 1)], 0))], &[]);
        let plain = [plain(80, ports, withheld), plain(80, &[], &[]), plain(8080, &[], &[])];
        world.one(edge([vec![judged], plain.to_vec()].concat()))
    };
    let domains = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let world = world(&pki);
    let ports = [("a.test", 443), ("*.test", 443), ("b.test", 8443)];
    let group = served(&ports, &["c.test"], &world);
    let expected = vec![
        (domains(&["a.test", "*.test"]), 308, 443),
        (domains(&["b.test", "c.test", "d.test"]), 404, 0),
        (domains(&["*"]), 404, 0),
    ];
    assert_eq!(answers(&group, "-80"), expected, "at 8443 nothing is served");
    let nowhere = vec![(domains(&["*"]), 404, 0)];
    assert_eq!(answers(&group, "-8080"), nowhere);
    let without = World { secrets: GatewaySecrets::default(), ..world };
    assert_eq!(answers(&served(&ports, &["c.test"], &without), "-80"), nowhere, "nothing is served at 443 either");
}

#[test]
fn renewed_certificate_changes_its_secret_alone() {
    let pki = Pki::new();
    let mut world = world(&pki);
    let gateways = [Arc::new(edge(vec![https("https", vec![("a.test", route("a", vec![cluster(NAME, 1)], 0))], &[])]))];
    let (mut translator, name) = (GatewayTranslator::default(), ObjectName::new("infra", "edge"));
    let before = world.translate(&mut translator, &gateways).remove(&name).unwrap();
    assert!(Arc::ptr_eq(&before, &world.translate(&mut translator, &gateways)[&name]), "nothing is other than before");
    let pair = Pki::new().settings().default_certificate.unwrap();
    world.secrets.serving.insert(certificate(), Arc::new(pair));
    let after = world.translate(&mut translator, &gateways).remove(&name).unwrap();
    let changed: Vec<&str> =
        before.iter().zip(after.iter()).filter(|(one, other)| one != other).map(|(one, _)| one.name.as_ref()).collect();
    assert_eq!(changed, ["lab/infra/edge/certificate/infra/cert"]);
    assert_eq!(after, world.translate(&mut GatewayTranslator::default(), &gateways)[&name]);
}
