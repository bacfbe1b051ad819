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
    ClusterEndpointsHealth, EndpointHealthResponse, HealthCheckRequest, HealthCheckRequestOrEndpointHealthResponse,
    HealthCheckSpecifier,
};
use futures_util::{Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tonic::{Request, Response, Status, Streaming};

use super::answer_sender::{AnswerSender, INTERVAL, Snapshots};
use super::relay::{self, MAX_ENTRIES};
use super::{Answers, Endpoints, HealthRegistry, MAX_UNHEALTHY_SERVERS, UnhealthyServer};
use crate::{Admission, QueuedResponse, Registry, Rejection, ResponseStream, admission};

/// Most clusters of one report; more are not read.
const MAX_CLUSTERS: usize = 20_000;
/// Most servers that one report names; the others are only counted.
const MAX_NAMED: usize = 2_000;
/// Longest name of a node or a cluster.
const MAX_NAME: usize = 1_024;

/// The health discovery service, that keeps what it is told in `registry`. Its streams end when the sender of `snapshots`
/// is gone.
pub(crate) fn service(
    registry: Arc<HealthRegistry>,
    nodes: Arc<Registry>,
    snapshots: Snapshots,
) -> HealthDiscoveryServiceServer<impl HealthDiscoveryService> {
    HealthDiscoveryServiceServer::new(Service { registry, nodes, snapshots })
}

struct Service {
    registry: Arc<HealthRegistry>,
    nodes: Arc<Registry>,
    snapshots: Snapshots,
}

#[tonic::async_trait]
impl HealthDiscoveryService for Service {
    type StreamHealthCheckStream = Pin<Box<dyn Stream<Item = Result<HealthCheckSpecifier, Status>> + Send>>;

    async fn stream_health_check(
        &self,
        request: Request<Streaming<HealthCheckRequestOrEndpointHealthResponse>>,
    ) -> Result<Response<Self::StreamHealthCheckStream>, Status> {
        let admission = admission(&request)?;
        let (sender, receiver) = mpsc::channel(1);
        // Nothing is to be checked for us: Envoy's own checks are what we want to hear of.
        let wish = HealthCheckSpecifier { interval: Some(INTERVAL), ..Default::default() };
        // There is room for one message.
        let _ = sender.try_send(QueuedResponse { content: Ok(wish), room: None });
        let (registry, mut life) = (Arc::clone(&self.registry), self.snapshots.clone());
        let answers = ResponseStream::new(receiver, Arc::clone(&admission));
        let (named, name) = watch::channel(String::new());
        let ear = HealthStream { registry, snapshots: self.snapshots.clone(), admission, named };
        let mut answer_sender = AnswerSender::new(Arc::clone(&self.nodes), self.snapshots.clone());
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = ear.listen(request.into_inner()) => ended,
                () = sender.closed() => return,
                () = answer_sender.say(name, &sender) => return,
                () = async { while life.changed().await.is_ok() {} } => Ok(()),
            };
            if let Err(status) = ended {
                // Whoever left needs no reason.
                let _ = sender.send(QueuedResponse { content: Err(status), room: None }).await;
            }
        });
        Ok(Response::new(answers.boxed()))
    }

    async fn fetch_health_check(
        &self,
        _: Request<HealthCheckRequestOrEndpointHealthResponse>,
    ) -> Result<Response<HealthCheckSpecifier>, Status> {
        Err(Status::unimplemented("use StreamHealthCheck"))
    }
}

/// Takes the reports of one stream.
pub(super) struct HealthStream {
    pub(super) registry: Arc<HealthRegistry>,
    pub(super) snapshots: Snapshots,
    pub(super) admission: Arc<Admission>,
    /// Where the node's id is told, once it is known.
    pub(super) named: watch::Sender<String>,
}

impl HealthStream {
    /// Takes reports until the stream ends.
    pub(super) async fn listen(
        &self,
        mut messages: impl Stream<Item = Result<HealthCheckRequestOrEndpointHealthResponse, Status>> + Unpin,
    ) -> Result<(), Status> {
        let limits = self.admission.limits();
        let Ok(first) = tokio::time::timeout(limits.idle, messages.next()).await else {
            self.admission.rejected(Rejection::Idle);
            return Err(Status::deadline_exceeded("say which node this is"));
        };
        let Some(Ok(first)) = first else { return Ok(()) };
        let Some(RequestType::HealthCheckRequest(first)) = first.request_type else {
            return Err(Status::invalid_argument("say first which node this is"));
        };
        let node = self.node(first)?;
        self.admission.admit();
        self.named.send_replace(node.clone());
        while let Some(Ok(message)) = messages.next().await {
            match message.request_type {
                Some(RequestType::HealthCheckRequest(again)) => self.is_still(&node, again)?,
                Some(RequestType::EndpointHealthResponse(report)) => {
                    let counts = self.read(&report);
                    self.registry.record(&node, counts, Instant::now());
                    self.registry.answered(&node, self.answers(&report));
                    tokio::time::sleep(limits.report_pause).await;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_still(&self, node: &str, again: HealthCheckRequest) -> Result<(), Status> {
        let is_same = self.node(again)? == node;
        is_same.then_some(()).ok_or_else(|| Status::invalid_argument("the node id changed within a stream"))
    }

    /// The node that somebody says to be, if it may be that one.
    fn node(&self, request: HealthCheckRequest) -> Result<String, Status> {
        let id = request.node.map(|node| node.id).unwrap_or_default();
        self.admission.peer().may_be(&id).inspect_err(|_| self.admission.rejected(Rejection::Node))?;
        if id.is_empty() || id.len() > MAX_NAME {
            return Err(Status::invalid_argument("a node id has 1 to 1024 bytes"));
        }
        Ok(id)
    }

    fn answers(&self, report: &EndpointHealthResponse) -> Answers {
        let served = self.snapshots.borrow().clone();
        served.map(|served| relay::read(report, &served)).unwrap_or_default()
    }

    /// Counts the endpoints of each cluster that is served.
    pub(super) fn read(&self, report: &EndpointHealthResponse) -> BTreeMap<String, Endpoints> {
        let Some(served) = self.snapshots.borrow().clone() else { return BTreeMap::new() };
        let clusters = report.cluster_endpoints_health.iter().take(MAX_CLUSTERS + MAX_ENTRIES);
        let known = clusters.filter(|cluster| served.has_cluster(&cluster.cluster_name));
        let mut room = MAX_NAMED;
        known.map(|cluster| (cluster.cluster_name.clone(), count(cluster, &mut room))).collect()
    }
}

/// Counts a cluster's endpoints and takes the names of those that are not healthy, as long as there is room for names.
fn count(cluster: &ClusterEndpointsHealth, room: &mut usize) -> Endpoints {
    let endpoints = || cluster.locality_endpoints_health.iter().flat_map(|locality| &locality.endpoints_health);
    let named = endpoints().filter_map(UnhealthyServer::of).take(MAX_UNHEALTHY_SERVERS.min(*room));
    let unhealthy: Vec<_> = named.collect();
    *room = room.saturating_sub(unhealthy.len());
    endpoints().fold(Endpoints { unhealthy, ..Endpoints::default() }, |count, endpoint| Endpoints {
        // Envoy sends requests to degraded ones, if there are no better.
        healthy: count.healthy
            + u32::from(matches!(endpoint.health_status(), HealthStatus::Healthy | HealthStatus::Degraded)),
        total: count.total + 1,
        ..count
    })
}
