use std::net::IpAddr;

use envoy_types::pb::envoy::config::accesslog::v3::AccessLog;
use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::listener::v3::filter_chain_match::ConnectionSourceType;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, FilterChainMatch, filter};
use envoy_types::pb::envoy::extensions::filters::network::direct_response::v3::Config as CloseConfig;
use envoy_types::util::pack_any;
use portcullis_api::{Cidr, Cluster, Settings, Tracing, Transport};

use super::handshake::HandshakeValidation;
use super::port::range;
use super::{hcm, peer, tls, tracing};
use crate::filter_build::FilterBuild;
use crate::names::{ResourceNames, parts, stat_name};
use crate::proto::seconds;

/// Seconds that a TLS handshake may take.
pub(super) const HANDSHAKE_TIMEOUT: u64 = 10;

/// The chain of a cluster whose requests are judged. `hops`: the trusted HTTP proxies in front of it.
pub(super) fn judging(
    cluster: &Cluster,
    names: &ResourceNames,
    settings: &Settings,
    filter: FilterBuild,
    hops: u32,
) -> FilterChain {
    let certificate = match cluster.serving {
        Some(_) => names.part(parts::SERVING),
        None => ResourceNames::gateway(&settings.instance).part(parts::DEFAULT_CERTIFICATE),
    };
    let door = Door {
        name: names.chain().to_owned(),
        server_names: host_names(cluster),
        certificates: vec![certificate],
        validation: HandshakeValidation::of_cluster(names),
        routes: names.part(parts::ROUTES),
        more_logs: Vec::new(),
        hops,
        traced: tracing::of(cluster, settings),
    };
    door.chain(cluster, settings, filter)
}

/// The way of clients to a cluster whose requests are judged: under its own names, or those of a route of a Gateway.
pub(super) struct Door<'a> {
    /// The chain's name.
    pub(super) name: String,
    /// The names that clients ask for by SNI.
    pub(super) server_names: Vec<String>,
    /// The secrets with the certificates that clients see.
    pub(super) certificates: Vec<String>,
    /// The client certificates that are asked for.
    pub(super) validation: HandshakeValidation,
    /// The route configuration.
    pub(super) routes: String,
    /// Logs of requests that the filter does not see.
    pub(super) more_logs: Vec<AccessLog>,
    /// The trusted HTTP proxies in front.
    pub(super) hops: u32,
    pub(super) traced: Option<&'a Tracing>,
}

impl Door<'_> {
    /// Its chain. Users of certificates are those of the cluster's CA, whatever else a handshake asks for: the author of the door
    /// decides nothing about identities.
    pub(super) fn chain(self, cluster: &Cluster, settings: &Settings, filter: FilterBuild) -> FilterChain {
        let socket = tls::with_client_certificate(self.certificates, self.validation, &settings.tls);
        let mut manager = hcm::serving(stat_name(&cluster.name), self.routes, settings, self.traced, filter, self.hops);
        manager.access_log.extend(self.more_logs);
        let source_prefix_ranges = cluster.client_addresses.iter().map(range).collect();
        let server_names = self.server_names;
        FilterChain {
            name: self.name,
            filter_chain_match: Some(FilterChainMatch { server_names, source_prefix_ranges, ..Default::default() }),
            filters: vec![peer::recorder(), http_connection_manager(manager)],
            transport_socket: Some(socket),
            transport_socket_connect_timeout: Some(seconds(HANDSHAKE_TIMEOUT)),
            ..Default::default()
        }
    }
}

/// The names that clients ask for by SNI.
pub(super) fn host_names(cluster: &Cluster) -> Vec<String> {
    std::iter::once(&cluster.name).chain(&cluster.server_names).cloned().collect()
}

