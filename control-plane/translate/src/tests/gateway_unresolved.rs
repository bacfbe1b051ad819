//! Host names of routes without a backend that can be used: one chain of a listener answers all of them with 500, and reaches nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::transport_socket;
use envoy_types::pb::envoy::config::listener::v3::FilterChain;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::{DirectResponseAction, Route, RouteConfiguration, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
use portcullis_api::PublicBytes;
use portcullis_attach::{
    BoundRoute, HostPattern, ListenerRole, ObjectName, ServedClientCa, ValidationMode, WeightedBackend,
};
use prost::Message;
use serde_json::{Value, json};

use super::fixture::Pki;
use super::gateway_https::{edge, https, is_closed, keys, route, world};
use super::gateway_world::{NAME, OTHER, World, chain_of, cluster, host, listeners};
use crate::GatewayTranslator;
use crate::resource::{Resource, type_urls};

fn manager(chain: &FilterChain) -> HttpConnectionManager {
    let [filter] = chain.filters.as_slice() else { panic!("{chain:?}") };
    let Some(ConfigType::TypedConfig(config)) = &filter.config_type else { panic!("{filter:?}") };
    HttpConnectionManager::decode(config.value.as_slice()).unwrap()
}

fn routes(chain: &FilterChain) -> RouteConfiguration {
    match manager(chain).route_specifier {
        Some(RouteSpecifier::RouteConfig(routes)) => routes,
        other => panic!("{other:?}"),
    }
}

fn answer(route: &Route) -> &DirectResponseAction {
    match &route.action {
        Some(Action::DirectResponse(answer)) => answer,
        other => panic!("{other:?}"),
    }
}

/// The codes of the answers by domain, in the order of routes.
fn codes(chain: &FilterChain) -> BTreeMap<String, Vec<u32>> {
    let routes = routes(chain);
    assert!(routes.ignore_port_in_host_matching);
    let of_host = |host: &VirtualHost| {
        let codes: Vec<u32> = host.routes.iter().map(|route| answer(route).status).collect();
        host.domains.iter().map(|domain| (domain.clone(), codes.clone())).collect::<Vec<_>>()
    };
    routes.virtual_hosts.iter().flat_map(of_host).collect()
}

/// Whether requests for a host name get 500.
pub(super) fn is_unresolved(group: &[Arc<Resource>], host: &str) -> bool {
    let chain = chain_of(group, host);
    chain.name.contains("/unresolved/") && codes(&chain)[host] == [500]
}

fn nowhere(name: &str) -> BoundRoute {
    route(name, Vec::new(), 1)
}

#[test]
fn route_without_a_usable_backend_answers_500() {
    let pki = Pki::new();
    let passing = |world: &mut World| world.edit(NAME, "/spec/portcullis", json!({"transport": "TLSPassthrough"}));
    let wrong = |world: &mut World| world.edit(NAME, "/spec/servers", json!("x"));
    let nothing: &dyn Fn(&mut World) = &|_| {};
    let one = || vec![cluster(NAME, 1)];
    type Case<'a> = (&'a str, &'a dyn Fn(&mut World), Vec<WeightedBackend>, u32);
    let cases: [Case<'_>; 6] = [
        ("no backend", nothing, vec![], 0),
        ("no backend that is permitted", nothing, vec![], 1),
        ("no weight", nothing, vec![cluster(NAME, 0)], 0),
        ("a cluster that is not there", &|world| drop(world.clusters.remove(NAME)), one(), 0),
        ("connections that are passed on", &passing, one(), 0),
        ("a cluster that is refused", &wrong, one(), 0),
    ];
    for (case, edit, backends, refused) in cases {
        let mut world = world(&pki);
        edit(&mut world);
        let group = world.one(edge(vec![https("https", vec![("a.test", route("a", backends, refused))], &[])]));
        assert!(is_unresolved(&group, "a.test"), "{case}");
        assert_eq!(keys(&group), ["lab/infra/edge/certificate/infra/cert"], "{case}: no credential");
        assert_eq!(group.len(), 2, "{case}: the listener and its certificate");
    }
}

/// Clients of Kubernetes read a `Status` alone, and those who get it need not be able to read the route.
#[test]
fn answer_without_a_backend_is_a_status_of_no_names() {
    let pki = Pki::new();
    let gone = route("tenants-route", vec![cluster("tenants-cluster", 1)], 0);
    let group = world(&pki).one(edge(vec![https("https", vec![("a.test", gone)], &[])]));
    let routes = routes(&chain_of(&group, "a.test"));
    let answer = answer(&routes.virtual_hosts[0].routes[0]);
    let Some(Specifier::InlineString(text)) = answer.body.as_ref().unwrap().specifier.clone() else { panic!() };
    let body: Value = serde_json::from_str(&text).unwrap();
    let expected = [("kind", json!("Status")), ("status", json!("Failure")), ("reason", json!("InternalError"))];
    for (field, value) in expected.into_iter().chain([("code", json!(500))]) {
        assert_eq!(body[field], value, "{field}");
    }
    assert!(body["message"].as_str().unwrap().contains("conditions"), "{body}");
    for name in ["tenants", "infra", "edge", "a.test"] {
        assert!(!text.contains(name), "{name}: {text}");
    }
}

/// Whatever a request has, there is nothing behind it: no cluster, and no filter of ours.
#[test]
fn chain_without_a_backend_reads_no_credential() {
    let pki = Pki::new();
    let routes = vec![("a.test", nowhere("a")), ("b.test", route("b", vec![cluster(NAME, 1)], 0))];
    let group = world(&pki).one(edge(vec![https("https", routes, &[])]));
    let chain = chain_of(&group, "a.test");
    let manager = manager(&chain);
    let filters: Vec<&str> = manager.http_filters.iter().map(|filter| filter.name.as_str()).collect();
    assert_eq!(filters.last(), Some(&"envoy.filters.http.router"));
    assert!(filters.iter().all(|name| !name.contains("portcullis")), "{filters:?}");
    let text = String::from_utf8_lossy(&chain.encode_to_vec()).into_owned();
    assert!(!text.contains(NAME) && !text.to_lowercase().contains("%req("), "{text}");
    assert!(manager.access_log.len() == 2 && manager.xff_num_trusted_hops == 0);
    let options = manager.common_http_protocol_options.unwrap();
    assert_eq!(
        options.max_requests_per_connection.map(|most| most.value),
        Some(1),
        "no connection outlasts its answer"
    );
    assert_ne!(chain_of(&group, "b.test"), chain, "another route is served as ever");
}

#[test]
fn names_without_a_backend_share_one_chain_of_a_listener() {
    let pki = Pki::new();
    let others = BoundRoute { route: ObjectName::new("other", "o"), ..nowhere("o") };
    let routes = vec![
        ("a.test", nowhere("a")),
        ("o.test", others.clone()),
        ("*.wide.test", nowhere("wide")),
        ("own.wide.test", others),
        ("served.wide.test", route("served", vec![cluster(NAME, 1)], 0)),
        ("*.open.test", route("open", vec![cluster(OTHER, 1)], 0)),
        ("held.open.test", nowhere("held")),
    ];
    let mut listener = https("https", routes, &["gone.wide.test"]);
    let ListenerRole::Terminate { routes: table, .. } = &mut listener.role else { panic!() };
    table.owned = [(host("*.wide.test"), Arc::new([host("k.wide.test")].into()))].into();
    let second = https("second", vec![("z.test", nowhere("z"))], &[]);
    let group = world(&pki).one(edge(vec![listener, second]));
    let chain = chain_of(&group, "a.test");
    let own = ["*.wide.test", "a.test", "held.open.test", "o.test", "own.wide.test"];
    let found: BTreeSet<String> = chain.filter_chain_match.clone().unwrap().server_names.into_iter().collect();
    assert_eq!(found, own.map(str::to_owned).into());
    let codes = codes(&chain);
    for name in own {
        for name in [name.to_owned(), format!("{name}.")] {
            assert_eq!(codes[&name], [500], "{name}");
        }
    }
    let others = ["served.wide.test", "gone.wide.test", "k.wide.test"];
    // An address names no route: the handshake's name has chosen it.
    for (name, expected) in others.map(|name| (name, [500, 421])).into_iter().chain([("*", [500, 421])]) {
        assert_eq!(codes[name], expected, "{name}");
    }
    assert_eq!(codes.len(), 2 * (own.len() + others.len()) + 1);
    let by_address = &routes_of_others(&chain)[0];
    let [authority] = by_address.r#match.as_ref().unwrap().headers.as_slice() else { panic!("{by_address:?}") };
    assert_eq!(authority.name, ":authority");
    assert_ne!(chain_of(&group, "z.test").name, chain.name, "each listener has certificates of its own");
    let all = listeners(&group).remove(0).filter_chains;
    assert_eq!(all.iter().filter(|chain| chain.name.contains("/unresolved/")).count(), 2);
    let routes = group.iter().find(|one| one.name.ends_with(&format!("{OTHER}/routes"))).unwrap();
    let routes = RouteConfiguration::decode(routes.value.as_slice()).unwrap();
    assert_eq!(routes.virtual_hosts[1].domains, ["held.open.test", "held.open.test."], "no name of the wildcard's");
}

fn routes_of_others(chain: &FilterChain) -> Vec<Route> {
    routes(chain).virtual_hosts.pop().unwrap().routes
}

/// The Gateway's author has asked for certificates, whatever is behind.
#[test]
fn connection_without_a_backend_needs_the_gateways_ca() {
    let pki = Pki::new();
    let mut world = world(&pki);
    let name = ObjectName::new("infra", "frontend");
    let authority = Arc::new(PublicBytes::new(pki.upstream_ca.cert.as_bytes().to_vec()));
    world.secrets.client_authorities.insert(name.clone(), authority);
    for (mode, is_required) in [(ValidationMode::AllowValidOnly, true), (ValidationMode::AllowInsecureFallback, false)]
    {
        let mut listener = https("https", vec![("a.test", nowhere("a"))], &[]);
        if let ListenerRole::Terminate { client_ca, .. } = &mut listener.role {
            *client_ca = Some(ServedClientCa { config_maps: vec![name.clone()], mode });
        }
        let group = world.one(edge(vec![listener]));
        let socket = chain_of(&group, "a.test").transport_socket.unwrap();
        let Some(transport_socket::ConfigType::TypedConfig(config)) = socket.config_type else { panic!("{socket:?}") };
        let context = DownstreamTlsContext::decode(config.value.as_slice()).unwrap();
        assert_eq!(context.require_client_certificate.unwrap().value, is_required);
        let authorities = group.iter().filter(|one| one.name.contains("/frontend-validation@")).count();
        assert_eq!(authorities, usize::from(is_required), "the secret to which the chain refers");
    }
}

#[test]
fn backend_that_goes_and_comes_back_leaves_nothing() {
    let pki = Pki::new();
    let (world, mut translator) = (world(&pki), GatewayTranslator::default());
    let of = |backends: Vec<WeightedBackend>, refused: u32| {
        let routes = vec![("a.test", route("a", backends, refused)), ("b.test", nowhere("b"))];
        Arc::new(edge(vec![https("https", routes, &[])]))
    };
    let mut translate = |gateway: &Arc<_>| {
        let made = world.translate(&mut translator, &[Arc::clone(gateway)]);
        let fresh = world.translate(&mut GatewayTranslator::default(), &[Arc::clone(gateway)]);
        assert_eq!(made, fresh);
        made.into_values().next().unwrap()
    };
    let (open, gone) = (of(vec![cluster(NAME, 1)], 0), of(Vec::new(), 1));
    let before = translate(&open);
    assert!(!is_unresolved(&before, "a.test") && is_unresolved(&before, "b.test"));
    let without = translate(&gone);
    assert!(is_unresolved(&without, "a.test") && is_unresolved(&without, "b.test"));
    assert!(without.iter().all(|one| one.type_url == type_urls::listener() || one.type_url == type_urls::secret()));
    assert_eq!(translate(&open), before);
}

/// They count in the room for configurations, after all that is served; beyond it connections are closed.
#[test]
fn names_without_a_backend_beyond_the_room_are_closed() {
    let pki = Pki::new();
    let world = world(&pki);
    let labels = [&"x".repeat(60), &"y".repeat(60), &"z".repeat(60)].map(String::as_str).join(".");
    let with = |count: usize| {
        let mut listener = https("https", vec![("served.test", route("served", vec![cluster(NAME, 1)], 0))], &[]);
        if let ListenerRole::Terminate { routes, .. } = &mut listener.role {
            let name = |index: usize| HostPattern::Exact(format!("{index:06}.{labels}.{labels}.test"));
            routes.routes.extend((0..count).map(|index| (name(index), nowhere("a"))));
        }
        let group = world.one(edge(vec![listener]));
        let chain = chain_of(&group, &format!("000000.{labels}.{labels}.test"));
        (is_closed(&chain), is_closed(&chain_of(&group, "served.test")))
    };
    assert_eq!(with(10), (false, false));
    assert_eq!(with(60_000), (true, false), "64 MiB, of more than a KiB for each");
}
