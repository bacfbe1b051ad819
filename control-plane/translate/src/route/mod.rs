//! The route configuration of one cluster: the filter's decision selects a destination, anything else is refused.

mod destination;
mod deterministic_encoding;
mod tunnel;

pub(crate) use tunnel::{ADDRESS_OF_ROUTE, tunnel_routes};

#[cfg(test)]
pub(crate) use deterministic_encoding::RouteParts;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, FilterConfig, Route, RouteConfiguration, RouteMatch, VirtualHost, route, route_match,
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

/// Message of the answer to a request for a name of another route.
const MISDIRECTED: &str = "this connection does not serve the requested host name; open a new one for it";

/// The routes of a cluster under some host names.
#[derive(Clone, Copy)]
pub(crate) struct RoutePlace<'a> {
    /// The name of the route configuration.
    pub(crate) name: &'a str,
    /// The host names, if others have some among these.
    pub(crate) own: &'a [String],
    /// Host names below a wildcard of this place that are another's. The connection is not theirs, and neither are the routes.
    pub(crate) others: &'a [String],
    /// The filter's configurations for routes with policies of their own, with their host names.
    pub(crate) variants: &'a [ClusterConfig],
    /// Whether a request for a name of none, which may be an address, is one of the cluster's own. Otherwise it gets 421.
    pub(crate) has_rest: bool,
}

impl<'a> RoutePlace<'a> {
    /// That of all names.
    pub(crate) fn of_all(name: &'a str) -> Self {
        Self { name, own: &[], others: &[], variants: &[], has_rest: true }
    }
}

/// The cluster's routes.
pub(crate) fn routes(
    place: RoutePlace<'_>,
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
    let name = place.name.to_owned();
    let (mut host, metadata) = virtual_host(&cluster.name, config, filter);
    if !place.has_rest {
        host.domains.clear();
    }
    if !(place.others.is_empty() && place.variants.is_empty()) {
        // Names of its own below a wildcard of others.
        host.domains.extend(as_written(place.own));
    }
    let mut value = deterministic_encoding::route_configuration(&name, &host, metadata, Some(matcher.clone()));
    for config in place.variants {
        let (host, _) = virtual_host(&format!("{} {}", cluster.name, config.variant), config, filter);
        let host = VirtualHost { domains: as_written(&config.authorities).collect(), ..host };
        value.extend(deterministic_encoding::more_routes(&host, matcher.clone()));
    }
    let mut misdirected = misdirected(place.others);
    misdirected.domains.extend((!place.has_rest).then(|| "*".to_owned()));
    if !misdirected.domains.is_empty() {
        value.extend(deterministic_encoding::more_hosts(&misdirected));
    } else if !place.variants.is_empty() {
        value.extend(deterministic_encoding::without_ports());
    }
    Resource {
        type_url: type_urls::route_configuration(),
        value,
        name: name.into(),
        common: Bytes::new(),
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
        name: name.into(),
        common: Bytes::new(),
        assignment: None,
        // Connections of before alone lead to it: a node without any does not ask for it, and nothing waits for its answer.
        on_demand: true,
        owner: None,
        parts: Vec::new(),
    }
}

/// Routes that answer 421 to every request, in the place of a route configuration that leads nowhere any more.
pub fn misdirected_routes(name: &str) -> Resource {
    let virtual_hosts = vec![misdirected(&["*".to_owned()])];
    let configuration = RouteConfiguration { name: name.to_owned(), virtual_hosts, ..Default::default() };
    // An Envoy without connections of before does not ask for it, and nothing waits for its answer.
    Resource { on_demand: true, ..Resource::new(name, &configuration) }
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

/// The host names of others. Nothing is behind them that the filter could judge; without a configuration it would answer 503, and
/// clients try another connection after 421 alone.
fn misdirected(others: &[String]) -> VirtualHost {
    let unused = FilterConfig { disabled: true, ..Default::default() };
    VirtualHost {
        // One entry, so that a map without order has one encoding.
        typed_per_filter_config: HashMap::from([(agreed::HTTP_FILTER.to_owned(), pack_any(unused))]),
        name: "others".to_owned(),
        domains: as_written(others).collect(),
        routes: vec![other_name()],
        ..Default::default()
    }
}

/// The answer to a request for a name that its connection does not serve.
pub(crate) fn other_name() -> Route {
    let body = status_body::fixed(MISDIRECTED, "MisdirectedRequest", 421);
    Route { name: "others".to_owned(), ..direct_response(421, body) }
}

/// Names as requests may have them. The filter overlooks a dot at the end; Envoy does not, and would find no name of others.
pub(crate) fn as_written(names: &[String]) -> impl Iterator<Item = String> {
    names.iter().flat_map(|name| [name.clone(), format!("{name}.")])
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

pub(crate) fn any_path() -> RouteMatch {
    RouteMatch { path_specifier: Some(route_match::PathSpecifier::Prefix("/".to_owned())), ..Default::default() }
}

fn on_match(route: Route) -> OnMatch {
    let action = TypedExtensionConfig { name: "route".to_owned(), typed_config: Some(pack_any(route)) };
    OnMatch { on_match: Some(on_match::OnMatch::Action(action)), ..Default::default() }
}
