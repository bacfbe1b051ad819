//! The report of endpoint health, from Envoy's statistics and its page of clusters. The page is asked about pools alone of which
//! the statistics show an unhealthy server: a fleet without trouble pays nothing.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::service::health::v3::{
    ClusterEndpointsHealth, EndpointHealth, EndpointHealthResponse, LocalityEndpointsHealth,
};
use portcullis_filter_config::without_generation;
use portcullis_xds::{MAX_UNHEALTHY_SERVERS, UnhealthyReason, UnhealthyServer};

use super::clusters_page::{ClustersPage, escaped};

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

/// The page with the number of endpoints of the pools over HTTP/2 and of those that connections are passed on to, and of the healthy
/// ones: two numbers for each group of servers. With 1,000 clusters of three servers it takes 50 ms of Envoy's main thread; /clusters takes 100 for 14 MB, and in
/// JSON 300.
pub(super) const PAGE: &str =
    "/stats?usedonly&type=Gauges&filter=_%28h2%7Ctcp%29%5C.membership_%28healthy%7Ctotal%29%24";

/// More endpoints than any cluster has.
const MAX_ENDPOINTS: u32 = 1_000;

/// Healthy endpoints and all of them, by pool.
type Counts = BTreeMap<String, (u32, u32)>;

/// The counts in a page.
pub(super) fn counts(page: &str) -> Counts {
    let mut counts = Counts::new();
    for line in page.lines() {
        let Some((name, value)) = line.rsplit_once(": ") else { continue };
        let Some((cluster, gauge)) = name.strip_prefix("cluster.").and_then(|name| name.rsplit_once('.')) else {
            continue;
        };
        let Ok(value) = value.trim().parse::<u32>() else { continue };
        // Names for statistics have `_` for `.`; names of Kubernetes hold no `_`.
        let entry = counts.entry(cluster.replace('_', ".")).or_default();
        match gauge {
            "membership_healthy" => entry.0 = value.min(MAX_ENDPOINTS),
            "membership_total" => entry.1 = value.min(MAX_ENDPOINTS),
            _ => {}
        }
    }
    counts
}

/// Most pools that one page is asked about. Of 1,000 pools the page takes 300 ms of Envoy's main thread, of 20 it takes 6.
const MAX_POOLS: usize = 20;

/// The servers that are not healthy, by pool, and since when.
#[derive(Debug, Default)]
pub(super) struct Servers {
    by_pool: BTreeMap<String, Vec<UnhealthyServer>>,
    /// The pool that was asked about last: more than fit a page take turns.
    last: String,
}

impl Servers {
    /// The pools to ask about now, and the path of the page about them. `None` if all servers of all pools are healthy.
    pub(super) fn ask(&mut self, counts: &Counts) -> Option<(Vec<String>, String)> {
        let ill: BTreeSet<&String> =
            counts.iter().filter(|(_, (healthy, total))| healthy < total).map(|(pool, _)| pool).collect();
        self.by_pool.retain(|pool, servers| {
            let stays = ill.contains(pool);
            if !stays {
                servers.iter().for_each(|one| recovered(pool, one));
            }
            stays
        });
        let next = ill.iter().filter(|pool| ***pool > self.last).chain(ill.iter().filter(|pool| ***pool <= self.last));
        let pools: Vec<String> = next.take(MAX_POOLS).map(|pool| (*pool).clone()).collect();
        self.last.clone_from(pools.last()?);
        let names: Vec<_> = pools.iter().map(|pool| escaped(pool)).collect();
        let page = format!("/clusters?format=json&filter=%5E%28{}%29%28%40%7C%24%29", names.join("%7C"));
        Some((pools, page))
    }

