//! `tls.frontend` of a Gateway: its CAs verify handshakes, in addition to what the cluster asks for.

use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::transport_socket;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::certificate_validation_context::TrustChainVerification;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, DownstreamTlsContext, Secret, secret,
};
use portcullis_api::{PublicBytes, bundle_parts};
use portcullis_attach::{
    HostPattern, ListenerRole, ObjectName, RouteKind, ServedClientCa, ServedGateway, ServedListener, ValidationMode,
};
use prost::Message;
use serde_json::json;

use super::fixture::{Pki, base64};
use super::gateway_https::{certificate, edge, https, is_closed, keys, names, route, world};
use super::gateway_world::{NAME, OTHER, World, chain_of, cluster};
use crate::GatewayTranslator;
use crate::resource::{ResourceGroup, type_urls};

/// A listener whose connections need a certificate of these CAs.
fn validated(mode: ValidationMode, config_maps: &[&str], to: &str) -> ServedListener {
    let mut listener = https("https", vec![("a.test", route("a", vec![cluster(to, 1)], 0))], &[]);
    if let ListenerRole::Terminate { client_ca, .. } = &mut listener.role {
        let config_maps = config_maps.iter().map(|name| ObjectName::new("infra", *name)).collect();
        *client_ca = Some(ServedClientCa { config_maps, mode });
    }
    listener
}

fn valid_only(config_maps: &[&str]) -> ServedGateway {
    edge(vec![validated(ValidationMode::AllowValidOnly, config_maps, NAME)])
}

/// CAs for a Gateway beside the cluster's own, `clients`.
fn with_authorities(pki: &Pki) -> World {
    let mut world = world(pki);
    for (name, ca) in [("clients", &pki.client_ca), ("frontend", &pki.upstream_ca), ("more", &pki.serving)] {
        let bundle = Arc::new(PublicBytes::new(ca.cert.clone().into()));
        world.secrets.client_authorities.insert(ObjectName::new("infra", name), bundle);
    }
    world
}

/// The validation of client certificates in the handshake of a chain.
struct Handshake {
    name: String,
    context: CertificateValidationContext,
    is_required: bool,
}

impl Handshake {
    fn of(group: &ResourceGroup) -> Self {
        let socket = chain_of(group, "a.test").transport_socket.unwrap();
        let Some(transport_socket::ConfigType::TypedConfig(config)) = socket.config_type else { panic!("{socket:?}") };
        let tls = DownstreamTlsContext::decode(config.value.as_slice()).unwrap();
        let common = tls.common_tls_context.unwrap();
        let Some(ValidationContextType::ValidationContextSdsSecretConfig(sds)) = common.validation_context_type else {
            panic!("{common:?}")
        };
        let found = group.iter().find(|one| one.type_url == type_urls::secret() && *one.name == sds.name).unwrap();
        let secret = Secret::decode(found.value.as_slice()).unwrap();
        let Some(secret::Type::ValidationContext(context)) = secret.r#type else { panic!("{}", sds.name) };
        assert!(tls.disable_stateful_session_resumption, "a resumed session would skip the validation");
        Self { name: sds.name, context, is_required: tls.require_client_certificate.unwrap().value }
    }

    fn trusted(&self) -> BTreeSet<String> {
        let Some(Specifier::InlineBytes(pem)) = self.context.trusted_ca.clone().unwrap().specifier else { panic!() };
        bundle_parts(&PublicBytes::new(pem))
    }
}

fn parts(authorities: &[&str]) -> BTreeSet<String> {
    authorities.iter().flat_map(|pem| bundle_parts(&PublicBytes::new((*pem).into()))).collect()
}

#[test]
fn connection_needs_a_certificate_of_the_gateways_ca() {
    let pki = Pki::new();
    let world = with_authorities(&pki);
    let group = world.one(valid_only(&["frontend", "more"]));
    let handshake = Handshake::of(&group);
    assert!(handshake.is_required);
    assert_eq!(handshake.context.trust_chain_verification(), TrustChainVerification::VerifyTrustChain);
    assert_eq!(handshake.trusted(), parts(&[&pki.upstream_ca.cert, &pki.serving.cert]), "the cluster's is not enough");
    // The user is named by the cluster's CA alone, which the filter verifies by.
    let own = world.one(edge(vec![https("https", vec![("a.test", route("a", vec![cluster(NAME, 1)], 0))], &[])]));
    let routes = |group: &ResourceGroup| {
        group.iter().find(|one| one.type_url == type_urls::route_configuration()).unwrap().clone()
    };
    assert_eq!(routes(&group), routes(&own));
    assert!(!String::from_utf8_lossy(&routes(&group).value).contains(&pki.upstream_ca.cert.replace('\n', "\\n")));
    assert_eq!(keys(&group), keys(&own));
}

