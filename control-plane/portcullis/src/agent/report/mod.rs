//! Reports to the control planes: of endpoint health, from Envoy's statistics (how many endpoints are healthy, and which are not),
//! of the filter's activity, with the requests in flight at each server, and of the use of limits. Those of a Gateway's Envoy say which
//! Gateway it is of.

mod activity;
mod clusters_page;
mod in_flight;
mod limits;
mod network;
mod send;
mod statistics;
mod stream_end;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::health::v3::EndpointHealthResponse;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use portcullis_filter_config::NODE_GATEWAY;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

pub(super) use self::limits::LimitsState;
use self::network::Network;
use self::send::ControlPlane;
use self::statistics::Servers;
use self::stream_end::ReportingEnvoy;
use super::activity::ActivitySource;
use super::admin::Admin;
use crate::bootstrap::Bootstrap;
use crate::http_client::HttpError;

/// The time between two reports, at least and at most. Control planes forget a report after 30 seconds.
const INTERVAL: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));

/// Envoy answers from its main thread, of which reports take at most a fiftieth.
const SHARE: u32 = 50;

/// Answers about limits that wait to be read: one of each control plane, of which one divides them.
const CONTROL_PLANES: usize = 8;

type HealthReport = Option<Arc<EndpointHealthResponse>>;

/// The inputs of the reports to one control plane.
#[derive(Clone)]
struct ReportInputs {
    /// The newest report about Envoy.
    found: watch::Receiver<HealthReport>,
    /// Envoy's acknowledgements, as control planes repeat them.
    heard: send::HeardChannel,
    /// When that changes.
    news: watch::Receiver<send::ByPeer>,
    /// The Envoy, in the reports about the filter.
    envoy: ReportingEnvoy,
    /// The newest page of the filter's activity.
    pages: watch::Receiver<activity::Page>,
    /// The use of limits that gateways share, and the way back of their parts.
    limits: (limits::UseReports, limits::PartsSender),
}

/// Polls and reports until the runtime ends. Every control plane gets the reports, because each of them may be the one that
/// writes conditions.
pub(super) fn start(admin: Admin, source: ActivitySource, limits: LimitsState, arguments: &Bootstrap) {
    let (sender, found) = watch::channel(None);
    let heard = send::HeardChannel::default();
    let news = heard.subscribe();
    let (page_sender, pages) = watch::channel(None);
    let (use_sender, uses) = watch::channel(Bytes::new());
    let (answer_sender, answers) = mpsc::channel(CONTROL_PLANES);
    let envoy = ReportingEnvoy { node: arguments.node_id.clone(), gateway: arguments.gateway.clone() };
    let reports = ReportInputs { found, heard, news, envoy, pages, limits: (uses, answer_sender) };
    tokio::spawn(limits::follow(source.clone(), use_sender, answers, limits));
    tokio::spawn(ask(admin, sender));
    tokio::spawn(activity::read(source, admin, page_sender));
    let node = node(arguments);
    for socket in &arguments.xds_socket {
        tokio::spawn(send::report_to(ControlPlane::Local(socket.clone()), node.clone(), reports.clone()));
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
        tokio::spawn(send::follow(host, reach, node.clone(), reports.clone()));
    }
}

/// The node of the reports, with the Gateway that it belongs to.
fn node(arguments: &Bootstrap) -> Node {
    let metadata = arguments.gateway.as_ref().map(|gateway| {
        let value = Value { kind: Some(Kind::StringValue(gateway.clone())) };
        Struct { fields: [(NODE_GATEWAY.to_owned(), value)].into() }
    });
    Node { id: arguments.node_id.clone(), metadata, ..Node::default() }
}

async fn ask(admin: Admin, reports: watch::Sender<HealthReport>) {
    let mut servers = Servers::default();
    loop {
        let begin = Instant::now();
        match look(admin, &mut servers).await {
            Ok(report) => drop(reports.send_replace(Some(Arc::new(report)))),
            // The last report grows old, which is what it is.
            Err(error) => tracing::debug!(%error, "the endpoints' health cannot be read from Envoy"),
        }
        let (least, most) = INTERVAL;
        sleep(begin.elapsed().saturating_mul(SHARE).clamp(least, most)).await;
    }
}

/// Asks for counts, and for names where the counts show an unhealthy server. Without names the counts are reported alone.
async fn look(admin: Admin, servers: &mut Servers) -> Result<EndpointHealthResponse, HttpError> {
    let counts = statistics::counts(&String::from_utf8_lossy(&admin.get(statistics::PAGE).await?));
    if let Some((pools, page)) = servers.ask(&counts) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        match admin.get(&page).await {
            Ok(page) => {
                if let Err(error) = servers.take(pools, &page, now) {
                    tracing::debug!(%error, "Envoy's page of clusters cannot be read");
                }
            }
            Err(error) => tracing::debug!(%error, "the unhealthy servers cannot be read from Envoy"),
        }
    }
    Ok(statistics::report(&counts, servers))
}