    /// Takes the page about the pools that were asked about, at `now` in seconds since 1970.
    ///
    /// # Errors
    /// The page is not in Envoy's format.
    pub(super) fn take(&mut self, pools: Vec<String>, page: &[u8], now: u64) -> Result<(), serde_json::Error> {
        let mut found = read(page)?;
        for pool in pools {
            let mut servers = found.remove(&pool).unwrap_or_default();
            let before = self.by_pool.remove(&pool).unwrap_or_default();
            for (server, reason) in &mut servers {
                if !before.iter().any(|known| known.server == *server) {
                    tracing::warn!(pool, server, reason = reason.as_str(), "a server is not healthy");
                }
            }
            before.iter().filter(|known| !servers.contains_key(&known.server)).for_each(|one| recovered(&pool, one));
            let since = |server: &String| before.iter().find(|known| known.server == *server).map(|known| known.since);
            let named = servers.into_iter().take(MAX_UNHEALTHY_SERVERS).map(|(server, reason)| UnhealthyServer {
                since: since(&server).unwrap_or(now),
                server,
                reason,
            });
            let named: Vec<_> = named.collect();
            if !named.is_empty() {
                self.by_pool.insert(pool, named);
            }
        }
        Ok(())
    }

    /// Those of a pool, at most as many as there are in all.
    pub(super) fn of(&self, pool: &str) -> &[UnhealthyServer] {
        self.by_pool.get(pool).map(Vec::as_slice).unwrap_or_default()
    }
}

fn recovered(pool: &str, server: &UnhealthyServer) {
    tracing::info!(pool, server = server.server, "a server is healthy again, or gone");
}