#[test]
fn insecure_fallback_leaves_certificates_to_the_cluster() {
    let pki = Pki::new();
    for verification in ["Request", "Handshake"] {
        let mut world = with_authorities(&pki);
        world.edit(NAME, "/spec/portcullis", json!({"clientCertificateVerification": verification}));
        let fallback = validated(ValidationMode::AllowInsecureFallback, &["frontend"], NAME);
        let without = https("https", vec![("a.test", route("a", vec![cluster(NAME, 1)], 0))], &[]);
        assert_eq!(world.one(edge(vec![fallback])), world.one(edge(vec![without])), "{verification}");
    }
}

/// A secret of one name with two contents would be the one for connections of the other.
#[test]
fn other_authorities_are_another_secret_and_another_chain() {
    let pki = Pki::new();
    let world = with_authorities(&pki);
    let of = |config_maps: &[&str]| world.one(valid_only(config_maps));
    let fallback = world.one(edge(vec![validated(ValidationMode::AllowInsecureFallback, &["frontend"], NAME)]));
    let all = [of(&["frontend"]), of(&["more"]), of(&["frontend", "more"]), of(&["clients"]), fallback];
    let secrets: BTreeSet<String> = all.iter().map(|group| Handshake::of(group).name).collect();
    assert_eq!(secrets.len(), all.len(), "{secrets:?}");
    let chains: Vec<_> = all.iter().map(|group| chain_of(group, "a.test")).collect();
    assert!(chains.iter().enumerate().all(|(at, chain)| !chains[..at].contains(chain)));
    assert_eq!(of(&["more", "frontend"]), of(&["frontend", "more"]), "their order makes no difference");
    let beginning = "lab/infra/edge/frontend-validation@";
    assert!(secrets.iter().filter(|name| name.starts_with(beginning)).count() == 4, "{secrets:?}");
}

#[test]
fn listener_without_an_authority_is_closed() {
    let pki = Pki::new();
    let mut world = with_authorities(&pki);
    let large = pki.client_ca.cert.repeat(64 * 1024 / pki.client_ca.cert.len() + 1);
    let large = Arc::new(PublicBytes::new(large.into()));
    world.secrets.client_authorities.insert(ObjectName::new("infra", "large"), large);
    for (config_maps, expected) in [
        (&["frontend"][..], None),
        (&["unread", "frontend"], None),
        (&["unread"], Some("none of the CAs of tls.frontend")),
        (&[], Some("none of the CAs of tls.frontend")),
        (&["large"], Some("more than 64 KiB")),
        (&["frontend", "large"], Some("more than 64 KiB")),
    ] {
        let listener = validated(ValidationMode::AllowValidOnly, config_maps, NAME);
        let why = world.secrets.closed_because(&listener);
        assert!(
            why.is_some() == expected.is_some() && expected.is_none_or(|text| why.unwrap().contains(text)),
            "{why:?}"
        );
        let group = world.one(edge(vec![listener]));
        assert_eq!(is_closed(&chain_of(&group, "a.test")), expected.is_some(), "{config_maps:?}");
        assert_eq!(keys(&group).is_empty(), expected.is_some(), "no key without a connection");
    }
    let unknown = validated(ValidationMode::Other("Later".to_owned()), &["frontend"], NAME);
    assert!(world.secrets.closed_because(&unknown).is_some());
    world.secrets.serving.remove(&certificate());
    let without = validated(ValidationMode::AllowValidOnly, &["frontend"], NAME);
    assert_eq!(world.secrets.closed_because(&without), Some("none of its certificates can be read"));
}

