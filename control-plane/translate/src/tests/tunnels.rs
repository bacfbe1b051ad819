//! The way from a tunnel's header to a cluster.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_tree::TreeType;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{MatcherType, on_match};
use portcullis_api::{Settings, Tunnel};
use prost::Message;
use serde_json::{Value, json};

use super::fixture::{Pki, set, translated};
use crate::Translation;

const NAME: &str = "prod.example.com";
const OTHER: &str = "other.example.com";

fn settings(pki: &Pki) -> Settings {
    let tunnel = Tunnel { port: 8443, header: "x-to".to_owned(), sources: Vec::new() };
    Settings { tunnel: Some(tunnel), trusted_hops: 2, ..pki.settings() }
}

fn named<M: Message + Default>(translation: &Translation, name: &str) -> M {
    let one = translation.resources().into_iter().find(|one| *one.name == *name).unwrap();
    M::decode(one.message().as_slice()).unwrap()
}

/// The address that each destination leads to.
fn routes(translation: &Translation) -> BTreeMap<String, String> {
    let table: RouteConfiguration = named(translation, "lab/-/-/tunnel-routes");
    let Some(matcher) = &table.virtual_hosts[0].matcher else { return BTreeMap::new() };
    assert_eq!(matcher.on_no_match, None);
    let Some(MatcherType::MatcherTree(tree)) = &matcher.matcher_type else { panic!("a tree") };
    let Some(TreeType::ExactMatchMap(map)) = &tree.tree_type else { panic!("exact") };
    let address = |entry: &on_match::OnMatch| {
        let on_match::OnMatch::Action(action) = entry else { panic!("an action") };
        let route = Route::decode(action.typed_config.as_ref().unwrap().value.as_slice()).unwrap();
        let metadata = route.metadata.unwrap();
        match &metadata.filter_metadata["portcullis.tunnel"].fields["address"].kind {
            Some(Kind::StringValue(text)) => text.clone(),
            other => panic!("{other:?}"),
        }
    };
    map.map.iter().map(|(name, entry)| (name.clone(), address(entry.on_match.as_ref().unwrap()))).collect()
}

/// The chains of clusters inside, by their addresses.
fn chains(translation: &Translation) -> BTreeMap<String, FilterChain> {
    let listener: Listener = named(translation, "-/-/-/tunnelled-listener");
    let address = |chain: &FilterChain| {
        let range = chain.filter_chain_match.as_ref()?.prefix_ranges.first()?;
        assert_eq!(range.prefix_len.as_ref().map(|length| length.value), Some(128));
        Some(format!("[{}]:443", range.address_prefix))
    };
    listener.filter_chains.into_iter().filter_map(|chain| Some((address(&chain)?, chain))).collect()
}

fn with(mut cluster: Value, changes: &[(&str, Value)]) -> Value {
    changes.iter().for_each(|(pointer, value)| set(&mut cluster, pointer, value.clone()));
    cluster
}

#[test]
fn tunnel_of_another_object_of_the_name_has_another_address() {
    let pki = Pki::new();
    let address = |cluster: Value| {
        let translation = translated(&settings(&pki), &[cluster]);
        let found = routes(&translation).remove(NAME).unwrap();
        assert!(found.starts_with("[fd") && chains(&translation).contains_key(&found), "{found}");
        found
    };
    let first = address(pki.cluster(NAME));
    let edited =
        [("/spec/servers/0/endpoint", json!("https://10.0.0.9")), ("/spec/clientConfig/serverName", json!("x"))];
    assert_eq!(address(with(pki.cluster(NAME), &edited)), first, "an edit ends no tunnel");
    assert_ne!(address(with(pki.cluster(NAME), &[("/metadata/uid", json!("0000-2222"))])), first);
    let taken = [("/spec/secureServing/serverNames", json!([NAME]))];
    assert_ne!(address(with(pki.cluster(OTHER), &taken)), first, "the name of an object that is gone");
}

