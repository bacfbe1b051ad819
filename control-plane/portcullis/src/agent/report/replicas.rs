//! The replicas behind a name, each of which is told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use tokio::net::lookup_host;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::Reports;
use super::network::Network;
use super::send::{Peer, tell};

/// How often a name is looked up.
const AGAIN: Duration = Duration::from_secs(15);

/// Tells every address of `host`, and follows its changes.
pub(super) async fn follow(
    (host, port): (String, u16),
    reach: impl Fn(SocketAddr) -> Network,
    node: Node,
    reports: Reports,
) {
    let mut tasks = JoinSet::new();
    let mut told: BTreeMap<SocketAddr, AbortHandle> = BTreeMap::new();
    loop {
        match lookup_host((host.as_str(), port)).await {
            Ok(found) => {
                let found: Vec<_> = found.collect();
                told.retain(|address, task| {
                    found.contains(address) || {
                        task.abort();
                        false
                    }
                });
                for address in found {
                    let peer = || Peer::Remote(reach(address));
                    told.entry(address).or_insert_with(|| tasks.spawn(tell(peer(), node.clone(), reports.clone())));
                }
            }
            // Those that are known are still told.
            Err(error) => tracing::debug!(host, %error, "the control planes' name is not known"),
        }
        sleep(AGAIN).await;
        while tasks.try_join_next().is_some() {}
    }
}
