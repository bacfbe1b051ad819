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

use super::acknowledgements::{self, MAX_ENTRIES};
use super::acknowledgements::{AnswerSender, REPORT_INTERVAL, Snapshots};
use super::{AckStates, Endpoints, HealthRegistry, MAX_UNHEALTHY_SERVERS, UnhealthyServer};
use crate::admission::{Admission, QueuedResponse, ResponseStream, admission};
use crate::node::{View, Views};
use crate::registry::Registry;
use crate::snapshot::Snapshot;

/// The number of clusters that are read of one report.
const MAX_CLUSTERS: usize = 20_000;
/// The number of servers that one report may name; the others are only counted.
const MAX_NAMED_SERVERS: usize = 2_000;
/// The length limit of the name of a node or a cluster.
const MAX_NAME_LENGTH: usize = 1_024;

/// The health discovery service, which keeps the reports in `registry`. Its streams end when the sender of `snapshots` is gone.
pub(crate) fn service(
    registry: Arc<HealthRegistry>,
    nodes: Arc<Registry>,
    snapshots: Snapshots,
    views: Arc<dyn Views>,
) -> HealthDiscoveryServiceServer<impl HealthDiscoveryService> {
    HealthDiscoveryServiceServer::new(Service { registry, nodes, snapshots, views })
}

struct Service {
    registry: Arc<HealthRegistry>,
    nodes: Arc<Registry>,
    snapshots: Snapshots,
    views: Arc<dyn Views>,
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
        // Nothing to check: the reports are about Envoy's own health checks.
        let specifier = HealthCheckSpecifier { interval: Some(REPORT_INTERVAL), ..Default::default() };
        // There is room for one message.
        let _ = sender.try_send(QueuedResponse { content: Ok(specifier), room: Vec::new() });
        let (registry, mut life) = (Arc::clone(&self.registry), self.snapshots.clone());
        let answers = ResponseStream::new(receiver, Arc::clone(&admission));
        let (named, name) = watch::channel(String::new());
        let reported = self.views.reported(&admission.peer().membership());
        let stream = HealthStream { registry, snapshots: self.snapshots.clone(), admission, named, reported };
        let mut answer_sender = AnswerSender::new(Arc::clone(&self.nodes), self.snapshots.clone());
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = stream.listen(request.into_inner()) => ended,
                () = sender.closed() => return,
                () = answer_sender.run(name, &sender) => return,
                () = async { while life.changed().await.is_ok() {} } => Ok(()),
            };
            if let Err(status) = ended {
                // A closed stream needs no reason.
                let _ = sender.send(QueuedResponse { content: Err(status), room: Vec::new() }).await;
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
    /// The node's name, once it is known.
    pub(super) named: watch::Sender<String>,
    /// The views about whose clusters it may report; `None` are all.
    pub(super) reported: Option<Vec<View>>,
}

impl HealthStream {
    /// Takes reports until the stream ends.
    pub(super) async fn listen(
        &self,
        mut messages: impl Stream<Item = Result<HealthCheckRequestOrEndpointHealthResponse, Status>> + Unpin,
    ) -> Result<(), Status> {
        let limits = self.admission.limits();
        let Some(first) = self.admission.first_message(&mut messages).await? else { return Ok(()) };
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
                    self.registry.record_within(&node, counts, self.reported.clone(), Instant::now());
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

    /// The name of a request's node, if the peer may be that node.
    fn node(&self, request: HealthCheckRequest) -> Result<String, Status> {
        let id = request.node.map(|node| node.id).unwrap_or_default();
        self.admission.check_node(&id, MAX_NAME_LENGTH)
    }

    fn answers(&self, report: &EndpointHealthResponse) -> AckStates {
        let served = self.snapshots.borrow().clone();
        let views = self.reported.as_deref();
        let is_known = |served: &Snapshot, owner: &str| served.within(views).any(|view| view.has_owner(owner));
        served.map(|served| acknowledgements::read(report, |owner| is_known(&served, owner))).unwrap_or_default()
    }

    /// Counts the endpoints of each cluster that is served to gateways like this one.
    pub(super) fn read(&self, report: &EndpointHealthResponse) -> BTreeMap<String, Endpoints> {
        let Some(served) = self.snapshots.borrow().clone() else { return BTreeMap::new() };
        let clusters = report.cluster_endpoints_health.iter().take(MAX_CLUSTERS + MAX_ENTRIES);
        let is_known = |name: &str| served.within(self.reported.as_deref()).any(|view| view.has_cluster(name));
        let known = clusters.filter(|cluster| is_known(&cluster.cluster_name));
        let mut room = MAX_NAMED_SERVERS;
        known.map(|cluster| (cluster.cluster_name.clone(), count(cluster, &mut room))).collect()
    }
}

/// Counts a cluster's endpoints and takes the names of those that are not healthy, as long as there is room for names.
fn count(cluster: &ClusterEndpointsHealth, room: &mut usize) -> Endpoints {
    let endpoints = || cluster.locality_endpoints_health.iter().flat_map(|locality| &locality.endpoints_health);
    let named = endpoints().filter_map(UnhealthyServer::from_report).take(MAX_UNHEALTHY_SERVERS.min(*room));
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
