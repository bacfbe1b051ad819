//! Connections that are passed on: chains and pools without anything of the gateway's own.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::transport_socket;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::filter_chain_match::ConnectionSourceType;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::UpstreamTlsContext;
use portcullis_api::{Cidr, Settings, Tunnel};
use prost::Message;
use serde_json::{Value, json};

use super::fixture::{Pki, TOKEN, base64, set, translated};
use crate::Translation;
use crate::resource::type_urls;

const NAME: &str = "prod.example.com";
const OTHER: &str = "other.example.com";

fn passed_on(pki: &Pki, name: &str) -> Value {
    let mut cluster = pki.cluster(name);
    set(&mut cluster, "/spec/clientConfig/bearerToken", json!(base64(TOKEN)));
    set(&mut cluster, "/spec/portcullis", json!({"transport": "TLSPassthrough"}));
    cluster
}

fn settings(pki: &Pki) -> Settings {
    let tunnel = Tunnel { port: 8443, header: "x-to".to_owned(), sources: Vec::new() };
    Settings { tunnel: Some(tunnel), ..pki.settings() }
}

/// All filter chains of all listeners that are of this cluster.
fn chains(translation: &Translation, name: &str) -> Vec<FilterChain> {
    let listeners = translation.resources().into_iter().filter(|one| one.type_url == type_urls::listener());
    let chains = listeners.flat_map(|one| Listener::decode(one.message().as_slice()).unwrap().filter_chains);
    chains.filter(|chain| chain.name.split('/').nth(2) == Some(name)).collect()
}

fn proxy(chain: &FilterChain) -> Option<TcpProxy> {
    let [filter] = chain.filters.as_slice() else { return None };
    let Some(ConfigType::TypedConfig(config)) = &filter.config_type else { return None };
    config.type_url.ends_with(".TcpProxy").then(|| TcpProxy::decode(config.value.as_slice()).unwrap())
}

fn pools(translation: &Translation, name: &str) -> Vec<Cluster> {
    let owned = translation.resources().into_iter().filter(|one| one.owner.as_deref() == Some(name));
    let pools = owned.filter(|one| one.type_url == type_urls::cluster());
    pools.map(|one| Cluster::decode(one.value.as_slice()).unwrap()).collect()
}

