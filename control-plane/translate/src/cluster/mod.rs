//! One Envoy cluster per server group and pool, and the group's endpoints (the assignment, EDS).

mod collector;
mod endpoints;
mod health;
mod passthrough;
mod protocol;
mod tls;
mod tunnel;

pub(crate) use collector::collector;
pub(crate) use health::LONGEST_CHECK;
pub(crate) use passthrough::{emit_service_pool, emit_tcp_pool};
pub(crate) use tunnel::tunnel;

use std::collections::HashMap;
use std::sync::Arc;

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
    let pools = Pool::of(&upstream_identity(cluster, settings)).iter().copied();
    let pools = pools.map(|pool| (pool_cluster(cluster, group, pool, names, settings), is_on_demand(pool, settings)));
    emit_with_endpoints(pools, group, names.group(&group.name), resources);
}

/// Clusters of one group, with its endpoints by the name `assignment`. A name of DNS among them is resolved by Envoy, which then
/// needs all of them in each cluster.
fn emit_with_endpoints(
    pools: impl IntoIterator<Item = (EnvoyCluster, bool)>,
    group: &Group,
    assignment: String,
    resources: &mut Vec<Resource>,
) {
    let (endpoints, shared) = (endpoints::assignment(assignment.clone(), group), Arc::<str>::from(assignment.as_str()));
    let by_address = group.servers.iter().all(|server| matches!(server.endpoint.host, ServerHost::Ip(_)));
    for (mut envoy, on_demand) in pools {
        if by_address {
            envoy.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into()));
            envoy.eds_cluster_config =
                Some(EdsClusterConfig { eds_config: Some(ads()), service_name: assignment.clone() });
        } else {
            envoy.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::StrictDns.into()));
            envoy.dns_lookup_family = DnsLookupFamily::V4Preferred.into();
            envoy.load_assignment = Some(endpoints.clone());
        }
        let mut resource = Resource::new(envoy.name.as_str(), &envoy);
        resource.on_demand = on_demand;
        resource.assignment = by_address.then(|| Arc::clone(&shared));
        resources.push(resource);
    }
    if by_address {
        resources.push(Resource::new(shared, &endpoints));
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
    EnvoyCluster {
        alt_stat_name: names.pool_stat(&group.name, pool),
        name: names.pool(&group.name, pool),
        health_checks: vec![health::health_check(cluster, pool, settings)],
        transport_socket: Some(tls::transport_socket(cluster, pool, names)),
        // One entry, so that a map without order has one encoding.
        typed_extension_protocol_options: HashMap::from([protocol::options(cluster, pool, names)]),
        ..common(group, settings)
    }
}

/// The common part of all clusters that lead to kube-apiservers.
fn common(group: &Group, settings: &Settings) -> EnvoyCluster {
    EnvoyCluster {
        connect_timeout: Some(seconds(CONNECT_TIMEOUT)),
        per_connection_buffer_limit_bytes: Some(uint(BUFFER_LIMIT)),
        outlier_detection: Some(health::outlier_detection()),
        common_lb_config: Some(health::common_lb_config()),
        ignore_health_on_host_removal: true,
        circuit_breakers: Some(endpoints::circuit_breakers(&settings.limits)),
        load_balancing_policy: Some(endpoints::load_balancing(group.strategy)),
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
