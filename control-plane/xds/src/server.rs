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
use crate::registry::{Shared, lock};
use crate::sotw::SotwStream;
use crate::stream::{Conversation, NodeStream};
use crate::{HealthRegistry, Registry, Snapshot, Socket};

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

/// Serves the aggregated discovery service, in both its variants, until `shutdown` is done and every stream has ended.
/// Streams end when the sender of `snapshots` is gone. What Envoys report about their endpoints goes to `health`. Until
/// there is a snapshot, nobody is answered.
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

impl Service {
    fn start<C: Conversation>(&self, requests: Streaming<C::Request>) -> Responses<C::Response> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let task = Task::<C> { registry: Arc::clone(&self.registry), responses: sender };
        tokio::spawn(task.run(requests, self.snapshots.clone()));
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
        Ok(Response::new(self.start::<SotwStream>(request.into_inner())))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        Ok(Response::new(self.start::<DeltaStream>(request.into_inner())))
    }
}

/// One open stream.
struct Task<C: Conversation> {
    registry: Arc<Registry>,
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
    async fn run<S>(self, mut requests: S, mut snapshots: watch::Receiver<Option<Arc<Snapshot>>>)
    where
        S: Stream<Item = Result<C::Request, Status>> + Unpin,
    {
        let Ok(first) = snapshots.wait_for(Option::is_some).await.map(|snapshot| snapshot.clone().unwrap_or_default())
        else {
            return;
        };
        let stream = Arc::new(Mutex::new(C::new(first)));
        let shared: Shared = stream.clone();
        let _entry = Entry { id: self.registry.open(shared), registry: Arc::clone(&self.registry) };
        let mut synced = None;
        loop {
            let responses = tokio::select! {
                request = requests.next() => match request {
                    Some(Ok(request)) => {
                        let mut stream = lock(&stream);
                        log_refusal(&*stream, &request);
                        stream.on_request(request)
                    }
                    Some(Err(_)) | None => return,
                },
                changed = snapshots.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let newest = snapshots.borrow_and_update().clone().unwrap_or_default();
                    lock(&stream).on_snapshot(newest)
                }
            };
            log_sync(&*lock(&stream), &mut synced);
            for response in responses {
                lock(&stream).log(&response);
                if self.responses.send(Ok(response)).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Tells when the node has acknowledged the whole of a snapshot.
fn log_sync(stream: &impl NodeStream, before: &mut Option<String>) {
    let synced = stream.is_in_sync().then(|| stream.snapshot_version().to_owned());
    if synced.is_some() && synced != *before {
        tracing::info!(node = stream.node(), snapshot = stream.snapshot_version(), "in sync");
    }
    *before = synced;
}

fn log_refusal<C: Conversation>(stream: &C, request: &C::Request) {
    if let Some(refusal) = C::refusal(request) {
        let (node, type_url, error) = (stream.node(), refusal.type_url, refusal.message);
        tracing::warn!(node, type_url, error, "refused by Envoy");
    }
}
