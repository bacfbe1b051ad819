//! The Envoy cluster that connections are passed on to. It carries bytes as they are: TLS is the clients' own, and no certificate,
//! token or header of the gateway is in it.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::cluster::v3::Cluster as EnvoyCluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::TransportSocketMatch;
use envoy_types::pb::envoy::config::core::v3::HealthCheck;
use envoy_types::pb::google::protobuf::{Struct, Value, value};
use portcullis_api::{Cluster, DiscoveredServer, Limits, Settings, Strategy, usable_servers};
use portcullis_filter_config::Pool;

use super::{common, emit_with_endpoints, endpoints, health, tls};
use crate::names::{Group, ResourceNames, all_servers};
use crate::resource::Resource;

/// The key by which a check finds its transport socket. No endpoint has it, so that no connection of a client does.
const CHECK: &str = "portcullis.check";

/// Most connections of one cluster that are passed on at a time, if `limits.maxConnections` is not less. Each takes two sockets of
/// Envoy's, and in a loop over another gateway all do: Envoy needs some for the other clusters.
const MAX_CONNECTIONS: u32 = 16_384;

/// The cluster with all servers, and their endpoints.
pub(crate) fn emit_tcp_pool(
    cluster: &Cluster,
    names: &ResourceNames,
    settings: &Settings,
    resources: &mut Vec<Resource>,
) {
    let group = all_servers(cluster);
    let envoy = EnvoyCluster {
        health_checks: vec![check(cluster, settings)],
        // Data goes without one, as it came.
        transport_socket_matches: vec![check_socket(cluster)],
        ..tcp_pool(&group, names, settings)
    };
    emit_with_endpoints([(envoy, false)], &group, names.group(&group.name), resources);
}

/// The cluster with the servers of a Service, and their endpoints: addresses that a server of an `UpstreamCluster` may have, and no
/// others, because tenants write EndpointSlices. Their health is not checked: nothing is known of what they serve, and the slices say
/// which are ready.
pub(crate) fn emit_service_pool(
    servers: &[DiscoveredServer],
    group: &str,
    names: &ResourceNames,
    settings: &Settings,
    resources: &mut Vec<Resource>,
) {
    let servers = usable_servers(servers.to_vec(), settings.allow_loopback_upstreams);
    let group = Group { name: group.to_owned(), strategy: Strategy::RoundRobin, servers };
    let envoy = tcp_pool(&group, names, settings);
    emit_with_endpoints([(envoy, false)], &group, names.group(&group.name), resources);
}

fn tcp_pool(group: &Group, names: &ResourceNames, settings: &Settings) -> EnvoyCluster {
    let max_connections = settings.limits.max_connections.min(MAX_CONNECTIONS);
    EnvoyCluster {
        name: names.tcp_pool(&group.name),
        alt_stat_name: names.tcp_pool_stat(&group.name),
        circuit_breakers: Some(endpoints::circuit_breakers(&Limits { max_connections, ..settings.limits })),
        ..common(group, settings)
    }
}

/// The check of a pool without a credential, over TLS of its own.
fn check(cluster: &Cluster, settings: &Settings) -> HealthCheck {
    HealthCheck {
        transport_socket_match_criteria: Some(criteria()),
        ..health::health_check(cluster, Pool::Anonymous, settings)
    }
}

/// TLS of checks: without a certificate of the gateway's, and for any of the server's. Clients verify servers themselves, and passing
/// on has to work where the CA that the gateway knows is the mistake.
fn check_socket(cluster: &Cluster) -> TransportSocketMatch {
    TransportSocketMatch {
        name: CHECK.to_owned(),
        r#match: Some(criteria()),
        transport_socket: Some(tls::client(&cluster.peer_name, "http/1.1", Vec::new(), tls::unverified())),
    }
}

fn criteria() -> Struct {
    // One entry, so that a map without order has one encoding.
    Struct { fields: HashMap::from([(CHECK.to_owned(), Value { kind: Some(value::Kind::BoolValue(true)) })]) }
}