/// Servers that are not healthy, by pool without its generation.
fn read(page: &[u8]) -> Result<BTreeMap<String, BTreeMap<String, UnhealthyReason>>, serde_json::Error> {
    let mut found: BTreeMap<String, BTreeMap<String, UnhealthyReason>> = BTreeMap::new();
    for pool in serde_json::from_slice::<ClustersPage>(page)?.cluster_statuses {
        let named = pool.host_statuses.iter().filter_map(|host| Some((host.server()?, host.health_status.reason()?)));
        found.entry(without_generation(&pool.name).to_owned()).or_default().extend(named);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn report_holds_what_envoy_tells() {
        let counts = Counts::from([("a/all.h2".to_owned(), (2, 5)), ("b/all.h2".to_owned(), (0, 0))]);
        let mut servers = Servers::default();
        let (pools, _) = servers.ask(&counts).unwrap();
        let page = br#"{"cluster_statuses": [{"name": "a/all.h2@0", "host_statuses": [{"address": {"socket_address":
            {"address": "10.0.0.1", "port_value": 1}}, "health_status": {"failed_outlier_check": true}}]}]}"#;
        servers.take(pools, page, 7).unwrap();
        let reported: Vec<_> = report(&counts, &servers)
            .cluster_endpoints_health
            .iter()
            .map(|cluster| {
                let all = &cluster.locality_endpoints_health[0].endpoints_health;
                let healthy = all.iter().filter(|one| one.health_status() == HealthStatus::Healthy).count();
                let named = all.iter().filter(|one| one.endpoint.is_some()).count();
                (cluster.cluster_name.clone(), named, healthy, all.len())
            })
            .collect();
        assert_eq!(reported, [("a/all.h2".to_owned(), 1, 2, 5), ("b/all.h2".to_owned(), 0, 0, 0)]);
    }

    #[test]
    fn statistics_tell_how_many_endpoints_are_healthy() {
        let page = "cluster.lab/-/passed/all_tcp.membership_healthy: 1\n\
                    cluster.lab/-/passed/all_tcp.membership_total: 2\n\
                    cluster.lab/-/prod_example_com/all_h2.membership_healthy: 2\n\
                    cluster.lab/-/prod_example_com/all_h2.membership_total: 3\n\
                    cluster.lab/-/dev/all_h2.membership_healthy: 0\n\
                    cluster.lab/-/dev/all_h2.membership_total: 0\n\
                    cluster.lab/-/dev/s-0123456789_h2.membership_total: 1\n\
                    garbage\n\
                    cluster.lab/-/dev/all_h2.membership_healthy: many\n";
        let reported = [
            ("lab/-/dev/all.h2".to_owned(), (0, 0)),
            ("lab/-/dev/s-0123456789.h2".to_owned(), (0, 1)),
            ("lab/-/passed/all.tcp".to_owned(), (1, 2)),
            ("lab/-/prod.example.com/all.h2".to_owned(), (2, 3)),
        ];
        assert_eq!(counts(page), BTreeMap::from(reported));
    }

    fn page(pool: &str, hosts: &[(&str, &str, serde_json::Value)]) -> Vec<u8> {
        let host = |(address, hostname, flags): &(&str, &str, serde_json::Value)| {
            json!({"address": {"socket_address": {"address": address, "port_value": 6443}}, "hostname": hostname,
                "health_status": flags, "stats": [{"name": "cx_total"}], "weight": 1})
        };
        let hosts: Vec<_> = hosts.iter().map(host).collect();
        json!({"cluster_statuses": [{"name": pool, "host_statuses": hosts}]}).to_string().into_bytes()
    }

    fn some_counts(pools: &[(&str, u32, u32)]) -> Counts {
        pools.iter().map(|(pool, healthy, total)| ((*pool).to_owned(), (*healthy, *total))).collect()
    }

    #[test]
    fn servers_are_named_with_their_reasons_as_long_as_they_are_ill() {
        let mut servers = Servers::default();
        assert_eq!(servers.ask(&some_counts(&[("lab/-/a.b/all.h2", 3, 3)])), None);
        let ill = some_counts(&[("lab/-/a.b/all.h2", 1, 6), ("lab/-/c/all.h2", 1, 1)]);
        let (pools, asked) = servers.ask(&ill).unwrap();
        assert_eq!(asked, "/clusters?format=json&filter=%5E%28lab/-/a%5C.b/all%5C.h2%29%28%40%7C%24%29");
        let hosts = [
            ("10.0.0.1", "", json!({"failed_active_health_check": true, "active_hc_timeout": true})),
            ("10.0.0.2", "", json!({"failed_active_health_check": true, "eds_health_status": "HEALTHY"})),
            ("fd00::3", "", json!({"failed_outlier_check": true})),
            ("10.0.0.4", "api.example.com", json!({"failed_active_health_check": true, "pending_active_hc": true})),
            ("10.0.0.5", "", json!({"eds_health_status": "DRAINING"})),
            ("10.0.0.6", "", json!({"eds_health_status": "HEALTHY"})),
        ];
        servers.take(pools, &page("lab/-/a.b/all.h2@0123", &hosts), 100).unwrap();
        let reported = |servers: &Servers| {
            let one = |one: &UnhealthyServer| format!("{} {} {}", one.server, one.reason.as_str(), one.since);
            servers.of("lab/-/a.b/all.h2").iter().map(one).collect::<Vec<_>>()
        };
        assert_eq!(
            reported(&servers),
            [
                "10.0.0.1:6443 HealthCheckTimedOut 100",
                "10.0.0.2:6443 HealthCheckFailed 100",
                "[fd00::3]:6443 Ejected 100",
                "api.example.com:6443 NotChecked 100",
            ]
        );
        let (pools, _) = servers.ask(&ill).unwrap();
        let hosts = [
            ("10.0.0.2", "", json!({"failed_active_health_check": true, "active_hc_timeout": true})),
            ("10.0.0.6", "", json!({"failed_active_health_check": true})),
        ];
        servers.take(pools, &page("lab/-/a.b/all.h2@4567", &hosts), 200).unwrap();
        assert_eq!(
            reported(&servers),
            ["10.0.0.2:6443 HealthCheckTimedOut 100", "10.0.0.6:6443 HealthCheckFailed 200"]
        );
        assert_eq!(servers.ask(&some_counts(&[("lab/-/a.b/all.h2", 6, 6)])), None);
        assert_eq!(reported(&servers), [""; 0]);
    }

    #[test]
    fn pools_take_turns_where_many_are_ill() {
        let names: Vec<_> = (0..50).map(|number| format!("lab/-/c{number:02}/all.h2")).collect();
        let ill = names.iter().map(|name| (name.clone(), (0, 1))).collect();
        let (mut servers, mut asked) = (Servers::default(), BTreeSet::new());
        for _ in 0..3 {
            let (pools, _) = servers.ask(&ill).unwrap();
            assert!(pools.len() <= MAX_POOLS);
            asked.extend(pools);
        }
        assert_eq!(asked, names.into_iter().collect());
    }

    #[test]
    fn page_that_envoy_does_not_write_is_an_error() {
        assert!(Servers::default().take(vec!["a".to_owned()], b"busy", 1).is_err());
    }
}
