//! Reports to one control plane: of health by Envoy's own health discovery protocol, and of activity beside it on the same
//! connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::health::v3::health_check_request_or_endpoint_health_response::RequestType;
use envoy_types::pb::envoy::service::health::v3::health_discovery_service_client::HealthDiscoveryServiceClient;
use envoy_types::pb::envoy::service::health::v3::{
    ClusterEndpointsHealth, HealthCheckRequest, HealthCheckRequestOrEndpointHealthResponse,
};
use portcullis_xds::repeated;
use tokio::net::lookup_host;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport;
use tonic::transport::Endpoint;

use super::activity;
use super::limits;
use super::network::Network;
use super::{HealthReport, ReportInputs};

/// The pause before another attempt to reach a control plane.
const RECONNECT_PAUSE: Duration = Duration::from_secs(2);
/// The time limit for a connection, and for the answer to a keepalive.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of keepalives on a silent connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// The address of a control plane.
#[derive(Clone, Debug)]
pub(super) enum ControlPlane {
    /// At a Unix socket.
    Local(PathBuf),
    /// On another machine.
    Remote(Network),
}

impl ControlPlane {
    async fn connect(&self) -> Result<transport::Channel, transport::Error> {
        let careful = |endpoint: Endpoint| {
            endpoint
                .connect_timeout(CONNECT_TIMEOUT)
                .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
                .keep_alive_timeout(CONNECT_TIMEOUT)
        };
        match self {
            ControlPlane::Local(socket) => {
                careful(Endpoint::from_shared(format!("unix:{}", socket.display()))?).connect().await
            }
            // The name goes into no handshake: the connector has its own.
            ControlPlane::Remote(network) => {
                careful(Endpoint::from_static("http://portcullis")).connect_with_connector(network.clone()).await
            }
        }
    }

    /// How logs call it.
    fn display(&self) -> String {
        match self {
            ControlPlane::Local(socket) => socket.display().to_string(),
            ControlPlane::Remote(network) => network.address.to_string(),
        }
    }
}

/// Why a stream to a control plane ended. It is tried again.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("cannot connect")]
    Connect(#[from] tonic::transport::Error),
    #[error("refused: {}", .0.message())]
    Refused(#[from] Status),
    #[error("the control plane has ended the stream")]
    Ended,
}

/// Why reports about the filter failed last, on whichever connection.
#[derive(Default)]
struct FilterFailures {
    activity: String,
    limits: String,
}

/// Sends every new report until there are no more.
pub(super) async fn report_to(peer: ControlPlane, node: Node, mut reports: ReportInputs) {
    let (mut last, mut said) = (String::new(), FilterFailures::default());
    loop {
        let Err(error) = stream_reports(&peer, &node, &mut reports, &mut said).await else { return };
        let why = chain(&error);
        // Once, and not at every try.
        if why != last {
            tracing::warn!(control_plane = peer.display(), error = why, "health is not reported");
            last = why;
        }
        sleep(RECONNECT_PAUSE).await;
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {}", chain(cause)))
}

/// Ends without an error when there will be no more reports.
async fn stream_reports(
    peer: &ControlPlane,
    node: &Node,
    reports: &mut ReportInputs,
    said: &mut FilterFailures,
) -> Result<(), ReportError> {
    let channel = peer.connect().await?;
    let ReportInputs { envoy, pages, limits, .. } = reports.clone();
    let name = peer.display();
    tokio::select! {
        ended = stream_health(channel.clone(), peer, node, reports) => ended,
        never = activity::report_on(channel.clone(), &envoy, pages, &name, &mut said.activity) => match never {},
        never = limits::exchange_on(channel, &envoy, limits, &name, &mut said.limits) => match never {},
    }
}

/// Ends without an error when there will be no more reports.
async fn stream_health(
    channel: transport::Channel,
    peer: &ControlPlane,
    node: &Node,
    reports: &mut ReportInputs,
) -> Result<(), ReportError> {
    let mut client = HealthDiscoveryServiceClient::new(channel);
    let (sender, receiver) = mpsc::channel(1);
    // The first message is there before the stream: a server may wait for it before it answers.
    let introduction = HealthCheckRequest { node: Some(node.clone()), ..Default::default() };
    send(&sender, RequestType::HealthCheckRequest(introduction)).await?;
    let mut answers = client.stream_health_check(ReceiverStream::new(receiver)).await?.into_inner();
    reports.found.mark_changed();
    let heard = Heard::from(peer.display(), &reports.heard);
    loop {
        tokio::select! {
            // Envoy knows already what to check: only acknowledgements are read.
            answer = answers.message() => heard.replace(repeated(answer?.ok_or(ReportError::Ended)?)),
            Ok(()) = reports.news.changed() => reports.found.mark_changed(),
            changed = reports.found.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                let newest: HealthReport = reports.found.borrow_and_update().clone();
                if let Some(report) = newest {
                    let mut report = report.as_ref().clone();
                    report.cluster_endpoints_health.extend(heard.of_others());
                    send(&sender, RequestType::EndpointHealthResponse(report)).await?;
                }
            }
        }
    }
}

async fn send(
    sender: &mpsc::Sender<HealthCheckRequestOrEndpointHealthResponse>,
    what: RequestType,
) -> Result<(), ReportError> {
    let message = HealthCheckRequestOrEndpointHealthResponse { request_type: Some(what) };
    sender.send(message).await.map_err(|_| ReportError::Ended)
}

/// The interval of name lookups.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(15);

/// Reports to every address of `host`, and follows its changes.
pub(super) async fn follow(
    (host, port): (String, u16),
    reach: impl Fn(SocketAddr) -> Network,
    node: Node,
    reports: ReportInputs,
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

/// Entries by the control plane that said them last.
pub(super) type ByPeer = BTreeMap<String, Vec<ClusterEndpointsHealth>>;

/// Shared by the streams to all control planes.
pub(super) type HeardChannel = Arc<watch::Sender<ByPeer>>;

/// The messages of one control plane, while the stream to it is open.
struct Heard {
    peer: String,
    channel: HeardChannel,
}

impl Heard {
    pub(super) fn from(peer: String, channel: &HeardChannel) -> Self {
        Self { peer, channel: Arc::clone(channel) }
    }

    /// Takes what it says now, in the place of what it said before.
    fn replace(&self, entries: Vec<ClusterEndpointsHealth>) {
        self.channel.send_if_modified(|all| match entries.is_empty() {
            true => all.remove(&self.peer).is_some(),
            false => all.insert(self.peer.clone(), entries.clone()).as_ref() != Some(&entries),
        });
    }

    /// The messages of the other control planes, to be repeated to this one.
    fn of_others(&self) -> Vec<ClusterEndpointsHealth> {
        let all = self.channel.borrow();
        all.iter().filter(|(peer, _)| **peer != self.peer).flat_map(|(_, entries)| entries.clone()).collect()
    }
}

/// A replica that is gone says nothing more of an Envoy that has gone elsewhere.
impl Drop for Heard {
    fn drop(&mut self) {
        self.replace(Vec::new());
    }
}
