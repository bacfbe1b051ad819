//! Tunnels: HTTP CONNECT at a port of its own, where a header and not the server name of the TLS inside names the cluster.
//!
//! The route of a name holds the address of its cluster's chain. That address and the client's go with the connection to a listener
//! inside Envoy, which takes them for those of the connection itself: chains there are matched by the one, and all that judges or
//! names clients goes by the other. Nothing that a client sends says either.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use envoy_types::pb::envoy::config::listener::v3::listener::{InternalListenerConfig, ListenerSpecifier};
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener};
use envoy_types::pb::envoy::extensions::filters::common::set_filter_state::v3::FilterStateValue;
use envoy_types::pb::envoy::extensions::filters::common::set_filter_state::v3::filter_state_value::SharedWithUpstream;
use envoy_types::pb::envoy::extensions::filters::http::set_filter_state::v3::Config as FilterStateConfig;
use envoy_types::pb::envoy::extensions::filters::listener::original_dst::v3::OriginalDst;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::CodecType;
use envoy_types::util::pack_any;
use portcullis_api::{Cidr, Cluster, Settings, Tunnel};

use super::encoded_chain::ListenerPart;
use super::port::{everywhere, listener_filter, range, tls_inspector};
use super::{BUFFER_LIMIT, LISTENER_FILTERS_TIMEOUT, access_log, chain, hcm, peer, serving};
use crate::filter_build::FilterBuild;
use crate::generation::tunnel_address;
use crate::names::{ResourceNames, parts, stat_name};
use crate::proto::{ip_sockets, seconds, uint};
use crate::resource::Resource;
use crate::route::{ADDRESS_OF_ROUTE, tunnel_routes};

/// The kind of upgrade that CONNECT is to Envoy.
const CONNECT: &str = "CONNECT";
/// The prefix of the port's requests in statistics: no cluster's, because no name begins with `-`.
const STAT_PREFIX: &str = "-tunnel";

/// The way to a cluster through tunnels.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TunnelEnd {
    /// The values of the header.
    pub(super) destinations: Vec<String>,
    /// The address of the chain.
    address: Ipv6Addr,
    /// Its part of the listener inside Envoy.
    pub(super) part: ListenerPart,
}

impl TunnelEnd {
    /// That of a cluster which is served.
    pub(super) fn of(cluster: &Cluster, names: &ResourceNames, settings: &Settings, filter: FilterBuild) -> Self {
        let address = tunnel_address(cluster);
        // No HTTP proxy sees what is inside a tunnel, so that what it says of other clients is the client's own word.
        let serving = serving::chain(cluster, names, settings, filter, 0);
        let at = |chain: &FilterChain| {
            let one = vec![range(&Cidr { ip: address.into(), length: 128 })];
            [chain::at_addresses(names.part(parts::TUNNELLED), one, chain)]
        };
        let closed = chain::closed(String::new(), Vec::new());
        // A wildcard is no name that one can ask for.
        let own = chain::host_names(cluster).into_iter().filter(|name| !name.starts_with('*'));
        let destinations = own.flat_map(|name| [format!("outbound|443||{name}"), name]).collect();
        Self { destinations, address, part: ListenerPart::new(&at(&serving), &at(&closed)) }
    }
}

/// By owner.
pub(super) type TunnelEnds<'a> = BTreeMap<&'a Arc<str>, &'a TunnelEnd>;

/// The port's listener, the one inside, and the routes from the one to the other; nothing without a port.
pub(super) fn resources(settings: &Settings, ends: &TunnelEnds<'_>) -> Vec<Resource> {
    let Some(tunnel) = &settings.tunnel else { return Vec::new() };
    let all = ends.values().flat_map(|end| end.destinations.iter().map(|name| (name.clone(), end.address)));
    vec![entrance(tunnel, settings), inside(settings, ends), tunnel_routes(settings, &tunnel.header, all)]
}

fn entrance(tunnel: &Tunnel, settings: &Settings) -> Resource {
    let names = ResourceNames::gateway(&settings.instance);
    let name = ResourceNames::listener().part(parts::TUNNEL_LISTENER);
    let sources = FilterChainMatch {
        direct_source_prefix_ranges: tunnel.sources.iter().map(range).collect(),
        ..Default::default()
    };
    let chain = FilterChain {
        name: names.part(parts::TUNNEL),
        filter_chain_match: (!tunnel.sources.is_empty()).then_some(sources),
        filters: vec![chain::http_connection_manager(manager(names.part(parts::TUNNEL_ROUTES), settings))],
        ..Default::default()
    };
    let (address, additional_addresses) = ip_sockets(&everywhere(tunnel.port, settings));
    let listener = Listener {
        name: name.clone(),
        stat_prefix: stat_name(&settings.instance) + "-tunnel",
        address,
        additional_addresses,
        per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
        filter_chains: vec![chain],
        ..Default::default()
    };
    Resource::new(name, &listener)
}

/// Over HTTP/1.1 alone, where a connection is one tunnel: what bounds connections bounds tunnels. Only CONNECT has a route.
fn manager(routes: String, settings: &Settings) -> hcm::Manager {
    hcm::Manager {
        codec_type: CodecType::Http1.into(),
        xff_num_trusted_hops: 0,
        route_specifier: Some(hcm::rds(routes)),
        upgrade_configs: vec![hcm::upgrade(CONNECT)],
        http_filters: vec![addresses(), hcm::router()],
        access_log: access_log::of_refused_tunnels(&settings.access_log),
        // A client of CONNECT reads no body.
        local_reply_config: None,
        ..hcm::common(STAT_PREFIX.to_owned(), settings)
    }
}

/// The filter that hands over the address of the cluster's chain and the client's. Without the first there is no chain.
fn addresses() -> HttpFilter {
    let state = |key: &str, format: &str| FilterStateValue {
        factory_key: String::new(),
        shared_with_upstream: SharedWithUpstream::Once.into(),
        ..peer::state(key, format)
    };
    let config = FilterStateConfig {
        on_request_headers: vec![
            state("envoy.filters.listener.original_dst.local_ip", ADDRESS_OF_ROUTE),
            state("envoy.filters.listener.original_dst.remote_ip", "%DOWNSTREAM_REMOTE_ADDRESS%"),
        ],
        ..Default::default()
    };
    hcm::http_filter("envoy.filters.http.set_filter_state", pack_any(config))
}

/// The listener inside Envoy.
fn inside(settings: &Settings, ends: &TunnelEnds<'_>) -> Resource {
    let names = ResourceNames::gateway(&settings.instance);
    let name = ResourceNames::listener().part(parts::TUNNELLED_LISTENER);
    let listener = Listener {
        name: name.clone(),
        stat_prefix: stat_name(&settings.instance) + "-tunnelled",
        listener_specifier: Some(ListenerSpecifier::InternalListener(InternalListenerConfig {})),
        per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
        listener_filters: vec![listener_filter("original_dst", OriginalDst::default()), tls_inspector()],
        listener_filters_timeout: Some(seconds(LISTENER_FILTERS_TIMEOUT)),
        // Envoy refuses a listener without any chain.
        filter_chains: vec![chain::closed(names.part("reserved"), vec![super::NO_NAME.to_owned()])],
        ..Default::default()
    };
    let parts = ends.iter().map(|(owner, end)| end.part.owned_by(owner)).collect();
    Resource { parts, ..Resource::new(name, &listener) }
}
