//! The gRPC server.

mod accept;
mod discovery;
mod followed;
mod frames;
mod introduction;
mod task;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;

use crate::admission::{Admitted, Peers, UnknownPaths};
use crate::health::HealthRegistry;
use crate::limits::Limits;
use crate::node::Views;
use crate::registry::Registry;
use crate::report::ReportSink;
use crate::service_frame::ServiceFrame;
use crate::snapshot::Snapshot;
use crate::socket::Socket;
use crate::tls::Credentials;
use discovery::DiscoveryServer;

/// The number of encoded responses that wait for a slow connection.
const MAX_QUEUED_RESPONSES: usize = 1;
/// The interval of keepalives on a silent connection, and the time limit for the answer.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// The size limit of a request's headers: gRPC sends few.
const MAX_HEADER_BYTES: u32 = 16 * 1024;
/// The number of streams that are reset before they are handled, and of those reset for a fault of the client: above it
/// the connection ends.
const MAX_RESETS: usize = 32;
/// The answer to a stream of the state-of-the-world variant. Envoy logs it.
const STATE_OF_THE_WORLD: &str = "Portcullis serves incremental xDS only: set api_type: DELTA_GRPC in \
    dynamic_resources.ads_config of this Envoy's bootstrap (`portcullis bootstrap` writes one)";

/// The reason for which the server ended before its shutdown.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The transport failed.
    #[error("the xDS server failed")]
    Transport(#[from] tonic::transport::Error),
}

/// The listeners for Envoys.
#[derive(Debug, Default)]
pub struct Listeners {
    /// The Unix socket, for processes of this machine; they may be any node.
    pub socket: Option<Socket>,
    /// The TLS listener, for clients with a trusted certificate; they may be a node of a name in it.
    pub network: Option<(TcpListener, Arc<Credentials>)>,
    /// Bounds of unauthenticated clients and of peers.
    pub limits: Limits,
}

/// The state that the server shares with the rest of the control plane.
#[derive(Clone)]
pub struct ServerState {
    /// The snapshot. Until there is one, no stream gets a response; streams end when the sender is gone.
    pub snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    /// The progress of nodes.
    pub registry: Arc<Registry>,
    /// The endpoint health that agents report.
    pub health: Arc<HealthRegistry>,
    /// The choice of a view for each node.
    pub views: Arc<dyn Views>,
    /// Takes the reports of gateways about themselves. Without it that service is not there.
    pub reports: Option<Arc<dyn ReportSink>>,
}

/// Serves the incremental aggregated discovery service, health reports and other reports of gateways, until `shutdown` is done and every
/// stream has ended.
pub async fn serve(
    listeners: Listeners,
    served: ServerState,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let (connections, incoming) = mpsc::channel(1);
    let limits = listeners.limits.clone();
    let peers = Peers::new(listeners.limits, served.registry.metrics.clone());
    let mut acceptors = JoinSet::new();
    let mut _file = None;
    if let Some(socket) = listeners.socket {
        let (listener, file) = socket.into_parts();
        _file = Some(file);
        acceptors.spawn(accept::accept_unix(listener, Arc::clone(&peers), connections.clone()));
    }
    if let Some((listener, credentials)) = listeners.network {
        acceptors.spawn(accept::accept_tls(listener, credentials, Arc::clone(&peers), connections.clone()));
    }
    drop(connections);
    let (registry, views) = (Arc::clone(&served.registry), Arc::clone(&served.views));
    let registries = (Arc::clone(&served.health), registry);
    let health = crate::health::service(registries, served.snapshots.clone(), Arc::clone(&views), limits.report);
    let reports = served
        .reports
        .clone()
        .map(|sink| crate::report::service(sink, views, served.snapshots.clone(), limits.activity))
        .map(|service| Admitted { service, introduction: limits.introduction });
    let service = ServiceFrame(DiscoveryServer { served, max_message: limits.message });
    let mut routes = Routes::builder();
    routes.add_service(Admitted { service, introduction: limits.introduction });
    routes.add_service(Admitted { service: health, introduction: limits.health_introduction });
    if let Some(reports) = reports {
        routes.add_service(reports);
    }
    let router = routes.routes().into_axum_router().fallback_service(UnknownPaths);
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_concurrent_streams(limits.streams_per_connection)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .http2_max_pending_accept_reset_streams(Some(MAX_RESETS))
        .http2_max_local_error_reset_streams(Some(MAX_RESETS))
        .add_routes(Routes::from(router))
        .serve_with_incoming_shutdown(ReceiverStream::new(incoming), shutdown)
        .await?;
    Ok(())
}
