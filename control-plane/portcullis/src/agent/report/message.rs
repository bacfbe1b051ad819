//! The report itself, a message of the health discovery protocol.

use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::service::health::v3::{
    ClusterEndpointsHealth, EndpointHealth, EndpointHealthResponse, LocalityEndpointsHealth,
};
use portcullis_xds::UnhealthyServer;

use super::count::Counts;
use super::servers::Servers;

/// The report of these counts. Unhealthy servers are named as far as Envoy names them; all others are endpoints without an
/// address.
pub(super) fn report(counts: &Counts, servers: &Servers) -> EndpointHealthResponse {
    let clusters = counts.iter().map(|(pool, (healthy, total))| {
        let unhealthy = total.saturating_sub(*healthy);
        let named = servers.of(pool).iter().take(unhealthy.try_into().unwrap_or(usize::MAX));
        let named: Vec<_> = named.map(UnhealthyServer::endpoint).collect();
        let nameless = unhealthy.saturating_sub(named.len().try_into().unwrap_or(u32::MAX));
        let of = |count: u32, status: HealthStatus| (0..count).map(move |_| endpoint(status));
        let rest = of(*healthy, HealthStatus::Healthy).chain(of(nameless, HealthStatus::Unhealthy));
        let endpoints_health = named.into_iter().chain(rest).collect();
        ClusterEndpointsHealth {
            cluster_name: pool.clone(),
            locality_endpoints_health: vec![LocalityEndpointsHealth { locality: None, endpoints_health }],
        }
    });
    EndpointHealthResponse { cluster_endpoints_health: clusters.collect(), ..Default::default() }
}

fn endpoint(status: HealthStatus) -> EndpointHealth {
    EndpointHealth { health_status: status.into(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_holds_what_envoy_tells() {
        let counts = Counts::from([("a/all.h2".to_owned(), (2, 5)), ("b/all.h2".to_owned(), (0, 0))]);
        let mut servers = Servers::default();
        let (pools, _) = servers.ask(&counts).unwrap();
        let page = br#"{"cluster_statuses": [{"name": "a/all.h2@0", "host_statuses": [{"address": {"socket_address":
            {"address": "10.0.0.1", "port_value": 1}}, "health_status": {"failed_outlier_check": true}}]}]}"#;
        servers.take(pools, page, 7).unwrap();
        let told: Vec<_> = report(&counts, &servers)
            .cluster_endpoints_health
            .iter()
            .map(|cluster| {
                let all = &cluster.locality_endpoints_health[0].endpoints_health;
                let healthy = all.iter().filter(|one| one.health_status() == HealthStatus::Healthy).count();
                let named = all.iter().filter(|one| one.endpoint.is_some()).count();
                (cluster.cluster_name.clone(), named, healthy, all.len())
            })
            .collect();
        assert_eq!(told, [("a/all.h2".to_owned(), 1, 2, 5), ("b/all.h2".to_owned(), 0, 0, 0)]);
    }
}