#[test]
fn tunnel_leads_to_owners_of_names_alone() {
    let pki = Pki::new();
    let claims = json!(["*.prod.example.com", "shared.example.com"]);
    let claims = [
        ("/spec/secureServing/serverNames", claims),
        ("/spec/portcullis", json!({"extraAuthorities": ["kubernetes"]})),
    ];
    let first = with(pki.cluster(NAME), &claims);
    let younger =
        [("/metadata/creationTimestamp", json!("2026-01-01T00:00:00Z")), ("/metadata/uid", json!("0000-2222"))];
    let second = with(with(pki.cluster(OTHER), &[claims[0].clone()]), &younger);
    let refused = with(pki.cluster("refused.example.com"), &[("/spec/servers", json!([]))]);
    let translation = translated(&settings(&pki), &[first, second, refused]);
    let routes = routes(&translation);
    let own: Vec<_> = routes.keys().filter(|name| !name.starts_with("outbound|443||")).map(String::as_str).collect();
    assert_eq!(own, [OTHER, NAME, "shared.example.com"]);
    for name in own {
        assert_eq!(routes.get(&format!("outbound|443||{name}")), routes.get(name));
    }
    assert_eq!(routes["shared.example.com"], routes[NAME]);
    assert_ne!(routes[OTHER], routes[NAME]);
    assert_eq!(chains(&translation).len(), 2);
}

#[test]
fn chain_inside_a_tunnel_believes_no_proxy() {
    let pki = Pki::new();
    let translation = translated(&settings(&pki), &[pki.cluster(NAME)]);
    let hops = |chain: &FilterChain| {
        let Some(ConfigType::TypedConfig(config)) = &chain.filters.last().unwrap().config_type else { panic!("typed") };
        HttpConnectionManager::decode(config.value.as_slice()).unwrap().xff_num_trusted_hops
    };
    let inside = chains(&translation);
    assert_eq!(inside.values().map(hops).collect::<Vec<_>>(), [0]);
    let direct: Listener = named(&translation, "-/-/-/listener");
    assert_eq!(hops(direct.filter_chains.last().unwrap()), 2);
    let door: Listener = named(&translation, "-/-/-/tunnel-listener");
    assert_eq!(hops(&door.filter_chains[0]), 0);
}

#[test]
fn chain_that_is_refused_is_closed_at_its_own_address() {
    let pki = Pki::new();
    let translation = translated(&settings(&pki), &[pki.cluster(OTHER), pki.cluster(NAME)]);
    let routes = routes(&translation);
    let listener = translation.resources().into_iter().find(|one| *one.name == *"-/-/-/tunnelled-listener").unwrap();
    let owners: Vec<_> = listener.parts.iter().map(|part| part.owner.as_ref()).collect();
    assert_eq!(owners, [OTHER, NAME]);
    for part in &listener.parts {
        let chains = [part.body.concat(), part.fallback.to_vec()].map(|bytes| Listener::decode(&*bytes).unwrap());
        let [own, closed] = chains.map(|mut one| one.filter_chains.remove(0));
        assert_eq!(own.filter_chain_match, closed.filter_chain_match);
        assert_eq!((own.name == closed.name, closed.transport_socket), (true, None));
        let address = &own.filter_chain_match.unwrap().prefix_ranges[0].address_prefix;
        assert_eq!(routes[&*part.owner], format!("[{address}]:443"));
    }
}

#[test]
fn gateway_without_the_port_has_nothing_of_tunnels() {
    let pki = Pki::new();
    let names = |settings: &Settings, clusters: &[Value]| {
        let translation = translated(settings, clusters);
        translation.resources().into_iter().filter(|one| one.name.contains("tunnel")).count()
    };
    assert_eq!(names(&pki.settings(), &[pki.cluster(NAME)]), 0);
    assert_eq!(names(&settings(&pki), &[pki.cluster(NAME)]), 4);
    // Without a cluster there is no table, which Envoy would refuse empty.
    assert_eq!(routes(&translated(&settings(&pki), &[])), BTreeMap::new());
}
