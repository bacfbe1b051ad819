//! The replicas behind a name, each of which gets the reports.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use tokio::net::lookup_host;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::Reports;
use super::network::Network;
use super::send::{ControlPlane, report_to};

/// The interval of name lookups.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(15);

/// Reports to every address of `host`, and follows its changes.
pub(super) async fn follow(
    (host, port): (String, u16),
    reach: impl Fn(SocketAddr) -> Network,
    node: Node,
    reports: Reports,
) {
    let mut tasks = JoinSet::new();
    let mut tasks_by_address: BTreeMap<SocketAddr, AbortHandle> = BTreeMap::new();
    loop {
        match lookup_host((host.as_str(), port)).await {
            Ok(found) => {
                let found: Vec<_> = found.collect();
                tasks_by_address.retain(|address, task| {
                    found.contains(address) || {
                        task.abort();
                        false
                    }
                });
                for address in found {
                    let peer = || ControlPlane::Remote(reach(address));
                    tasks_by_address
                        .entry(address)
                        .or_insert_with(|| tasks.spawn(report_to(peer(), node.clone(), reports.clone())));
                }
            }
            // Those that are known are still tasks_by_address.
            Err(error) => tracing::debug!(host, %error, "the control planes' name is not known"),
        }
        sleep(LOOKUP_INTERVAL).await;
        while tasks.try_join_next().is_some() {}
    }
}