/// The chain for client addresses that may not connect: it closes connections to the same names. Envoy would take them to the chain
/// for unknown names, with a handshake. `None` if all addresses may connect.
pub(super) fn other_addresses(cluster: &Cluster, names: &ResourceNames, settings: &Settings) -> Option<FilterChain> {
    let name = names.part(parts::OTHER_ADDRESSES);
    (!cluster.client_addresses.is_empty()).then(|| {
        let mut chain = closed(name, host_names(cluster));
        if let Some(condition) = &mut chain.filter_chain_match {
            condition.transport_protocol = transport_protocol(cluster);
            condition.source_type = source_type(cluster, settings);
        }
        chain
    })
}

/// The protocol that a connection must begin with; none if TLS ends here, because the handshake decides then. All chains of a
/// cluster have the same: of two that differ Envoy looks at the one with a protocol alone.
pub(super) fn transport_protocol(cluster: &Cluster) -> String {
    match cluster.transport {
        Transport::Terminate => String::new(),
        Transport::Passthrough => "tls".to_owned(),
    }
}

/// The kind of address that a connection must come from. Nothing adds a `Via` to a connection that is passed on: one of the gateway
/// to itself, or of another process at its address, finds no chain of the cluster and falls to that of unknown names. If servers
/// may be at loopback, clients may be, too. All chains of a cluster have the same: of two that differ Envoy looks at the one with
/// a kind alone.
pub(super) fn source_type(cluster: &Cluster, settings: &Settings) -> i32 {
    match cluster.transport {
        Transport::Terminate => ConnectionSourceType::Any.into(),
        Transport::Passthrough => passed_on_source_type(settings),
    }
}

/// The same of all connections that are passed on.
pub(super) fn passed_on_source_type(settings: &Settings) -> i32 {
    let loops = settings.allow_loopback_upstreams;
    if loops { ConnectionSourceType::Any.into() } else { ConnectionSourceType::External.into() }
}

/// The same chain for connections to a virtual IP of the cluster, for any server name.
pub(super) fn at_virtual_ips(cluster: &Cluster, names: &ResourceNames, chain: &FilterChain) -> Option<FilterChain> {
    let one = |ip: &IpAddr| range(&Cidr { ip: *ip, length: if ip.is_ipv4() { 32 } else { 128 } });
    let prefix_ranges: Vec<_> = cluster.virtual_ips.iter().map(one).collect();
    let is_closed = chain.name == names.part(parts::OTHER_ADDRESSES);
    let part = if is_closed { parts::OTHER_ADDRESSES_AT_VIRTUAL_IPS } else { parts::VIRTUAL_IPS };
    (!prefix_ranges.is_empty()).then(|| at_addresses(names.part(part), prefix_ranges, chain))
}

/// The same chain for connections to these addresses, for any server name.
pub(super) fn at_addresses(name: String, prefix_ranges: Vec<CidrRange>, chain: &FilterChain) -> FilterChain {
    let own = chain.filter_chain_match.clone().unwrap_or_default();
    let filter_chain_match = Some(FilterChainMatch { prefix_ranges, server_names: Vec::new(), ..own });
    FilterChain { name, filter_chain_match, ..chain.clone() }
}

/// The chain for unknown names: 503 with a `Status` body, and no route to any server.
pub(super) fn default(settings: &Settings) -> Option<FilterChain> {
    settings.default_certificate.as_ref()?;
    let names = ResourceNames::gateway(&settings.instance);
    Some(FilterChain {
        name: names.part("default"),
        filters: vec![http_connection_manager(hcm::refusing(settings))],
        transport_socket: Some(tls::plain(vec![names.part(parts::DEFAULT_CERTIFICATE)], &settings.tls)),
        transport_socket_connect_timeout: Some(seconds(HANDSHAKE_TIMEOUT)),
        ..Default::default()
    })
}

/// Closes every connection at once: it needs no certificate.
pub(super) fn closed(name: String, server_names: Vec<String>) -> FilterChain {
    let filter = Filter {
        name: "envoy.filters.network.direct_response".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(CloseConfig::default()))),
    };
    FilterChain {
        name,
        filter_chain_match: Some(FilterChainMatch { server_names, ..Default::default() }),
        filters: vec![filter],
        ..Default::default()
    }
}

pub(super) fn http_connection_manager(config: hcm::Manager) -> Filter {
    Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(config))),
    }
}
