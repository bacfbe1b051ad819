//! The chain of connections that are passed on: no TLS ends in it, no request is read, and no module of ours runs.

use envoy_types::pb::envoy::config::accesslog::v3::AccessLog as Log;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, FilterChainMatch, filter};
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use envoy_types::util::pack_any;
use portcullis_api::{Cluster, LogMode, Settings};

use super::port::range;
use super::{access_log, chain};
use crate::names::{ALL, ResourceNames, parts, stat_name};
use crate::proto::{seconds, uint};

/// Seconds without a byte in either direction after which a connection ends. Clients of Kubernetes send pings each half minute;
/// one that is gone without a word is found out.
const IDLE_TIMEOUT: u64 = 3600;
/// Most servers that are tried for a connection. None saw a byte of it before it was established.
const MAX_CONNECT_ATTEMPTS: u32 = 3;

/// The chain of a cluster whose connections are passed on. One that takes no requests closes them.
pub(super) fn chain(cluster: &Cluster, names: &ResourceNames, settings: &Settings) -> FilterChain {
    let name = names.part(parts::PASSTHROUGH);
    let filter_chain_match = Some(FilterChainMatch {
        server_names: chain::host_names(cluster),
        source_prefix_ranges: cluster.client_addresses.iter().map(range).collect(),
        transport_protocol: chain::transport_protocol(cluster),
        source_type: chain::source_type(cluster, settings),
        ..Default::default()
    });
    if cluster.gates.deny_all_requests {
        return FilterChain { filter_chain_match, ..chain::closed(name, Vec::new()) };
    }
    let is_logged = cluster.log_mode.is_logged(LogMode::Unset);
    let log = if is_logged { access_log::of_passed_on(&settings.access_log, &cluster.name) } else { Vec::new() };
    FilterChain {
        name,
        filter_chain_match,
        filters: vec![proxy(stat_name(&cluster.name), ClusterSpecifier::Cluster(names.tcp_pool(ALL)), log)],
        ..Default::default()
    }
}

/// The filter that passes connections on to clusters of Envoy's.
pub(super) fn proxy(stat_prefix: String, pools: ClusterSpecifier, access_log: Vec<Log>) -> Filter {
    let config = TcpProxy {
        stat_prefix,
        cluster_specifier: Some(pools),
        idle_timeout: Some(seconds(IDLE_TIMEOUT)),
        max_connect_attempts: Some(uint(MAX_CONNECT_ATTEMPTS)),
        access_log,
        ..Default::default()
    };
    Filter {
        name: "envoy.filters.network.tcp_proxy".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(config))),
    }
}
