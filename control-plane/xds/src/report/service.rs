use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use portcullis_filter_config::NODE_GATEWAY;
use portcullis_report::{EXCHANGE_LIMITS, EnvoyOfGateway, ReportRequest, ReportResponse, SERVICE, STREAM_REPORTS};
use tokio::sync::{mpsc, watch};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, http};
use tonic::{Code, Status};

use super::{GatewayReport, ReportSink, UnreadableReport};
use crate::admission::{Admission, QueuedResponse, ResponseRoom, ResponseStream, admission};
use crate::limits::Rejection;
use crate::membership::Membership;
use crate::message_reader::MessageReader;
use crate::node::{NodeInfo, Unserved, Views};
use crate::node_name::node_name;
use crate::service_frame::{ReadyService, ServiceFrame, answer_of};
use crate::snapshot::Snapshot;

/// Longest id of a node.
const MAX_NODE: usize = 256;
/// Longest name of an instance: a DNS label.
const MAX_INSTANCE: usize = 63;
/// Longest name of a Gateway, with that of its namespace.
const MAX_GATEWAY: usize = 317;

/// The report service, which hands reports to `sink`, of nodes that may report by `views`. `max_message` bounds one of them. Its streams
/// end when the sender of `life` is gone.
pub(crate) fn service(
    sink: Arc<dyn ReportSink>,
    views: Arc<dyn Views>,
    life: watch::Receiver<Option<Arc<Snapshot>>>,
    max_message: usize,
) -> ServiceFrame<ReportServer> {
    ServiceFrame(ReportServer { streams: Streams { sink, views, life, are_exchanges: false }, max_message })
}

/// The service, as the server calls it.
#[derive(Clone)]
pub(crate) struct ReportServer {
    streams: Streams,
    max_message: usize,
}

impl ReadyService for ReportServer {
    const NAME: &'static str = SERVICE;

    fn answer(&self, request: http::Request<Body>) -> BoxFuture<http::Response<Body>, Infallible> {
        let are_exchanges = match request.uri().path() {
            STREAM_REPORTS => false,
            EXCHANGE_LIMITS => true,
            _ => {
                let refusal = Status::new(Code::Unimplemented, "use StreamReports or ExchangeLimits").into_http();
                return Box::pin(std::future::ready(Ok(refusal)));
            }
        };
        let streams = Streams { are_exchanges, ..self.streams.clone() };
        let opened = admission(&request).map(|admission| {
            let messages = MessageReader::new(request.into_body(), self.max_message, None, Arc::clone(&admission));
            answer_of(streams.open(admission, messages))
        });
        Box::pin(std::future::ready(Ok(opened.unwrap_or_else(Status::into_http))))
    }
}

/// The methods. An exchange is a stream of one message each way.
#[derive(Clone)]
struct Streams {
    sink: Arc<dyn ReportSink>,
    views: Arc<dyn Views>,
    life: watch::Receiver<Option<Arc<Snapshot>>>,
    are_exchanges: bool,
}

impl Streams {
    fn open(
        &self,
        admission: Arc<Admission>,
        messages: MessageReader<ReportRequest>,
    ) -> ResponseStream<ReportResponse> {
        let (sender, receiver) = mpsc::channel(1);
        let responses = ResponseStream::new(receiver, Arc::clone(&admission));
        let (sink, views) = (Arc::clone(&self.sink), Arc::clone(&self.views));
        let (mut life, is_exchange) = (self.life.clone(), self.are_exchanges);
        tokio::spawn(async move {
            let stream = GatewayStream { sink, views, admission, responses: sender.clone() };
            let take =
                async { if is_exchange { stream.exchange(messages).await } else { stream.listen(messages).await } };
            let ended = tokio::select! {
                ended = take => ended,
                () = sender.closed() => return,
                () = async { while life.changed().await.is_ok() {} } => Ok(()),
            };
            if let Err(status) = ended {
                // A closed stream needs no reason.
                let _ = sender.send(QueuedResponse { content: Err(status), room: ResponseRoom::default() }).await;
            }
        });
        responses
    }
}

/// The node of a stream.
struct ReportingNode {
    /// Its id in the messages; empty of an Envoy of a Gateway.
    id: String,
    /// Its names in the messages, of an Envoy of a Gateway.
    of_gateway: Option<EnvoyOfGateway>,
    name: String,
    membership: Membership,
}

impl ReportingNode {
    /// Whether a later message is of this node: it says nothing else.
    fn is_of(&self, message: &ReportRequest) -> bool {
        let is_silent = message.node.is_empty() && message.of_gateway.is_none();
        is_silent || (message.node == self.id && message.of_gateway == self.of_gateway)
    }
}

/// Takes the reports of one stream.
pub(super) struct GatewayStream {
    pub(super) sink: Arc<dyn ReportSink>,
    pub(super) views: Arc<dyn Views>,
    pub(super) admission: Arc<Admission>,
    pub(super) responses: mpsc::Sender<QueuedResponse<ReportResponse>>,
}

