//! Addresses and TLS of the settings, at every listener that there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::address::Address as AddressKind;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{Address, transport_socket};
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{DownstreamTlsContext, TlsParameters};
use portcullis_api::{DownstreamTls, ProxyProtocol, Settings, TlsVersion, Tunnel};
use prost::Message;

use super::fixture::{Pki, translated};
use super::gateway_https::{edge, https, route, world};
use super::gateway_world::{NAME, cluster, gateway, listener, listeners};
use crate::resource::{Resource, type_urls};

fn with_addresses(settings: Settings, additional: &[&str]) -> Settings {
    let additional_addresses = additional.iter().map(|text| text.parse().unwrap()).collect();
    let tunnel = Tunnel { port: 8443, header: "x-to".to_owned(), sources: Vec::new() };
    let proxies = ProxyProtocol { port: Some(6444), trusted: Vec::new() };
    Settings { additional_addresses, tunnel: Some(tunnel), proxy_protocol: Some(proxies), ..settings }
}

fn text(address: &Address) -> String {
    let Some(AddressKind::SocketAddress(socket)) = &address.address else { panic!("{address:?}") };
    let Some(PortSpecifier::PortValue(port)) = socket.port_specifier else { panic!("{socket:?}") };
    assert!(!socket.ipv4_compat, "a socket for IPv6 is for nothing else");
    format!("{} {port}", socket.address)
}

fn addresses(listener: &Listener) -> Vec<String> {
    let more = listener.additional_addresses.iter().filter_map(|one| one.address.as_ref());
    listener.address.iter().chain(more).map(text).collect()
}

/// Of each listener that has any.
fn all_addresses(resources: &[Arc<Resource>]) -> BTreeMap<String, Vec<String>> {
    let all = listeners(resources).into_iter();
    all.map(|one| (one.name.clone(), addresses(&one))).filter(|(_, addresses)| !addresses.is_empty()).collect()
}

fn served(settings: &Settings, pki: &Pki) -> Vec<Arc<Resource>> {
    let translation = translated(settings, &[pki.cluster(NAME)]);
    let all = translation.resources().into_iter().filter(|one| one.type_url == type_urls::listener());
    all.map(Arc::clone).collect()
}

#[test]
fn one_listener_has_all_addresses() {
    let pki = Pki::new();
    let of = |additional: &[&str]| all_addresses(&served(&with_addresses(pki.settings(), additional), &pki));
    let expected = |all: [&[&str]; 3]| {
        let names = ["-/-/-/listener", "-/-/-/proxied-listener", "-/-/-/tunnel-listener"].map(str::to_owned);
        names.into_iter().zip(all.map(|one| one.iter().map(ToString::to_string).collect())).collect()
    };
    assert_eq!(of(&[]), expected([&["0.0.0.0 6443"], &["0.0.0.0 6444"], &["0.0.0.0 8443"]]));
    let stacks: [&[&str]; 3] =
        [&["0.0.0.0 6443", ":: 6443", "0.0.0.0 443"], &["0.0.0.0 6444", ":: 6444"], &["0.0.0.0 8443", ":: 8443"]];
    assert_eq!(of(&["[::]:6443", "0.0.0.0:443"]), expected(stacks));
    let contained: [&[&str]; 3] = [&["0.0.0.0 6443", "10.0.0.1 443"], &["0.0.0.0 6444"], &["0.0.0.0 8443"]];
    assert_eq!(of(&["10.0.0.1:443"]), expected(contained));
}

#[test]
fn addresses_change_no_chain() {
    let pki = Pki::new();
    let chains = |additional: &[&str]| {
        let settings = with_addresses(pki.settings(), additional);
        listeners(&served(&settings, &pki)).into_iter().map(|one| (one.name, one.filter_chains)).collect::<Vec<_>>()
    };
    assert_eq!(chains(&[]), chains(&["[::]:6443", "0.0.0.0:443"]));
}

#[test]
fn gateway_without_addresses_has_those_of_the_settings() {
    let pki = Pki::new();
    let mut world = world(&pki);
    world.settings = with_addresses(world.settings, &["[::]:6443", "0.0.0.0:443", "10.0.0.1:8080"]);
    let routes = || vec![("a.test", super::gateway_world::route("a", vec![cluster(NAME, 1)], 0))];
    let names = |addresses| {
        let group = world.one(gateway("edge", addresses, vec![listener("tls", 9443, routes(), &[])]));
        all_addresses(&group).into_values().flatten().collect::<Vec<_>>()
    };
    assert_eq!(names(Vec::new()), ["0.0.0.0 9443", ":: 9443"]);
    assert_eq!(names(vec![[192, 0, 2, 1].into()]), ["192.0.2.1 9443"]);
}

/// The parameters of each chain that ends TLS.
fn parameters(resources: &[Arc<Resource>]) -> Vec<TlsParameters> {
    let chains =
        listeners(resources).into_iter().flat_map(|one| one.filter_chains.into_iter().chain(one.default_filter_chain));
    let sockets = chains.filter_map(|chain| chain.transport_socket?.config_type);
    let of = |config| {
        let transport_socket::ConfigType::TypedConfig(config) = config;
        let context = DownstreamTlsContext::decode(config.value.as_slice()).unwrap();
        context.common_tls_context.unwrap().tls_params.unwrap()
    };
    sockets.map(of).collect()
}

#[test]
fn every_chain_has_the_versions_and_suites_of_the_settings() {
    let pki = Pki::new();
    let suites = || vec!["ECDHE-RSA-AES256-GCM-SHA384".to_owned()];
    for (minimum_version, cipher_suites, minimum) in [
        (TlsVersion::Tls12, Vec::new(), TlsProtocol::TlSv12),
        (TlsVersion::Tls12, suites(), TlsProtocol::TlSv12),
        (TlsVersion::Tls13, Vec::new(), TlsProtocol::TlSv13),
    ] {
        let mut world = world(&pki);
        world.settings.tls = DownstreamTls { minimum_version, cipher_suites: cipher_suites.clone() };
        let routes = vec![("a.test", route("a", vec![cluster(NAME, 1)], 0))];
        let of_gateway = parameters(&world.one(edge(vec![https("https", routes, &[])])));
        let own = parameters(&served(&with_addresses(world.settings, &[]), &pki));
        assert_eq!((of_gateway.len(), own.len()), (1, 5), "of unknown names, too, at two ports, and in a tunnel");
        let expected = TlsParameters {
            tls_minimum_protocol_version: minimum.into(),
            tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
            cipher_suites,
            ..Default::default()
        };
        assert!(of_gateway.iter().chain(&own).all(|one| *one == expected), "{of_gateway:?} {own:?}");
    }
}
