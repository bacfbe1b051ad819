//! The gRPC server.

mod accept;
mod connection;
mod guard;
mod limits;
mod link;
mod outgoing;
mod pending_handshakes;
mod task;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use futures_util::{Stream, StreamExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::{Credentials, HealthRegistry, Registry, Snapshot, Socket, Views};
use connection::Peers;
pub(crate) use connection::{Admission, admission};
use guard::Admitted;
pub use limits::{Limits, Rejection};
pub(crate) use outgoing::{QueuedResponse, ResponseStream};
use task::Task;

/// Responses that wait for a slow connection; more stay unmade.
const WAITING: usize = 1;
/// How often a silent connection is probed, and how long it may stay silent then.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(20);
/// Most bytes of a request's headers: gRPC sends few.
const HEADERS: u32 = 16 * 1024;
/// Streams that were reset before they were looked at, and those reset for a fault of the client: over it the connection
/// ends.
const RESETS: usize = 32;
/// The answer to a stream of the state-of-the-world variant. Envoy logs it.
const STATE_OF_THE_WORLD: &str = "Portcullis serves incremental xDS only: set api_type: DELTA_GRPC in \
    dynamic_resources.ads_config of this Envoy's bootstrap (`portcullis bootstrap` writes one)";

/// Why the server ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The transport failed.
    #[error("the xDS server failed")]
    Transport(#[from] tonic::transport::Error),
}

/// Where Envoys come in.
#[derive(Debug, Default)]
pub struct Listeners {
    /// For processes of this machine that may use the socket; these may be any node.
    pub socket: Option<Socket>,
    /// For clients with a certificate of ours; these may be a node of a name in their certificate.
    pub network: Option<(TcpListener, Arc<Credentials>)>,
    /// How much strangers and peers may have.
    pub limits: Limits,
}

/// What is served.
#[derive(Clone)]
pub struct Served {
    /// What Envoys may ask for. Until there is a snapshot, nobody is answered; streams end when the sender is gone.
    pub snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    /// Takes down where they stand.
    pub registry: Arc<Registry>,
    /// Takes down what they report about their endpoints.
    pub health: Arc<HealthRegistry>,
    /// Which view of the snapshot each of them gets.
    pub views: Arc<dyn Views>,
}

/// Serves the incremental aggregated discovery service and health reports, until `shutdown` is done and every
/// stream has ended.
pub async fn serve(doors: Listeners, served: Served, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
    let (links, incoming) = mpsc::channel(1);
    let limits = doors.limits.clone();
    let peers = Peers::new(doors.limits, served.registry.metrics.clone());
    let mut acceptors = JoinSet::new();
    let mut _file = None;
    if let Some(socket) = doors.socket {
        let (listener, file) = socket.into_parts();
        _file = Some(file);
        acceptors.spawn(accept::unix(listener, Arc::clone(&peers), links.clone()));
    }
    if let Some((listener, credentials)) = doors.network {
        acceptors.spawn(accept::tls(listener, credentials, Arc::clone(&peers), links.clone()));
    }
    drop(links);
    let health =
        crate::health::service(Arc::clone(&served.health), Arc::clone(&served.registry), served.snapshots.clone());
    let service = AggregatedDiscoveryServiceServer::new(Service { served })
        .max_decoding_message_size(limits.message)
        .max_encoding_message_size(usize::MAX);
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_ANSWER))
        .max_concurrent_streams(limits.streams_per_connection)
        .http2_max_header_list_size(HEADERS)
        .http2_max_pending_accept_reset_streams(Some(RESETS))
        .http2_max_local_error_reset_streams(Some(RESETS))
        .add_service(Admitted(service))
        .add_service(Admitted(health.max_decoding_message_size(limits.report)))
        .serve_with_incoming_shutdown(ReceiverStream::new(incoming), shutdown)
        .await?;
    Ok(())
}

struct Service {
    served: Served,
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = Responses<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Responses<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        _: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented(STATE_OF_THE_WORLD))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let (responses, queued) = mpsc::channel(WAITING);
        let admission = connection::admission(&request)?;
        let outgoing = ResponseStream::new(queued, Arc::clone(&admission));
        let task = Task { served: self.served.clone(), admission, responses };
        tokio::spawn(task.run(request.into_inner()));
        Ok(Response::new(outgoing.boxed()))
    }
}
