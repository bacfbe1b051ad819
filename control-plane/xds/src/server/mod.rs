//! The gRPC server.

mod accept;
mod link;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
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

use crate::delta::DeltaStream;
use crate::kind::Kind;
use crate::peer::Peer;
use crate::registry::{Shared, lock};
use crate::sotw::SotwStream;
use crate::stream::{Conversation, NodeStream};
use crate::{Credentials, HealthRegistry, NodeInfo, Observer, Registry, Snapshot, Socket, View, Views};

/// Most bytes of one request: a reconnecting Envoy lists all that it has.
const MAX_REQUEST: usize = 64 * 1024 * 1024;
/// Responses that wait for a slow connection; more stay unmade.
const WAITING: usize = 8;
/// Longest id of a node.
const MAX_ID: usize = 256;
/// How often a silent connection is probed.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Why the server ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The transport failed.
    #[error("the xDS server failed")]
    Transport(#[from] tonic::transport::Error),
}

/// Where Envoys come in.
#[derive(Debug, Default)]
pub struct Doors {
    /// For processes of this machine that may use the socket; these may be any node.
    pub socket: Option<Socket>,
    /// For clients with a certificate of ours; these may be a node of a name in their certificate.
    pub network: Option<(TcpListener, Arc<Credentials>)>,
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

/// Serves the aggregated discovery service, in both its variants, and health reports, until `shutdown` is done and every
/// stream has ended.
pub async fn serve(doors: Doors, served: Served, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
    let (links, incoming) = mpsc::channel(1);
    let mut doormen = JoinSet::new();
    let mut _file = None;
    if let Some(socket) = doors.socket {
        let (listener, file) = socket.into_parts();
        _file = Some(file);
        doormen.spawn(accept::unix(listener, links.clone()));
    }
    if let Some((listener, credentials)) = doors.network {
        doormen.spawn(accept::tls(listener, credentials, links.clone()));
    }
    drop(links);
    let health = crate::health::service(Arc::clone(&served.health), served.snapshots.clone());
    let service = AggregatedDiscoveryServiceServer::new(Service { served })
        .max_decoding_message_size(MAX_REQUEST)
        .max_encoding_message_size(usize::MAX);
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .add_service(service)
        .add_service(health)
        .serve_with_incoming_shutdown(ReceiverStream::new(incoming), shutdown)
        .await?;
    Ok(())
}

struct Service {
    served: Served,
}

impl Service {
    fn start<C: Conversation>(&self, request: Request<Streaming<C::Request>>) -> Responses<C::Response> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let task = Task::<C> { served: self.served.clone(), peer: Peer::of(&request), responses: sender };
        tokio::spawn(task.run(request.into_inner()));
        ReceiverStream::new(receiver).boxed()
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = Responses<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Responses<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Ok(Response::new(self.start::<SotwStream>(request)))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        Ok(Response::new(self.start::<DeltaStream>(request)))
    }
}

/// One open stream.
struct Task<C: Conversation> {
    served: Served,
    peer: Peer,
    responses: mpsc::Sender<Result<C::Response, Status>>,
}

/// Takes a stream out of the registry when its task ends, however it does.
struct Entry {
    id: u64,
    registry: Arc<Registry>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.registry.close(self.id);
    }
}

impl<C: Conversation> Task<C> {
    async fn run<S>(self, requests: S)
    where
        S: Stream<Item = Result<C::Request, Status>> + Unpin,
    {
        if let Err(status) = self.converse(requests).await {
            // Whoever left needs no reason.
            let _ = self.responses.send(Err(status)).await;
        }
    }

