//! The routes of tunnels: a header names the cluster, and the route holds the address of its chain.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv6Addr;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::Metadata;
use envoy_types::pb::envoy::config::route::v3::route_action::upgrade_config::ConnectConfig;
use envoy_types::pb::envoy::config::route::v3::route_action::{ClusterSpecifier, UpgradeConfig};
use envoy_types::pb::envoy::config::route::v3::route_match::{ConnectMatcher, PathSpecifier};
use envoy_types::pb::envoy::config::route::v3::{Route, RouteAction, RouteMatch, VirtualHost, route};
use envoy_types::pb::envoy::r#type::matcher::v3::HttpRequestHeaderMatchInput;
use envoy_types::pb::google::protobuf::{Struct, Value, value};
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::util::pack_any;
use portcullis_api::Settings;

use super::{deterministic_encoding, on_match};
use crate::names::{ResourceNames, parts};
use crate::proto::seconds;
use crate::resource::{Resource, type_urls};

/// The place of the address in a route's metadata.
const METADATA: (&str, &str) = ("portcullis.tunnel", "address");
/// The same as Envoy's formats have it.
pub(crate) const ADDRESS_OF_ROUTE: &str = "%METADATA(ROUTE:portcullis.tunnel:address)%";
/// The port of every chain, which nothing goes by.
const PORT: u16 = 443;

/// The routes of all destinations. Nothing is at any other: two headers, too, are one that no cluster has.
///
/// It has no parts for owners, because nothing in it is an object's own that Envoy could refuse.
pub(crate) fn tunnel_routes(
    settings: &Settings,
    header: &str,
    destinations: impl Iterator<Item = (String, Ipv6Addr)>,
) -> Resource {
    let names = ResourceNames::gateway(&settings.instance);
    let cluster = names.part(parts::TUNNEL);
    let entries: BTreeMap<_, _> = destinations
        .map(|(destination, address)| {
            let route = tunnel(&destination, address, &cluster);
            (destination, on_match(route))
        })
        .collect();
    let input = HttpRequestHeaderMatchInput { header_name: header.to_owned() };
    let input = TypedExtensionConfig { name: "destination".to_owned(), typed_config: Some(pack_any(input)) };
    // Envoy refuses an empty table.
    let matcher = (!entries.is_empty()).then(|| deterministic_encoding::Matcher::exact(input, entries, None));
    let host = VirtualHost { name: parts::TUNNEL.to_owned(), domains: vec!["*".to_owned()], ..Default::default() };
    let name = names.part(parts::TUNNEL_ROUTES);
    Resource {
        type_url: type_urls::route_configuration(),
        value: deterministic_encoding::route_configuration(&name, &host, None, matcher),
        name: name.into(),
        common: Bytes::new(),
        assignment: None,
        on_demand: false,
        owner: None,
        parts: Vec::new(),
    }
}

/// A tunnel lasts as long as the connection inside it, which has limits of its own.
fn tunnel(destination: &str, address: Ipv6Addr, cluster: &str) -> Route {
    let connect = UpgradeConfig {
        upgrade_type: "CONNECT".to_owned(),
        connect_config: Some(ConnectConfig::default()),
        ..Default::default()
    };
    let action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster.to_owned())),
        timeout: Some(seconds(0)),
        idle_timeout: Some(seconds(0)),
        upgrade_configs: vec![connect],
        ..Default::default()
    };
    let connect = PathSpecifier::ConnectMatcher(ConnectMatcher {});
    Route {
        name: destination.to_owned(),
        r#match: Some(RouteMatch { path_specifier: Some(connect), ..Default::default() }),
        metadata: Some(metadata(format!("[{address}]:{PORT}"))),
        action: Some(route::Action::Route(action)),
        ..Default::default()
    }
}

/// One entry each, so that maps without order have one encoding.
fn metadata(address: String) -> Metadata {
    let (name, key) = METADATA;
    let value = Value { kind: Some(value::Kind::StringValue(address)) };
    let fields = Struct { fields: HashMap::from([(key.to_owned(), value)]) };
    Metadata { filter_metadata: HashMap::from([(name.to_owned(), fields)]), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_read_where_routes_have_it() {
        let (name, key) = METADATA;
        assert_eq!(ADDRESS_OF_ROUTE, format!("%METADATA(ROUTE:{name}:{key})%"));
    }
}
