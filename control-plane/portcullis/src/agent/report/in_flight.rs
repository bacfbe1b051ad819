//! Requests in flight at each server. The filter does not know the server of a request that has no answer; Envoy's page of
//! clusters does, and is asked about clusters with requests in flight alone.

use std::collections::BTreeMap;

use portcullis_filter_config::activity::{Activity, ClusterActivity, ServerActivity};
use portcullis_filter_config::without_generation;

use super::clusters_page::{ClustersPage, escaped};

/// Most clusters that one page is asked about. A cluster has some five pools; of 20 pools with three servers the page takes 6 ms of
/// Envoy's main thread.
const MAX_CLUSTERS: usize = 10;

/// Requests in flight by server, of each cluster when it was asked about last.
#[derive(Debug, Default)]
pub(super) struct RequestsByServer {
    by_cluster: BTreeMap<String, BTreeMap<String, u32>>,
    /// The cluster that was asked about last: more than fit a page take turns.
    last: String,
}

impl RequestsByServer {
    /// The clusters to ask about now, and the path of the page about them. `None` if no request is in flight.
    pub(super) fn ask(&mut self, activity: &Activity) -> Option<(Vec<String>, String)> {
        let mut busy: Vec<&str> =
            activity.clusters.iter().filter(|one| is_busy(one)).map(|one| &*one.cluster).collect();
        busy.sort_unstable();
        busy.dedup();
        self.by_cluster.retain(|name, _| busy.binary_search(&name.as_str()).is_ok());
        let first = busy.partition_point(|name| *name <= self.last.as_str());
        let turns = busy.iter().cycle().skip(first).take(busy.len().min(MAX_CLUSTERS));
        let clusters: Vec<String> = turns.map(|name| (*name).to_owned()).collect();
        self.last.clone_from(clusters.last()?);
        let names: Vec<_> = clusters.iter().map(|name| escaped(name)).collect();
        Some((clusters, format!("/clusters?format=json&filter=/%28{}%29/", names.join("%7C"))))
    }

    /// Takes the page about the clusters that were asked about.
    ///
    /// # Errors
    /// The page is not in Envoy's format.
    pub(super) fn take(&mut self, clusters: Vec<String>, page: &[u8]) -> Result<(), serde_json::Error> {
        let mut found: BTreeMap<&str, BTreeMap<String, u32>> = BTreeMap::new();
        let page: ClustersPage = serde_json::from_slice(page)?;
        for pool in &page.cluster_statuses {
            let Some(name) = owner(&pool.name) else { continue };
            let servers = found.entry(name).or_default();
            for host in &pool.host_statuses {
                let (Some(server), requests @ 1..) = (host.server(), host.in_flight()) else { continue };
                let sum = servers.entry(server).or_default();
                *sum = sum.saturating_add(requests);
            }
        }
        for cluster in clusters {
            let servers = found.remove(cluster.as_str()).unwrap_or_default();
            self.by_cluster.insert(cluster, servers);
        }
        Ok(())
    }

    /// Adds what is known to a page of activity.
    pub(super) fn add_to(&self, activity: &mut Activity) {
        for cluster in &mut activity.clusters {
            for (server, requests) in self.by_cluster.get(&cluster.cluster).into_iter().flatten() {
                match cluster.servers.iter_mut().find(|one| one.server == *server) {
                    Some(known) => known.in_flight = *requests,
                    None => cluster.servers.push(ServerActivity {
                        server: server.clone(),
                        in_flight: *requests,
                        ..ServerActivity::default()
                    }),
                }
            }
        }
    }
}

fn is_busy(cluster: &ClusterActivity) -> bool {
    cluster.running > 0 || cluster.watches > 0 || cluster.sessions > 0
}

/// The cluster of a pool: pools are `<instance>/-/<cluster>/<part>`.
fn owner(pool: &str) -> Option<&str> {
    let (owner, _) = without_generation(pool).rsplit_once('/')?;
    Some(owner.rsplit_once('/')?.1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn activity(clusters: &[(&str, u32)]) -> Activity {
        let cluster = |(name, watches): &(&str, u32)| ClusterActivity {
            cluster: (*name).to_owned(),
            watches: *watches,
            ..ClusterActivity::default()
        };
        Activity { clusters: clusters.iter().map(cluster).collect(), ..Activity::default() }
    }

    #[test]
    fn requests_of_all_pools_add_up_by_server() {
        let mut in_flight = RequestsByServer::default();
        assert_eq!(in_flight.ask(&activity(&[("a.b", 0)])), None);
        let mut page = activity(&[("a.b", 1), ("c", 0)]);
        let (clusters, path) = in_flight.ask(&page).unwrap();
        assert_eq!((clusters.len(), &*path), (1, "/clusters?format=json&filter=/%28a%5C.b%29/"));
        let pool = |name: &str, active: &str| {
            let address = json!({"socket_address": {"address": "10.0.0.1", "port_value": 6443}});
            let stats = json!([{"name": "cx_active", "value": "9"}, {"name": "rq_active", "value": active}, {"name": "rq_error"}]);
            json!({"name": name, "host_statuses": [{"address": address, "stats": stats}]})
        };
        let pools = [pool("i/-/a.b/all.h2@01", "2"), pool("i/-/a.b/all.upgrade@01", "3"), pool("i/-/c/all.h2@01", "5")];
        in_flight.take(clusters, json!({"cluster_statuses": pools}).to_string().as_bytes()).unwrap();
        in_flight.add_to(&mut page);
        let found = page
            .clusters
            .iter()
            .map(|one| one.servers.iter().map(|one| (&*one.server, one.in_flight)).collect::<Vec<_>>());
        assert_eq!(found.collect::<Vec<_>>(), [vec![("10.0.0.1:6443", 5)], vec![]]);
        // Nothing is in flight any more.
        assert_eq!(in_flight.ask(&activity(&[("a.b", 0)])), None);
        let mut page = activity(&[("a.b", 0)]);
        in_flight.add_to(&mut page);
        assert_eq!(page, activity(&[("a.b", 0)]));
        assert!(in_flight.take(vec!["a.b".to_owned()], b"busy").is_err());
    }

    #[test]
    fn many_busy_clusters_take_turns() {
        let names: Vec<_> = (0..25).map(|number| format!("c{number:02}")).collect();
        let page = activity(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>());
        let (mut in_flight, mut asked) = (RequestsByServer::default(), Vec::new());
        for _ in 0..3 {
            let (clusters, _) = in_flight.ask(&page).unwrap();
            assert!(clusters.len() <= MAX_CLUSTERS);
            asked.extend(clusters);
        }
        asked.sort();
        asked.dedup();
        assert_eq!(asked, names);
    }
}