/// Envoy verifies a handshake by one bundle: where the cluster has its own CA verify it, too, both have to hold.
#[test]
fn handshake_of_two_authorities_has_the_smaller_bundle_or_none() {
    let pki = Pki::new();
    let [clients, frontend] = [&pki.client_ca.cert, &pki.upstream_ca.cert].map(String::as_str);
    for (case, of_cluster, config_maps, expected) in [
        ("the same", vec![clients], &["clients"][..], Some(vec![clients])),
        ("more at the Gateway", vec![clients], &["frontend", "clients"], Some(vec![clients])),
        ("more at the cluster", vec![frontend, clients], &["frontend"], Some(vec![frontend])),
        ("different ones", vec![clients], &["frontend"], None),
        ("one in common", vec![frontend, clients], &["frontend", "more"], None),
    ] {
        let mut world = with_authorities(&pki);
        world.edit(NAME, "/spec/portcullis", json!({"clientCertificateVerification": "Handshake"}));
        world.edit(NAME, "/spec/secureServing/clientCAData", json!(base64(&of_cluster.concat())));
        let mut translator = GatewayTranslator::default();
        let gateway = Arc::new(valid_only(config_maps));
        let group = world.translate(&mut translator, &[gateway]).remove(&ObjectName::new("infra", "edge")).unwrap();
        let closures = translator.closures();
        match expected {
            Some(expected) => {
                let handshake = Handshake::of(&group);
                assert!(handshake.is_required && closures.is_empty(), "{case}");
                assert_eq!(handshake.trusted(), parts(&expected), "{case}");
            }
            None => {
                assert!(is_closed(&chain_of(&group, "a.test")) && keys(&group).is_empty(), "{case}");
                let closure = &closures[&(RouteKind::Http, ObjectName::new("team", "a"))][0];
                assert_eq!(
                    (closure.reason, closure.listener.as_str()),
                    ("DifferentClientAuthorities", "https"),
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn one_cluster_that_is_closed_closes_no_other() {
    let pki = Pki::new();
    let mut world = with_authorities(&pki);
    world.edit(NAME, "/spec/portcullis", json!({"clientCertificateVerification": "Handshake"}));
    let mut listener = validated(ValidationMode::AllowValidOnly, &["frontend"], NAME);
    if let ListenerRole::Terminate { routes, .. } = &mut listener.role {
        let other = route("b", vec![cluster(OTHER, 1)], 0);
        routes.routes.insert(HostPattern::parse("b.test").unwrap(), other);
    }
    let group = world.one(edge(vec![listener]));
    assert!(is_closed(&chain_of(&group, "a.test")) && !is_closed(&chain_of(&group, "b.test")));
    let secrets = names(&group, type_urls::secret());
    assert!(!secrets.iter().any(|name| name.contains(NAME)), "{secrets:?}");
}

/// The budgets are the Gateway's: routes beyond them are closed, and say so.
#[test]
fn route_beyond_the_budget_of_client_addresses_is_named() {
    let pki = Pki::new();
    let mut world = world(&pki);
    let ranges: Vec<String> = (0..100).map(|index| format!("192.0.2.{index}/32")).collect();
    world.edit(NAME, "/spec/portcullis", json!({"clientAddresses": {"allow": ranges}}));
    let host_names: Vec<String> = (0..40).map(|index| format!("n{index:02}.test")).collect();
    let all = |name: &str, hosts: &[String]| -> Vec<(String, portcullis_attach::BoundRoute)> {
        hosts.iter().map(|host| (host.clone(), route(name, vec![cluster(NAME, 1)], 0))).collect()
    };
    let both = [all("a", &host_names[..25]), all("b", &host_names[25..])].concat();
    let routes = both.iter().map(|(host, route)| (host.as_str(), route.clone())).collect();
    let gateway = Arc::new(edge(vec![https("https", routes, &[])]));
    let mut translator = GatewayTranslator::default();
    let group = world.translate(&mut translator, &[Arc::clone(&gateway)]);
    let group = &group[&ObjectName::new("infra", "edge")];
    assert!(!is_closed(&chain_of(group, "n00.test")) && is_closed(&chain_of(group, "n39.test")));
    let closures = translator.closures();
    let found: Vec<_> = closures.iter().map(|((_, route), all)| (route.name.as_str(), all[0].reason)).collect();
    assert_eq!(found, [("b", "TooManyClientAddresses")]);
    world.translate(&mut translator, &[gateway]);
    assert_eq!(translator.closures(), closures, "also of a Gateway that is as it was");
    world.translate(&mut translator, &[]);
    assert!(translator.closures().is_empty());
}
