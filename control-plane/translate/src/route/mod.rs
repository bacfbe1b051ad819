//! The route configuration of one cluster: the filter's decision selects a destination, anything else is refused.

mod destination;
mod deterministic_encoding;
mod tunnel;

pub(crate) use tunnel::{ADDRESS_OF_ROUTE, tunnel_routes};

#[cfg(test)]
pub(crate) use deterministic_encoding::RouteParts;

use std::collections::{BTreeMap, HashMap};

use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteMatch, VirtualHost, route, route_match,
};
use envoy_types::pb::envoy::extensions::filters::http::dynamic_modules::v3::DynamicModuleFilterPerRoute;
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::FilterStateInput;
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{OnMatch, on_match};
use envoy_types::util::pack_any;
use portcullis_api::Cluster;
use portcullis_filter_config::{ClusterConfig, Pool, destinations, names as agreed};
use ring::digest::{SHA256, digest};

use crate::filter_build::FilterBuild;
use crate::names::Group;
use crate::names::{ResourceNames, parts};
use crate::proto::{header, inline_string, json_any, json_text, module};
use crate::resource::{Resource, type_urls};
use crate::status_body;

/// The cluster's routes.
pub(crate) fn routes(
    cluster: &Cluster,
    groups: &[Group],
    names: &ResourceNames,
    config: &ClusterConfig,
    filter: FilterBuild,
) -> Resource {
    let common = destination::Common::of(cluster);
    let mut entries = BTreeMap::new();
    let pools = Pool::of(&config.upstream_identity);
    for group in groups {
        for (key, pool, class) in destinations(&names.word(&group.name), pools) {
            let target = names.pool(&group.name, pool);
            let route = destination::route(&key, target, pool, class, &common);
            entries.insert(key, on_match(route));
        }
    }
    let matcher = deterministic_encoding::Matcher::exact(filter_state_input(filter), entries, Some(on_match(deny())));
    let name = names.part(parts::ROUTES);
    let (host, metadata) = virtual_host(&cluster.name, config, filter);
    Resource {
        type_url: type_urls::route_configuration(),
        value: deterministic_encoding::route_configuration(&name, &host, metadata, Some(matcher)),
        name,
        assignment: None,
        on_demand: false,
        owner: None,
        parts: Vec::new(),
    }
}

/// Routes that lead nowhere, of a cluster that is gone.
pub(crate) fn without_destinations(
    cluster: &str,
    names: &ResourceNames,
    config: &ClusterConfig,
    filter: FilterBuild,
) -> Resource {
    let body = status_body::fixed("this cluster is served no longer", "ServiceUnavailable", 503);
    let gone = Route { name: "gone".to_owned(), ..direct_response(503, body) };
    let (host, metadata) = virtual_host(cluster, config, filter);
    let host = VirtualHost { routes: vec![gone], ..host };
    let name = names.part(parts::ROUTES);
    Resource {
        type_url: type_urls::route_configuration(),
        value: deterministic_encoding::route_configuration(&name, &host, metadata, None),
        name,
        assignment: None,
        on_demand: false,
        owner: None,
        parts: Vec::new(),
    }
}

/// The virtual host with the cluster's part of the filter's configuration: of its own for the module, as metadata for wasm.
fn virtual_host(
    cluster: &str,
    config: &ClusterConfig,
    filter: FilterBuild,
) -> (VirtualHost, Option<deterministic_encoding::VirtualHostMetadata>) {
    let host = VirtualHost { name: cluster.to_owned(), domains: vec!["*".to_owned()], ..Default::default() };
    match filter {
        FilterBuild::Module => {
            let config = DynamicModuleFilterPerRoute {
                dynamic_module_config: Some(module()),
                // No name: the field's name differs between Envoy 1.39 and 1.40, and the module has one configuration only.
                filter_config: Some(json_any(config)),
                ..Default::default()
            };
            // One entry, so that a map without order has one encoding.
            let entry = HashMap::from([(agreed::HTTP_FILTER.to_owned(), pack_any(config))]);
            (VirtualHost { typed_per_filter_config: entry, ..host }, None)
        }
        FilterBuild::Wasm => {
            let text = json_text(config);
            let digest = portcullis_filter_config::hex(digest(&SHA256, text.as_bytes()).as_ref());
            let fields = [
                (agreed::wasm::CONFIG_KEY, text),
                (agreed::wasm::DIGEST_KEY, digest.clone()),
                (&digest, String::new()),
            ];
            (host, Some(deterministic_encoding::VirtualHostMetadata::of(agreed::wasm::METADATA, fields)))
        }
    }
}

fn filter_state_input(filter: FilterBuild) -> TypedExtensionConfig {
    let prefix = match filter {
        FilterBuild::Module => "",
        FilterBuild::Wasm => agreed::wasm::FILTER_STATE_PREFIX,
    };
    let input = FilterStateInput { key: format!("{prefix}{}", agreed::DESTINATION), ..Default::default() };
    TypedExtensionConfig { name: "destination".to_owned(), typed_config: Some(pack_any(input)) }
}

/// The answer to a request about which the filter decided nothing.
fn deny() -> Route {
    let body = status_body::fixed("the gateway made no decision about this request", "ServiceUnavailable", 503);
    Route { name: "deny".to_owned(), ..direct_response(503, body) }
}

/// A route that answers every request itself, with a `Status` body.
pub(crate) fn direct_response(status: u32, body: String) -> Route {
    Route {
        r#match: Some(any_path()),
        action: Some(route::Action::DirectResponse(DirectResponseAction {
            status,
            body: Some(inline_string(body)),
            ..Default::default()
        })),
        response_headers_to_add: vec![header("content-type", "application/json")],
        ..Default::default()
    }
}

fn any_path() -> RouteMatch {
    RouteMatch { path_specifier: Some(route_match::PathSpecifier::Prefix("/".to_owned())), ..Default::default() }
}

fn on_match(route: Route) -> OnMatch {
    let action = TypedExtensionConfig { name: "route".to_owned(), typed_config: Some(pack_any(route)) };
    OnMatch { on_match: Some(on_match::OnMatch::Action(action)), ..Default::default() }
}
