use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use futures_util::{Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status, Streaming};

use crate::delta::DeltaStream;
use crate::kind::Kind;
use crate::registry::{Shared, lock};
use crate::stream::NodeStream;
use crate::{HealthRegistry, Observer, Registry, Snapshot, Socket};

/// Most bytes of one request: a reconnecting Envoy lists all that it has.
const MAX_REQUEST: usize = 64 * 1024 * 1024;
/// Responses that wait for a slow connection; more stay unmade.
const WAITING: usize = 8;
/// How often a silent connection is probed.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Why the server ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The transport failed.
    #[error("the xDS server failed")]
    Transport(#[from] tonic::transport::Error),
}

/// Serves the aggregated discovery service, incremental variant, until `shutdown` is done and every stream has ended.
/// Streams end when the sender of `snapshots` is gone. What Envoys report about their endpoints goes to `health`. Until there is a snapshot, nobody is answered.
pub async fn serve(
    socket: Socket,
    snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    registry: Arc<Registry>,
    health: Arc<HealthRegistry>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let (listener, _file) = socket.into_parts();
    let health = crate::health::service(health, snapshots.clone());
    let service = AggregatedDiscoveryServiceServer::new(Service { snapshots, registry })
        .max_decoding_message_size(MAX_REQUEST)
        .max_encoding_message_size(usize::MAX);
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .add_service(service)
        .add_service(health)
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), shutdown)
        .await?;
    Ok(())
}

struct Service {
    snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    registry: Arc<Registry>,
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
        Err(Status::unimplemented("use DELTA_GRPC"))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let conversation = Conversation { registry: Arc::clone(&self.registry), responses: sender };
        tokio::spawn(conversation.run(request.into_inner(), self.snapshots.clone()));
        Ok(Response::new(ReceiverStream::new(receiver).boxed()))
    }
}

/// One open stream.
struct Conversation {
    registry: Arc<Registry>,
    responses: mpsc::Sender<Result<DeltaDiscoveryResponse, Status>>,
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

impl Conversation {
    async fn run<S>(self, mut requests: S, mut snapshots: watch::Receiver<Option<Arc<Snapshot>>>)
    where
        S: Stream<Item = Result<DeltaDiscoveryRequest, Status>> + Unpin,
    {
        let Ok(first) = snapshots.wait_for(Option::is_some).await.map(|snapshot| snapshot.clone().unwrap_or_default())
        else {
            return;
        };
        let stream = Arc::new(Mutex::new(DeltaStream::new(first)));
        let shared: Shared = stream.clone();
        let _entry = Entry { id: self.registry.open(shared), registry: Arc::clone(&self.registry) };
        let mut sync = Sync::default();
        loop {
            let responses = tokio::select! {
                request = requests.next() => match request {
                    Some(Ok(request)) => {
                        let mut stream = lock(&stream);
                        self.registry.observed.tell(|observer| count_answer(observer, &request));
                        log_refusal(&stream, &request);
                        stream.on_request(request)
                    }
                    Some(Err(_)) | None => return,
                },
                changed = snapshots.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let newest = snapshots.borrow_and_update().clone().unwrap_or_default();
                    sync.is_newer = true;
                    lock(&stream).on_snapshot(newest)
                }
            };
            if sync.is_reached(&lock(&stream)) {
                self.registry.observed.tell(|observer| observer.caught_up(lock(&stream).snapshot_version()));
            }
            for response in responses {
                log_response(&lock(&stream), &response);
                self.registry.observed.tell(|observer| observer.sent(Kind::of(&response.type_url).label()));
                if self.responses.send(Ok(response)).await.is_err() {
                    return;
                }
            }
        }
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
    fn is_reached(&mut self, stream: &DeltaStream) -> bool {
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
fn count_answer(observer: &dyn Observer, request: &DeltaDiscoveryRequest) {
    let kind = Kind::of(&request.type_url).label();
    match &request.error_detail {
        Some(_) => observer.refused(kind),
        None if !request.response_nonce.is_empty() => observer.acknowledged(kind),
        None => {}
    }
}

fn log_refusal(stream: &DeltaStream, request: &DeltaDiscoveryRequest) {
    if let Some(error) = &request.error_detail {
        // Envoy quotes what it was sent, and secrets are among that.
        let error = portcullis_api::status::told(&error.message);
        tracing::warn!(node = stream.node(), type_url = request.type_url, error, "refused by Envoy");
    }
}

fn log_response(stream: &DeltaStream, response: &DeltaDiscoveryResponse) {
    tracing::debug!(
        node = stream.node(),
        type_url = response.type_url,
        nonce = response.nonce,
        resources = response.resources.len(),
        removed = response.removed_resources.len(),
        "sent"
    );
}
