use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::service::health::v3::health_check_request_or_endpoint_health_response::RequestType;
use envoy_types::pb::envoy::service::health::v3::health_discovery_service_server::SERVICE_NAME;
use envoy_types::pb::envoy::service::health::v3::{
    ClusterEndpointsHealth, EndpointHealthResponse, HealthCheckRequest, HealthCheckRequestOrEndpointHealthResponse,
    HealthCheckSpecifier,
};
use futures_util::{Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, http};

use super::acknowledgements::{self, MAX_ENTRIES};
use super::acknowledgements::{AnswerSender, REPORT_INTERVAL, Snapshots};
use super::answer_turns::AnswerTurns;
use super::{AckStates, Endpoints, HealthRegistry, MAX_UNHEALTHY_SERVERS, UnhealthyServer};
use crate::admission::{Admission, QueuedResponse, ResponseRoom, ResponseStream};
use crate::bounded_message::FieldBounds;
use crate::limits::Rejection;
use crate::message_reader::MessageReader;
use crate::node::{NodeInfo, Unserved, View, Views};
use crate::node_name::{is_of_gateway, node_name};
use crate::registry::Registry;
use crate::service_frame::{ReadyService, ServiceFrame, answer_of};
use crate::snapshot::Snapshot;

/// The number of clusters that are read of one report.
const MAX_CLUSTERS: usize = 20_000;
/// The number of servers that one report may name; the others are only counted.
const MAX_NAMED_SERVERS: usize = 2_000;
/// The length limit of the name of a node or a cluster.
const MAX_NAME_LENGTH: usize = 1_024;

/// The health discovery service, as the server calls it. It is not the generated one, which decodes whatever fits into a message.
#[derive(Clone)]
pub(crate) struct HealthServer {
    streams: HealthStreams,
    max_message: usize,
}

/// The health discovery service, which keeps the reports in `registry`. `max_message` bounds one of them. Its streams end when the
/// sender of `snapshots` is gone.
pub(crate) fn service(
    (registry, nodes): (Arc<HealthRegistry>, Arc<Registry>),
    snapshots: Snapshots,
    views: Arc<dyn Views>,
    max_message: usize,
) -> ServiceFrame<HealthServer> {
    let streams = HealthStreams { registry, nodes, snapshots, views, turns: Arc::default() };
    ServiceFrame(HealthServer { streams, max_message })
}

impl ReadyService for HealthServer {
    const NAME: &'static str = SERVICE_NAME;

    fn answer(&self, request: http::Request<Body>) -> BoxFuture<http::Response<Body>, Infallible> {
        let is_stream = request.uri().path().rsplit('/').next() == Some("StreamHealthCheck");
        let admission = request.extensions().get::<Arc<Admission>>().cloned();
        let (Some(admission), true) = (admission, is_stream) else {
            let refusal = Status::unimplemented("use StreamHealthCheck").into_http();
            return Box::pin(std::future::ready(Ok(refusal)));
        };
        let (body, bounds) = (request.into_body(), Some(FieldBounds::HEALTH));
        let messages = MessageReader::new(body, self.max_message, bounds, Arc::clone(&admission));
        Box::pin(std::future::ready(Ok(answer_of(self.streams.open(admission, messages)))))
    }
}

/// The only method.
#[derive(Clone)]
struct HealthStreams {
    registry: Arc<HealthRegistry>,
    nodes: Arc<Registry>,
    snapshots: Snapshots,
    views: Arc<dyn Views>,
    turns: Arc<AnswerTurns>,
}

