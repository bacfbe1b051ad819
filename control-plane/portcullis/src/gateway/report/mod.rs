//! Telling the control planes how the endpoints are, as Envoy sees them.

mod count;
mod heard;
mod network;
mod replicas;
mod send;

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::health::v3::EndpointHealthResponse;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use self::heard::Heard;
use self::network::Network;
use self::send::Peer;
use super::admin::Admin;
use crate::cli::Bootstrap;

/// How often Envoy is asked and the control planes are told. They forget a report after 30 seconds.
const INTERVAL: Duration = Duration::from_secs(5);

type Report = Option<Arc<EndpointHealthResponse>>;

/// What there is to tell a control plane.
#[derive(Clone)]
struct Reports {
    /// The newest report about Envoy.
    found: watch::Receiver<Report>,
    /// What control planes say of Envoy's acknowledgements.
    heard: heard::Channel,
    /// When that changes.
    news: watch::Receiver<heard::ByPeer>,
}

/// Asks and tells until the runtime ends. Every control plane is told, because each of them may be the one that writes
/// conditions.
pub(super) fn start(admin: Admin, arguments: &Bootstrap) {
    let (sender, found) = watch::channel(None);
    let heard = heard::Channel::default();
    let news = heard.subscribe();
    let reports = Reports { found, heard, news };
    tokio::spawn(ask(admin, sender));
    let node = Node { id: arguments.node_id.clone(), ..Node::default() };
    for socket in &arguments.xds_socket {
        tokio::spawn(send::tell(Peer::Local(socket.clone()), node.clone(), reports.clone()));
    }
    let (Some(name), Some([certificate, key, ca])) = (arguments.network.server_name(), arguments.network.files())
    else {
        return;
    };
    for host in arguments.network.addresses() {
        let (name, certificate, key, ca) = (name.to_owned(), certificate.clone(), key.clone(), ca.clone());
        let reach = move |address| Network {
            address,
            server_name: name.clone(),
            ca: ca.clone(),
            certificate: certificate.clone(),
            key: key.clone(),
        };
        tokio::spawn(replicas::follow(host, reach, node.clone(), reports.clone()));
    }
}

async fn ask(admin: Admin, reports: watch::Sender<Report>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match admin.get(count::PAGE).await {
            Ok(page) => {
                let report = count::report(&String::from_utf8_lossy(&page));
                reports.send_replace(Some(Arc::new(report)));
            }
            // The last report grows old, which is what it is.
            Err(error) => tracing::debug!(%error, "Envoy does not tell the endpoints' health"),
        }
    }
}
