//! A virtual host's matcher tree in a fixed order.
//!
//! The generated message keeps the tree's entries in a `HashMap`, whose order differs from run to run: equal
//! configuration would get unequal bytes, and so be sent again. The messages here are the same on the wire, with a
//! `BTreeMap`.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::route::v3::VirtualHost;
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::OnMatch;
use prost::Message;

/// `xds.type.matcher.v3.Matcher` with a matcher tree.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Matcher {
    #[prost(message, optional, tag = "2")]
    tree: Option<MatcherTree>,
    #[prost(message, optional, tag = "3")]
    on_no_match: Option<OnMatch>,
}

/// `xds.type.matcher.v3.Matcher.MatcherTree` with an exact match map.
#[derive(Clone, PartialEq, Message)]
struct MatcherTree {
    #[prost(message, optional, tag = "1")]
    input: Option<TypedExtensionConfig>,
    #[prost(message, optional, tag = "2")]
    exact: Option<MatchMap>,
}

/// `xds.type.matcher.v3.Matcher.MatcherTree.MatchMap`.
#[derive(Clone, PartialEq, Message)]
struct MatchMap {
    #[prost(btree_map = "string, message", tag = "1")]
    map: BTreeMap<String, OnMatch>,
}

/// `envoy.config.route.v3.VirtualHost`, its matcher only. Encodings of parts of a message, one behind the other, are the
/// encoding of the whole.
#[derive(Clone, PartialEq, Message)]
struct VirtualHostMatcher {
    #[prost(message, optional, tag = "21")]
    matcher: Option<Matcher>,
}

/// `envoy.config.route.v3.VirtualHost`, its metadata only: `core.v3.Metadata`, `Struct` and `Value`, as far as texts need.
#[derive(Clone, PartialEq, Message)]
pub(super) struct VirtualHostMetadata {
    #[prost(message, optional, tag = "24")]
    metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(btree_map = "string, message", tag = "1")]
    filter_metadata: BTreeMap<String, Struct>,
}

#[derive(Clone, PartialEq, Message)]
struct Struct {
    #[prost(btree_map = "string, message", tag = "1")]
    fields: BTreeMap<String, Text>,
}

#[derive(Clone, PartialEq, Message)]
struct Text {
    #[prost(string, tag = "3")]
    string_value: String,
}

impl VirtualHostMetadata {
    /// Texts under a name.
    pub(super) fn of<const N: usize>(name: &str, texts: [(&str, String); N]) -> Self {
        let fields = texts.into_iter().map(|(key, string_value)| (key.to_owned(), Text { string_value })).collect();
        let filter_metadata = BTreeMap::from([(name.to_owned(), Struct { fields })]);
        Self { metadata: Some(Metadata { filter_metadata }) }
    }
}

/// `envoy.config.route.v3.RouteConfiguration` around virtual hosts that are encoded already.
#[derive(Clone, PartialEq, Message)]
struct RouteConfiguration {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", repeated, tag = "2")]
    virtual_hosts: Vec<Vec<u8>>,
}

impl Matcher {
    /// Looks `input` up in `entries`. Without `on_no_match` there is no route for what is not among them.
    pub(super) fn exact(
        input: TypedExtensionConfig,
        entries: BTreeMap<String, OnMatch>,
        on_no_match: Option<OnMatch>,
    ) -> Self {
        let tree = MatcherTree { input: Some(input), exact: Some(MatchMap { map: entries }) };
        Self { tree: Some(tree), on_no_match }
    }
}

/// Encodes a route configuration of one virtual host. `host` has no matcher and no metadata of its own, and no map of more
/// than one entry.
pub(super) fn route_configuration(
    name: &str,
    host: &VirtualHost,
    metadata: Option<VirtualHostMetadata>,
    matcher: Option<Matcher>,
) -> Vec<u8> {
    let mut encoded = host.encode_to_vec();
    encoded.extend(metadata.unwrap_or_default().encode_to_vec());
    encoded.extend(VirtualHostMatcher { matcher }.encode_to_vec());
    RouteConfiguration { name: name.to_owned(), virtual_hosts: vec![encoded] }.encode_to_vec()
}

/// `envoy.config.route.v3.RouteConfiguration`, a further virtual host only, with which host names are matched without the port.
#[derive(Clone, PartialEq, Message)]
struct MoreHosts {
    #[prost(message, optional, tag = "2")]
    host: Option<VirtualHost>,
    #[prost(bool, tag = "14")]
    ignore_port_in_host_matching: bool,
}

/// Encodes a further virtual host, for the end of a route configuration. It has no map of more than one entry.
pub(super) fn more_hosts(host: &VirtualHost) -> Vec<u8> {
    MoreHosts { host: Some(host.clone()), ignore_port_in_host_matching: true }.encode_to_vec()
}

/// Encodes a further virtual host with a matcher, as [`route_configuration`] does the first one.
pub(super) fn more_routes(host: &VirtualHost, matcher: Matcher) -> Vec<u8> {
    let mut encoded = host.encode_to_vec();
    encoded.extend(VirtualHostMatcher { matcher: Some(matcher) }.encode_to_vec());
    RouteConfiguration { name: String::new(), virtual_hosts: vec![encoded] }.encode_to_vec()
}

/// Encodes that host names are matched without the port, for the end of a route configuration.
pub(super) fn without_ports() -> Vec<u8> {
    MoreHosts { host: None, ignore_port_in_host_matching: true }.encode_to_vec()
}

/// A route configuration with its matcher in order, for tests to show.
#[cfg(test)]
#[derive(Debug)]
#[expect(dead_code, reason = "shown by Debug")]
pub(crate) struct RouteParts {
    name: String,
    others: Vec<String>,
    host: VirtualHost,
    matcher: Option<Matcher>,
}

#[cfg(test)]
impl RouteParts {
    pub(crate) fn decode_for_test(value: &[u8]) -> Self {
        let outer = RouteConfiguration::decode(value).unwrap();
        let [host, more @ ..] = &outer.virtual_hosts[..] else { panic!("no virtual host") };
        Self {
            name: outer.name,
            others: more.iter().flat_map(|host| VirtualHost::decode(host.as_slice()).unwrap().domains).collect(),
            host: VirtualHost { matcher: None, ..VirtualHost::decode(host.as_slice()).unwrap() },
            matcher: VirtualHostMatcher::decode(host.as_slice()).unwrap().matcher,
        }
    }
}
