use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::service::health::v3::health_check_request_or_endpoint_health_response::RequestType;
use envoy_types::pb::envoy::service::health::v3::health_discovery_service_server::{
    HealthDiscoveryService, HealthDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::health::v3::{
    ClusterEndpointsHealth, EndpointHealthResponse, HealthCheckRequestOrEndpointHealthResponse, HealthCheckSpecifier,
};
use envoy_types::pb::google::protobuf::Duration;
use futures_util::{Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{Endpoints, HealthRegistry};
use crate::peer::Peer;

/// Most bytes of one report: ten thousand clusters with a few endpoints.
const MAX_REPORT: usize = 16 * 1024 * 1024;
/// Most clusters of one report; more are not read.
const MAX_CLUSTERS: usize = 20_000;
/// Longest name of a node or a cluster.
const MAX_NAME: usize = 1_024;
/// How often reports are wished.
const INTERVAL: Duration = Duration { seconds: 5, nanos: 0 };

/// The health discovery service, that keeps what it is told in `registry`. Its streams end when the sender of `life` is
/// gone.
pub(crate) fn service<T: Send + Sync + 'static>(
    registry: Arc<HealthRegistry>,
    life: watch::Receiver<T>,
) -> HealthDiscoveryServiceServer<impl HealthDiscoveryService> {
    HealthDiscoveryServiceServer::new(Service { registry, life }).max_decoding_message_size(MAX_REPORT)
}

struct Service<T> {
    registry: Arc<HealthRegistry>,
    life: watch::Receiver<T>,
}

#[tonic::async_trait]
impl<T: Send + Sync + 'static> HealthDiscoveryService for Service<T> {
    type StreamHealthCheckStream = Pin<Box<dyn Stream<Item = Result<HealthCheckSpecifier, Status>> + Send>>;

    async fn stream_health_check(
        &self,
        request: Request<Streaming<HealthCheckRequestOrEndpointHealthResponse>>,
    ) -> Result<Response<Self::StreamHealthCheckStream>, Status> {
        let (sender, receiver) = mpsc::channel(1);
        // Nothing is to be checked for us: Envoy's own checks are what we want to hear of.
        let wish = HealthCheckSpecifier { interval: Some(INTERVAL), ..Default::default() };
        // There is room for one message.
        let _ = sender.try_send(Ok(wish));
        let (registry, mut life) = (Arc::clone(&self.registry), self.life.clone());
        let peer = Peer::of(&request);
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = listen(request.into_inner(), &peer, &registry, &sender) => ended,
                () = async { while life.changed().await.is_ok() {} } => Ok(()),
            };
            if let Err(status) = ended {
                // Whoever left needs no reason.
                let _ = sender.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver).boxed()))
    }

    async fn fetch_health_check(
        &self,
        _: Request<HealthCheckRequestOrEndpointHealthResponse>,
    ) -> Result<Response<HealthCheckSpecifier>, Status> {
        Err(Status::unimplemented("use StreamHealthCheck"))
    }
}

/// Takes reports until the stream ends, on either side.
pub(super) async fn listen(
    mut messages: impl Stream<Item = Result<HealthCheckRequestOrEndpointHealthResponse, Status>> + Unpin,
    peer: &Peer,
    registry: &HealthRegistry,
    answers: &mpsc::Sender<Result<HealthCheckSpecifier, Status>>,
) -> Result<(), Status> {
    let mut node = None;
    loop {
        let message = tokio::select! {
            message = messages.next() => message,
            () = answers.closed() => None,
        };
        let Some(Ok(message)) = message else { return Ok(()) };
        match message.request_type {
            Some(RequestType::HealthCheckRequest(request)) => {
                let id = request.node.map(|node| node.id).unwrap_or_default();
                peer.may_be(&id)?;
                node = (!id.is_empty() && id.len() <= MAX_NAME).then_some(id);
            }
            Some(RequestType::EndpointHealthResponse(report)) => {
                let node = node.as_deref().ok_or_else(|| Status::invalid_argument("say first which node this is"))?;
                registry.record(node, read(&report), Instant::now());
            }
            None => {}
        }
    }
}

/// Counts the endpoints of each cluster.
pub(super) fn read(report: &EndpointHealthResponse) -> BTreeMap<String, Endpoints> {
    let clusters = report.cluster_endpoints_health.iter().filter(|cluster| cluster.cluster_name.len() <= MAX_NAME);
    clusters.take(MAX_CLUSTERS).map(|cluster| (cluster.cluster_name.clone(), count(cluster))).collect()
}

fn count(cluster: &ClusterEndpointsHealth) -> Endpoints {
    let endpoints = cluster.locality_endpoints_health.iter().flat_map(|locality| &locality.endpoints_health);
    endpoints.fold(Endpoints::default(), |count, endpoint| Endpoints {
        // Envoy sends requests to degraded ones, if there are no better.
        healthy: count.healthy
            + u32::from(matches!(endpoint.health_status(), HealthStatus::Healthy | HealthStatus::Degraded)),
        total: count.total + 1,
    })
}
