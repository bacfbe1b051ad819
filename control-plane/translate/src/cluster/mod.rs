//! One Envoy cluster per server group and pool, and the group's endpoints (the assignment, EDS).

mod collector;
mod endpoints;
mod health;
mod protocol;
mod tls;
mod tunnel;

pub(crate) use collector::collector;
pub(crate) use health::LONGEST_CHECK;
pub(crate) use tunnel::tunnel;

use std::collections::HashMap;

use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, DnsLookupFamily, EdsClusterConfig,
};
use envoy_types::pb::envoy::config::cluster::v3::{Cluster as EnvoyCluster, UpstreamConnectionOptions};
use envoy_types::pb::envoy::config::core::v3::TcpKeepalive;
use portcullis_api::{Cluster, SecondaryPools, ServerHost, Settings};
use portcullis_filter_config::Pool;

use crate::generation::upstream_identity;
use crate::names::Group;
use crate::names::ResourceNames;
use crate::proto::{ads, seconds, uint};
use crate::resource::Resource;

/// Most bytes that Envoy buffers of one upstream connection before it stops reading.
const BUFFER_LIMIT: u32 = 1024 * 1024;
/// How long a TCP and TLS handshake with a server may take, seconds.
const CONNECT_TIMEOUT: u64 = 5;

/// The clusters and endpoints of a group.
pub(crate) fn emit_clusters(
    cluster: &Cluster,
    group: &Group,
    names: &ResourceNames,
    settings: &Settings,
    resources: &mut Vec<Resource>,
) {
    let assignment = endpoints::assignment(names.group(&group.name), group);
    let by_address = group.servers.iter().all(|server| matches!(server.endpoint.host, ServerHost::Ip(_)));
    for pool in Pool::of(&upstream_identity(cluster, settings)).iter().copied() {
        let mut envoy = pool_cluster(cluster, group, pool, names, settings);
        if by_address {
            envoy.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into()));
            envoy.eds_cluster_config =
                Some(EdsClusterConfig { eds_config: Some(ads()), service_name: names.group(&group.name) });
        } else {
            envoy.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::StrictDns.into()));
            envoy.dns_lookup_family = DnsLookupFamily::V4Preferred.into();
            envoy.load_assignment = Some(assignment.clone());
        }
        let mut resource = Resource::new(envoy.name.clone(), &envoy);
        resource.on_demand = is_on_demand(pool, settings);
        resource.assignment = by_address.then(|| names.group(&group.name));
        resources.push(resource);
    }
    if by_address {
        resources.push(Resource::new(assignment.cluster_name.clone(), &assignment));
    }
}

/// Whether Envoy gets a pool only when a request needs it. Reviews have no way to wait for one, and the health of servers is that of
/// the first pool: it is always there.
fn is_on_demand(pool: Pool, settings: &Settings) -> bool {
    pool != Pool::Http2 && settings.secondary_pools == SecondaryPools::OnDemand
}

fn pool_cluster(
    cluster: &Cluster,
    group: &Group,
    pool: Pool,
    names: &ResourceNames,
    settings: &Settings,
) -> EnvoyCluster {
    let name = names.pool(&group.name, pool);
    EnvoyCluster {
        alt_stat_name: names.pool_stat(&group.name, pool),
        name,
        connect_timeout: Some(seconds(CONNECT_TIMEOUT)),
        per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
        health_checks: vec![health::health_check(cluster, pool, settings)],
        outlier_detection: Some(health::outlier_detection()),
        common_lb_config: Some(health::common_lb_config()),
        ignore_health_on_host_removal: true,
        circuit_breakers: Some(endpoints::circuit_breakers(&settings.limits)),
        load_balancing_policy: Some(endpoints::load_balancing(group.strategy)),
        transport_socket: Some(tls::transport_socket(cluster, pool, names)),
        // One entry, so that a map without order has one encoding.
        typed_extension_protocol_options: HashMap::from([protocol::options(cluster, pool, names)]),
        upstream_connection_options: Some(UpstreamConnectionOptions {
            tcp_keepalive: Some(TcpKeepalive {
                keepalive_probes: Some(uint(3)),
                keepalive_time: Some(uint(30)),
                keepalive_interval: Some(uint(10)),
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}