impl HealthStreams {
    fn open(
        &self,
        admission: Arc<Admission>,
        messages: MessageReader<HealthCheckRequestOrEndpointHealthResponse>,
    ) -> ResponseStream<HealthCheckSpecifier> {
        let (sender, receiver) = mpsc::channel(1);
        // Nothing to check: the reports are about Envoy's own health checks.
        let specifier = HealthCheckSpecifier { interval: Some(REPORT_INTERVAL), ..Default::default() };
        // There is room for one message.
        let _ = sender.try_send(QueuedResponse { content: Ok(specifier), room: ResponseRoom::default() });
        let (registry, mut life) = (Arc::clone(&self.registry), self.snapshots.clone());
        let answers = ResponseStream::new(receiver, Arc::clone(&admission));
        let (named, name) = watch::channel(String::new());
        let mut answer_sender = AnswerSender::new(
            Arc::clone(&self.nodes),
            self.snapshots.clone(),
            Arc::clone(&self.turns),
            Arc::clone(&admission),
        );
        let (snapshots, views) = (self.snapshots.clone(), Arc::clone(&self.views));
        let stream = HealthStream { registry, snapshots, admission, named, views };
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = stream.listen(messages) => ended,
                () = sender.closed() => return,
                () = answer_sender.run(name, &sender) => return,
                () = async { while life.changed().await.is_ok() {} } => Ok(()),
            };
            if let Err(status) = ended {
                // A closed stream needs no reason.
                let _ = sender.send(QueuedResponse { content: Err(status), room: ResponseRoom::default() }).await;
            }
        });
        answers
    }
}

/// Takes the reports of one stream.
pub(super) struct HealthStream {
    pub(super) registry: Arc<HealthRegistry>,
    pub(super) snapshots: Snapshots,
    pub(super) admission: Arc<Admission>,
    /// The node's name, once it is known, if it belongs to no Gateway.
    pub(super) named: watch::Sender<String>,
    pub(super) views: Arc<dyn Views>,
}

/// The node of a stream.
#[derive(PartialEq, Eq)]
struct ReportingNode {
    name: String,
    /// The views about whose clusters it may report; `None` are all.
    views: Option<Vec<View>>,
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
        // Acknowledgements of a Gateway's Envoy are no other replica's matter.
        let repeats = !is_of_gateway(&node.name);
        if repeats {
            self.named.send_replace(node.name.clone());
        }
        while let Some(Ok(message)) = messages.next().await {
            match message.request_type {
                Some(RequestType::HealthCheckRequest(again)) => {
                    let start = Instant::now();
                    self.is_still(&node, again)?;
                    self.admission.worked(start.elapsed());
                }
                Some(RequestType::EndpointHealthResponse(report)) => {
                    let start = Instant::now();
                    let views = node.views.as_deref();
                    self.registry.record_within(&node.name, self.read(&report, views), node.views.clone(), start);
                    if repeats {
                        self.registry.answered(&node.name, self.answers(&report, views));
                    }
                    drop(report);
                    let rest: Duration = self.admission.worked(start.elapsed());
                    let _time = self.admission.process_time();
                    tokio::time::sleep(limits.report_pause.max(rest)).await;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_still(&self, node: &ReportingNode, again: HealthCheckRequest) -> Result<(), Status> {
        let is_same = self.node(again)? == *node;
        is_same.then_some(()).ok_or_else(|| Status::invalid_argument("the node id changed within a stream"))
    }

    /// The node of a request, if the peer may be that node and report.
    fn node(&self, request: HealthCheckRequest) -> Result<ReportingNode, Status> {
        let node = request.node.unwrap_or_default();
        self.admission.check_node(&node.id, MAX_NAME_LENGTH)?;
        let info = NodeInfo::of(&node, self.admission.peer().membership());
        let scope = self.views.reported(&info).map_err(|(Unserved::Frozen(why) | Unserved::Foreign(why))| {
            self.admission.rejected(Rejection::Node);
            Status::permission_denied(why)
        })?;
        Ok(ReportingNode { name: node_name(&scope.membership, &info.id), views: scope.views })
    }

    fn answers(&self, report: &EndpointHealthResponse, views: Option<&[View]>) -> AckStates {
        let served = self.snapshots.borrow().clone();
        let is_known = |served: &Snapshot, owner: &str| served.within(views).any(|view| view.has_owner(owner));
        served.map(|served| acknowledgements::read(report, |owner| is_known(&served, owner))).unwrap_or_default()
    }

    /// Counts the endpoints of each cluster of these views.
    pub(super) fn read(&self, report: &EndpointHealthResponse, views: Option<&[View]>) -> BTreeMap<String, Endpoints> {
        let Some(served) = self.snapshots.borrow().clone() else { return BTreeMap::new() };
        let clusters = report.cluster_endpoints_health.iter().take(MAX_CLUSTERS + MAX_ENTRIES);
        let is_known = |name: &str| served.within(views).any(|view| view.has_cluster(name));
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