#[test]
fn passed_on_cluster_has_nothing_of_the_gateways_own() {
    let pki = Pki::new();
    let translation = translated(&settings(&pki), &[passed_on(&pki, NAME), pki.cluster(OTHER)]);
    assert!(translation.diagnoses.iter().all(|one| one.accepted), "{:?}", translation.diagnoses);
    let own = translation.resources().into_iter().filter(|one| one.owner.as_deref() == Some(NAME));
    let kinds: BTreeSet<&str> = own.map(|one| one.type_url).collect();
    assert_eq!(kinds, [type_urls::cluster(), type_urls::assignment()].into(), "no secret, no routes");
    let pools = pools(&translation, NAME);
    let [pool] = pools.as_slice() else { panic!("{pools:?}") };
    assert_eq!((&pool.transport_socket, pool.typed_extension_protocol_options.len()), (&None, 0));
    let [check] = pool.transport_socket_matches.as_slice() else { panic!("of checks alone") };
    let asked = pool.health_checks[0].transport_socket_match_criteria.as_ref().unwrap();
    assert!(!asked.fields.is_empty(), "an empty one would be that of all connections");
    assert_eq!(check.r#match.as_ref(), Some(asked));
    let Some(transport_socket::ConfigType::TypedConfig(config)) = &check.transport_socket.as_ref().unwrap().config_type
    else {
        panic!("typed")
    };
    let tls = UpstreamTlsContext::decode(config.value.as_slice()).unwrap().common_tls_context.unwrap();
    assert!(tls.tls_certificate_sds_secret_configs.is_empty() && tls.tls_certificates.is_empty());
}

#[test]
fn passed_on_connection_meets_one_filter_and_no_tls() {
    let pki = Pki::new();
    let mut cluster = passed_on(&pki, NAME);
    set(&mut cluster, "/spec/portcullis/clientAddresses", json!({"allow": ["10.0.0.0/8"]}));
    let translation = translated(&settings(&pki), &[cluster, pki.cluster(OTHER)]);
    let pool = pools(&translation, NAME).remove(0).name;
    let (serving, closed): (Vec<_>, Vec<_>) =
        chains(&translation, NAME).into_iter().partition(|chain| proxy(chain).is_some());
    assert_eq!((serving.len(), closed.len()), (2, 1), "by name, through tunnels; other addresses");
    for chain in serving.iter().chain(&closed) {
        assert_eq!(chain.transport_socket, None);
        let condition = chain.filter_chain_match.as_ref().unwrap();
        assert_eq!(condition.transport_protocol, "tls", "{}", chain.name);
    }
    for chain in &serving {
        let proxy = proxy(chain).unwrap();
        assert_eq!(proxy.cluster_specifier, Some(ClusterSpecifier::Cluster(pool.clone())));
        assert!(proxy.idle_timeout.is_some() && proxy.max_connect_attempts.is_some_and(|most| most.value == 3));
        assert_eq!(chain.filter_chain_match.as_ref().unwrap().source_prefix_ranges.len(), 1);
    }
    let text = |chain: &FilterChain| String::from_utf8_lossy(&chain.encode_to_vec()).into_owned();
    assert!(serving.iter().all(|chain| !text(chain).contains("portcullis")), "no module of ours runs");
}

/// All chains of the cluster have the same kind: else Envoy would not look at the one of other addresses.
#[test]
fn connection_of_the_gateway_to_itself_is_not_passed_on() {
    let pki = Pki::new();
    let mut cluster = passed_on(&pki, NAME);
    set(&mut cluster, "/spec/portcullis/clientAddresses", json!({"allow": ["10.0.0.0/8"]}));
    set(&mut cluster, "/spec/portcullis/virtualIPs", json!(["10.9.8.7"]));
    for (allow_loopback_upstreams, expected) in
        [(false, ConnectionSourceType::External), (true, ConnectionSourceType::Any)]
    {
        let virtual_ips = vec![Cidr { ip: [10, 9, 8, 7].into(), length: 32 }];
        let settings = Settings { allow_loopback_upstreams, virtual_ips, ..settings(&pki) };
        let translation = translated(&settings, &[cluster.clone(), pki.cluster(OTHER)]);
        let kinds = |name: &str| -> Vec<ConnectionSourceType> {
            let chains = chains(&translation, name).into_iter();
            chains.map(|chain| chain.filter_chain_match.unwrap().source_type()).collect()
        };
        assert_eq!(kinds(NAME), [expected; 5], "by name, at the virtual IP and through tunnels; other addresses twice");
        assert!(kinds(OTHER).iter().all(|kind| *kind == ConnectionSourceType::Any), "requests have their Via");
    }
}

#[test]
fn passed_on_pool_has_a_bound_of_its_own() {
    let pki = Pki::new();
    for (limit, expected) in [(65_536, 16_384), (100, 100)] {
        let mut settings = settings(&pki);
        settings.limits.max_connections = limit;
        let pool = pools(&translated(&settings, &[passed_on(&pki, NAME)]), NAME).remove(0);
        let thresholds = pool.circuit_breakers.unwrap().thresholds;
        let bounds: Vec<_> = thresholds.iter().map(|one| one.max_connections.unwrap().value).collect();
        assert_eq!(bounds, [expected], "{limit}");
    }
}

/// The way back and forth changes what belongs to the object, and nothing else that Envoy has.
#[test]
fn switch_changes_parts_of_its_own_cluster_alone() {
    let pki = Pki::new();
    let others = [pki.cluster(OTHER), pki.cluster("third.example.com")];
    let with = |own: Value| translated(&settings(&pki), &[others[0].clone(), own, others[1].clone()]);
    let (judged, passed) = (with(pki.cluster(NAME)), with(passed_on(&pki, NAME)));
    let of_others = |translation: &Translation| -> Vec<_> {
        let is_other = |owner: &Option<std::sync::Arc<str>>| owner.as_deref() != Some(NAME);
        let all = translation.resources().into_iter().filter(|one| one.parts.is_empty() && is_other(&one.owner));
        // The routes of tunnels hold addresses of chains, which stay.
        all.cloned().collect()
    };
    assert_eq!(of_others(&judged), of_others(&passed));
    let mut listeners = 0;
    for (before, after) in judged
        .resources()
        .into_iter()
        .filter(|one| !one.parts.is_empty())
        .zip(passed.resources().into_iter().filter(|one| !one.parts.is_empty()))
    {
        listeners += 1;
        let head = |one: &crate::Resource| (one.name.clone(), one.value.clone());
        assert_eq!(head(before), head(after), "a change here would drain everything");
        for (one, other) in before.parts.iter().zip(&after.parts) {
            let is_same = one.body == other.body;
            assert_eq!((one.owner == other.owner, is_same), (true, *one.owner != *NAME), "{}", one.owner);
        }
    }
    assert_eq!(listeners, 2);
    let names = |translation: &Translation| -> BTreeSet<String> {
        let own = translation.resources().into_iter().filter(|one| one.owner.as_deref() == Some(NAME));
        own.map(|one| one.name.to_string()).collect()
    };
    assert!(names(&judged).is_disjoint(&names(&passed)), "nothing of one way has a name of the other");
}

#[test]
fn generation_of_passed_on_connections_is_of_their_object() {
    let pki = Pki::new();
    let pool = |changes: &[(&str, Value)]| {
        let mut cluster = passed_on(&pki, NAME);
        changes.iter().for_each(|(pointer, value)| set(&mut cluster, pointer, value.clone()));
        let translation = translated(&settings(&pki), &[cluster]);
        assert!(translation.diagnoses[0].accepted, "{:?}", translation.diagnoses);
        pools(&translation, NAME).remove(0).name
    };
    let first = pool(&[]);
    assert!(first.starts_with("lab/-/prod.example.com/all.tcp@"), "{first}");
    let same = [
        ("/spec/clientConfig/serverName", json!("other")),
        ("/spec/clientConfig/bearerToken", json!(base64("another"))),
        ("/spec/servers/0/endpoint", json!("https://10.0.0.9:6443")),
        ("/spec/dispatchPolicies", json!([])),
    ];
    for change in same {
        assert_eq!(pool(std::slice::from_ref(&change)), first, "{}", change.0);
    }
    assert_ne!(pool(&[("/metadata/uid", json!("0000-2222"))]), first, "another object of the name");
}

#[test]
fn settings_that_do_not_hold_are_told() {
    let pki = Pki::new();
    let settings = settings_with("protectedIdentities", json!({"groups": ["system:masters"]}));
    // Neither the settings nor the object have a certificate, and none is needed.
    let mut cluster = passed_on(&pki, NAME);
    set(&mut cluster, "/spec/secureServing", json!({}));
    let diagnosis = translated(&settings, &[cluster]).diagnoses.remove(0);
    assert!(diagnosis.accepted, "{diagnosis:?}");
    let told = "spec.portcullis.transport: protectedIdentities of the GatewaySettings does not hold";
    assert!(diagnosis.warnings.iter().any(|warning| warning.starts_with(told)), "{:?}", diagnosis.warnings);
}

#[test]
fn access_lists_of_the_settings_exclude_passing_on() {
    let pki = Pki::new();
    let lists = [
        json!({"deny": [{"users": ["mallory"]}]}),
        json!({"deny": [{"addresses": ["192.0.2.0/24"]}]}),
        json!({"allow": [{"addresses": ["10.0.0.0/8"]}], "force": true}),
    ];
    for list in lists {
        let settings = settings_with("access", list.clone());
        let mut passed = passed_on(&pki, NAME);
        let translation = translated(&settings, std::slice::from_ref(&passed));
        let diagnosis = &translation.diagnoses[0];
        assert!(!diagnosis.accepted && diagnosis.message.contains("access in the GatewaySettings"), "{diagnosis:?}");
        assert_eq!((chains(&translation, NAME).len(), pools(&translation, NAME).len()), (0, 0), "{list}");
        let mut frozen = passed.clone();
        frozen["metadata"]["annotations"] = json!({"portcullis.dev/profile": "frozen"});
        let translation = translated(&settings, &[frozen]);
        assert!(translation.diagnoses[0].accepted, "refused, the version before would go on");
        assert!(chains(&translation, NAME).iter().all(|chain| proxy(chain).is_none()), "it closes");
        set(&mut passed, "/spec/portcullis/transport", json!("TLSTerminate"));
        let judged = &translated(&settings, &[passed]).diagnoses[0];
        assert!(judged.accepted, "{judged:?}");
    }
}

fn settings_with(field: &str, value: Value) -> Settings {
    let mut document = json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "GatewaySettings", "metadata": {"name": "lab"},
        "spec": {"instance": "lab"},
    });
    document["spec"][field] = value;
    crate::choose_settings(&[document], None).settings.unwrap()
}