    async fn converse<S>(&self, mut requests: S) -> Result<(), Status>
    where
        S: Stream<Item = Result<C::Request, Status>> + Unpin,
    {
        let Some(Ok(first)) = requests.next().await else { return Ok(()) };
        let node =
            C::node_of(&first).cloned().ok_or_else(|| Status::invalid_argument("say first which node this is"))?;
        let view = self.admit(&node)?;
        let mut snapshots = self.served.snapshots.clone();
        let of_view = |newest: &Option<Arc<Snapshot>>| newest.as_ref().and_then(|newest| newest.shared_view(&view));
        // Whoever leaves before there is anything to tell leaves nothing behind.
        let newest = tokio::select! {
            newest = snapshots.wait_for(|newest| of_view(newest).is_some()) => newest.map(|newest| of_view(&newest)),
            () = self.responses.closed() => return Ok(()),
        };
        let Ok(newest) = newest else { return Ok(()) };
        let stream = Arc::new(Mutex::new(C::new(newest.unwrap_or_default())));
        let (shared, registry): (Shared, _) = (stream.clone(), Arc::clone(&self.served.registry));
        let _entry = Entry { id: registry.open(shared, view.clone()), registry };
        let mut waiting = Some(first);
        let mut sync = Sync::default();
        loop {
            let request = async {
                match waiting.take() {
                    Some(first) => Some(Ok(first)),
                    None => requests.next().await,
                }
            };
            let responses = tokio::select! {
                request = request => match request {
                    Some(Ok(request)) => {
                        stays(&node, C::node_of(&request))?;
                        let mut stream = lock(&stream);
                        self.served.registry.observed.tell(|observer| count_answer::<C>(observer, &request));
                        log_refusal(&*stream, &request);
                        stream.on_request(request)
                    }
                    Some(Err(_)) | None => return Ok(()),
                },
                changed = snapshots.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let newest = of_view(&snapshots.borrow_and_update());
                    sync.is_newer = true;
                    newest.map(|newest| lock(&stream).on_snapshot(newest)).unwrap_or_default()
                }
            };
            let observed = &self.served.registry.observed;
            if sync.is_reached(&*lock(&stream)) {
                observed.tell(|observer| observer.caught_up(lock(&stream).snapshot_version()));
            }
            for response in responses {
                lock(&stream).log(&response);
                observed.tell(|observer| observer.sent(C::kind_of(&response).label()));
                if self.responses.send(Ok(response)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }

    /// Whether this peer may be that node, and what the node is told.
    fn admit(&self, node: &Node) -> Result<View, Status> {
        let id: String = node.id.chars().take(MAX_ID).collect();
        let turn_away = |reason: &str| self.served.registry.turn_away(&id, &self.peer.told(), reason);
        self.peer.may_be(&node.id).inspect_err(|status| turn_away(status.message()))?;
        if node.id.is_empty() || node.id.len() > MAX_ID {
            return Err(Status::invalid_argument("a node id has 1 to 256 bytes"));
        }
        self.served.views.view(&NodeInfo::of(node)).map_err(|reason| {
            turn_away(&reason);
            Status::failed_precondition(reason)
        })
    }
}

/// A stream is one node's.
fn stays(node: &Node, told: Option<&Node>) -> Result<(), Status> {
    match told {
        Some(told) if told.id != node.id => Err(Status::invalid_argument("the node id changed within a stream")),
        _ => Ok(()),
    }
}

/// Whether a node has all of the newest snapshot.
#[derive(Default)]
struct Sync {
    /// The version that it had all of last, if it still has.
    synced: Option<String>,
    /// Whether a snapshot came while it was connected.
    is_newer: bool,
}

impl Sync {
    /// Tells when the node has come to have all of a snapshot; gives whether that one came while it was connected.
    fn is_reached(&mut self, stream: &impl NodeStream) -> bool {
        let synced = stream.is_in_sync().then(|| stream.snapshot_version().to_owned());
        let is_reached = synced.is_some() && synced != self.synced;
        if is_reached {
            tracing::info!(node = stream.node(), snapshot = stream.snapshot_version(), "in sync");
        }
        self.synced = synced;
        is_reached && self.is_newer
    }
}

/// An answer to a response names its nonce.
fn count_answer<C: Conversation>(observer: &dyn Observer, request: &C::Request) {
    let Some(kind) = C::answered(request).map(Kind::label) else { return };
    match C::refusal(request) {
        Some(_) => observer.refused(kind),
        None => observer.acknowledged(kind),
    }
}

fn log_refusal<C: Conversation>(stream: &C, request: &C::Request) {
    if let Some(refusal) = C::refusal(request) {
        // Envoy quotes what it was sent, and secrets are among that.
        let error = portcullis_api::status::told(refusal.message);
        let (node, type_url) = (stream.node(), refusal.type_url);
        tracing::warn!(node, type_url, error, "refused by Envoy");
    }
}