impl GatewayStream {
    /// Takes reports until the stream ends.
    pub(super) async fn listen(
        &self,
        mut messages: impl Stream<Item = Result<ReportRequest, Status>> + Unpin,
    ) -> Result<(), Status> {
        let Some(first) = self.admission.first_message(&mut messages).await? else { return Ok(()) };
        let node = self.node(&first)?;
        self.admission.admit();
        let mut next = Some(Ok(first));
        while let Some(message) = next {
            let time = self.admission.process_time();
            let (limits, pause) = self.take(&node, message.inspect_err(|status| self.count(status))?).await?;
            self.acknowledge(limits).await?;
            tokio::time::sleep(pause).await;
            drop(time);
            next = messages.next().await;
        }
        Ok(())
    }

    /// Takes one report of the use of limits, and answers it.
    pub(super) async fn exchange(
        &self,
        mut messages: impl Stream<Item = Result<ReportRequest, Status>> + Unpin,
    ) -> Result<(), Status> {
        let message = self.admission.only_message(&mut messages).await.inspect_err(|status| self.count(status))?;
        let Some(message) = message else { return Ok(()) };
        let node = self.node(&message)?;
        self.admission.admit();
        if message.limits.is_empty() || !message.content.is_empty() {
            return Err(Status::invalid_argument("an exchange is about limits alone"));
        }
        let (limits, _) = self.take(&node, message).await?;
        self.acknowledge(limits).await
    }

    /// The node of the first message, if the peer may be that node and report.
    fn node(&self, message: &ReportRequest) -> Result<ReportingNode, Status> {
        let (of_gateway, id) = (message.of_gateway.clone(), message.node.clone());
        let node = match &of_gateway {
            Some(_) if !id.is_empty() => return Err(Status::invalid_argument("a node of a Gateway is named once")),
            Some(named) if named.gateway.len() > MAX_GATEWAY => {
                return Err(Status::invalid_argument("a Gateway and its namespace have at most 317 bytes"));
            }
            Some(named) => named.node.clone(),
            None => id.clone(),
        };
        self.admission.check_node(&node, MAX_NODE)?;
        let gateway = of_gateway.as_ref().map(|named| named.gateway.as_str());
        let metadata = gateway.map(|gateway| (NODE_GATEWAY.to_owned(), gateway.to_owned())).into_iter().collect();
        let membership = self.admission.peer().membership();
        let info = NodeInfo { id: node, metadata, membership, ..NodeInfo::default() };
        let refused = |why: String| {
            self.admission.rejected(Rejection::Node);
            Status::permission_denied(why)
        };
        let scope =
            self.views.reported(&info).map_err(|(Unserved::Frozen(why) | Unserved::Foreign(why))| refused(why))?;
        // The name is that of its other streams, and the right that of one Gateway.
        let name = node_name(&scope.membership, &info.id);
        let membership = scope.membership.with_gateway(gateway);
        let membership =
            membership.ok_or_else(|| refused("an Envoy of a Gateway reports for one that it may be of".to_owned()))?;
        Ok(ReportingNode { id, of_gateway, name, membership })
    }

    /// Hands a report on. Returns the answer about limits, and the time for which the peer's next report has to wait.
    async fn take(&self, node: &ReportingNode, message: ReportRequest) -> Result<(Bytes, Duration), Status> {
        if !node.is_of(&message) {
            return Err(Status::invalid_argument("the node id changed within a stream"));
        }
        if message.instance.len() > MAX_INSTANCE {
            return Err(Status::invalid_argument("an instance has at most 63 bytes"));
        }
        let mut worked = Duration::ZERO;
        let (mut limits, mut pause) = (Bytes::new(), Duration::ZERO);
        let report = |content| GatewayReport {
            node: node.name.clone(),
            membership: node.membership.clone(),
            instance: message.instance.clone(),
            content,
        };
        let refused = |error: UnreadableReport| Status::invalid_argument(error.to_string());
        if !message.content.is_empty() {
            let start = Instant::now();
            self.sink.take(report(message.content)).map_err(refused)?;
            worked = start.elapsed();
            pause = self.admission.limits().report_pause;
        }
        if !message.limits.is_empty() {
            let (divided, took) = timed(self.sink.divide(report(message.limits))).await;
            limits = divided.map_err(refused)?;
            worked = worked.saturating_add(took);
            pause = pause.max(self.admission.limits().limits_pause);
        }
        if pause.is_zero() {
            return Ok((limits, pause));
        }
        Ok((limits, self.admission.worked(worked).max(pause)))
    }

    /// A peer that does not read its acknowledgements is not read either, and is not waited for without end.
    async fn acknowledge(&self, limits: Bytes) -> Result<(), Status> {
        let response = QueuedResponse { content: Ok(ReportResponse { limits }), room: ResponseRoom::default() };
        match tokio::time::timeout(self.admission.limits().reading, self.responses.send(response)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Status::cancelled("the stream is closed")),
            Err(_) => {
                self.admission.rejected(Rejection::Unread);
                self.admission.close_connection();
                Err(Status::deadline_exceeded("an acknowledgement is not read"))
            }
        }
    }

    fn count(&self, status: &Status) {
        if status.code() == Code::OutOfRange {
            self.admission.rejected(Rejection::Message);
        }
    }
}

/// A future's output, and the time that it worked, without the time that it waited.
async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let mut future = std::pin::pin!(future);
    let mut worked = Duration::ZERO;
    let output = std::future::poll_fn(|context| {
        let start = Instant::now();
        let polled = future.as_mut().poll(context);
        worked = worked.saturating_add(start.elapsed());
        polled
    });
    (output.await, worked)
}
