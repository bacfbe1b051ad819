//! One open stream: between what the transport brings and the state machine.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use futures_util::{Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tonic::Status;

use crate::admission::{Admission, QueuedResponse};
use crate::chunk::ByteChunks;
use crate::delta::{self, DeltaStream, PendingResponse};
use crate::kind::ResourceKind;
use crate::limits::Rejection;
use crate::metrics::XdsMetrics;
use crate::node::{NodeInfo, RejectedNode, StreamGuard, Unserved, View};
use crate::registry::Registry;
use crate::registry::{SharedStream, lock};
use crate::server::ServerState;
use crate::snapshot::Snapshot;

/// Longest id of a node.
const MAX_NODE_ID: usize = 256;
/// Bytes of a name with its version, of most.
const USUAL_NAME: usize = 256;
/// Longest reason of a refusal that is kept.
const MAX_REASON: usize = 4 * 1024;

/// One open stream.
pub(super) struct Task {
    pub(super) served: ServerState,
    pub(super) admission: Arc<Admission>,
    pub(super) responses: mpsc::Sender<QueuedResponse<ByteChunks>>,
}

/// Takes a stream out of the registry when its task ends, however it does.
struct OpenStreamGuard {
    id: u64,
    registry: Arc<Registry>,
}

impl Drop for OpenStreamGuard {
    fn drop(&mut self) {
        self.registry.close(self.id);
    }
}

/// An event of the stream.
enum Event {
    Request(Box<DeltaDiscoveryRequest>),
    Snapshot(Option<Arc<Snapshot>>),
    Ended,
}

impl Task {
    pub(super) async fn run<S>(self, requests: S)
    where
        S: Stream<Item = Result<DeltaDiscoveryRequest, Status>> + Unpin,
    {
        if let Err(status) = self.serve(requests).await {
            // A closed stream needs no reason.
            let _ = self.responses.send(QueuedResponse { content: Err(status), room: Vec::new() }).await;
        }
    }

    async fn serve<S>(&self, mut requests: S) -> Result<(), Status>
    where
        S: Stream<Item = Result<DeltaDiscoveryRequest, Status>> + Unpin,
    {
        let Some(first) = self.first(&mut requests).await? else { return Ok(()) };
        let node = first.node.clone().ok_or_else(|| Status::invalid_argument("say first which node this is"))?;
        // Held until after the registry's entry below.
        let (view, _held) = self.admit(&node)?;
        self.admission.admit();
        let name = self.admission.peer().node_name(&node.id);
        // Nothing else of the node has to be kept.
        let node = node.id;
        let mut snapshots = self.served.snapshots.clone();
        // A node that disconnects before there is a snapshot leaves no trace.
        let newest = tokio::select! {
            newest = snapshots.wait_for(|newest| of_view(newest, &view).is_some()) => newest.map(|newest| of_view(&newest, &view)),
            () = self.responses.closed() => return Ok(()),
        };
        let Ok(newest) = newest else { return Ok(()) };
        let stream = Arc::new(Mutex::new(DeltaStream::new(newest.unwrap_or_default())));
        let (shared, registry): (SharedStream, _) = (stream.clone(), Arc::clone(&self.served.registry));
        let _entry = OpenStreamGuard { id: registry.open(name.clone(), shared, view.clone()), registry };
        let mut state =
            StreamState { waiting: Some(first), sync: SyncTracker::default(), unacked: UnackedTimer::default() };
        loop {
            let pending = match self.next(&mut requests, &mut snapshots, &view, &mut state).await? {
                Event::Ended => return Ok(()),
                Event::Request(request) => self.take(&stream, &node, *request).await?,
                Event::Snapshot(newest) => {
                    state.sync.is_newer = true;
                    newest.map(|newest| lock(&stream).on_snapshot(newest)).unwrap_or_default()
                }
            };
            self.report_sync(&mut state.sync, &stream, (&view, &name));
            if !self.send(&stream, pending).await {
                return Ok(());
            }
            state.unacked.look(lock(&stream).oldest_unanswered(), Instant::now());
        }
    }

    /// The first message, which has to come soon.
    async fn first<S>(&self, requests: &mut S) -> Result<Option<DeltaDiscoveryRequest>, Status>
    where
        S: Stream<Item = Result<DeltaDiscoveryRequest, Status>> + Unpin,
    {
        match tokio::time::timeout(self.admission.limits().idle, requests.next()).await {
            Ok(Some(Ok(first))) => Ok(Some(first)),
            Ok(Some(Err(_)) | None) => Ok(None),
            Err(_) => {
                self.admission.rejected(Rejection::Idle);
                Err(Status::deadline_exceeded("say which node this is"))
            }
        }
    }

    async fn next<S>(
        &self,
        requests: &mut S,
        snapshots: &mut watch::Receiver<Option<Arc<Snapshot>>>,
        view: &View,
        state: &mut StreamState,
    ) -> Result<Event, Status>
    where
        S: Stream<Item = Result<DeltaDiscoveryRequest, Status>> + Unpin,
    {
        if let Some(first) = state.waiting.take() {
            return Ok(Event::Request(Box::new(first)));
        }
        let patience = state.unacked.patience(self.admission.limits().answer, Instant::now());
        tokio::select! {
            request = requests.next() => match request {
                Some(Ok(request)) => Ok(Event::Request(Box::new(request))),
                Some(Err(status)) => {
                    if status.code() == tonic::Code::OutOfRange {
                        self.admission.rejected(Rejection::Message);
                    }
                    Ok(Event::Ended)
                }
                None => Ok(Event::Ended),
            },
            changed = snapshots.changed() => Ok(match changed {
                Ok(()) => Event::Snapshot(of_view(&snapshots.borrow_and_update(), view)),
                Err(_) => Event::Ended,
            }),
            () = tokio::time::sleep(patience), if state.unacked.is_any() => {
                self.admission.rejected(Rejection::AckState);
                // Unread bytes are released only with the connection.
                self.admission.close_connection();
                Err(Status::deadline_exceeded("a response has no answer"))
            }
        }
    }

    /// Hands a request to the state machine. A peer whose requests take much time is read later.
    async fn take(
        &self,
        stream: &Mutex<DeltaStream>,
        node: &str,
        mut request: DeltaDiscoveryRequest,
    ) -> Result<Vec<PendingResponse>, Status> {
        if request.node.as_ref().is_some_and(|sent| sent.id != node) {
            return Err(Status::invalid_argument("the node id changed within a stream"));
        }
        if let Some(error) = &mut request.error_detail {
            truncate(&mut error.message, MAX_REASON);
        }
        let limits = self.admission.limits();
        let start = Instant::now();
        let (pending, names, known, foreign) = {
            let mut stream = lock(stream);
            self.served.registry.metrics.with(|metrics| count_answer(metrics, &request));
            log_refusal(&stream, &request);
            if !delta::is_within_limits(&request) {
                self.admission.rejected(Rejection::Names);
                return Err(Status::invalid_argument("a name is too long"));
            }
            let pending = stream.on_request(request);
            (pending, stream.subscription_count(), stream.resource_count(), stream.foreign_bytes())
        };
        // Of the names of resources that there are, the node may ask for each and have each.
        // After an update of the control plane a node may have another version of each, or know each by another name.
        let is_large = !self.admission.may_name(foreign.saturating_sub(known.saturating_mul(USUAL_NAME)));
        if is_large || names > limits.names.saturating_add(known.saturating_mul(2)) {
            self.admission.rejected(Rejection::Names);
            return Err(Status::resource_exhausted("too many names"));
        }
        let pause = self.admission.worked(start.elapsed());
        if pause > Duration::ZERO {
            tokio::time::sleep(pause).await;
        }
        Ok(pending)
    }

    fn report_sync(&self, sync: &mut SyncTracker, stream: &Mutex<DeltaStream>, (view, name): (&View, &str)) {
        let stream = lock(stream);
        if sync.is_reached(&stream) {
            let version = stream.snapshot_version();
            self.served.registry.metrics.with(|metrics| metrics.propagated(view, name, version));
        }
    }

    /// Sends the responses of the state machine. A response is encoded when the peer has room for it. Returns whether the
    /// stream is still open.
    async fn send(&self, stream: &Mutex<DeltaStream>, pending: Vec<PendingResponse>) -> bool {
        for draft in pending {
            let room = tokio::select! {
                room = self.admission.unread(draft.size()) => room,
                () = self.responses.closed() => return false,
            };
            lock(stream).log(&draft);
            let kind = ResourceKind::of(draft.type_url()).label();
            self.served.registry.metrics.with(|metrics| metrics.responded(kind));
            let content = draft.encode().map_err(|error| Status::resource_exhausted(error.to_string()));
            if self.responses.send(QueuedResponse { content, room }).await.is_err() {
                return false;
            }
        }
        true
    }

    /// The view of a node, if the peer may be that node, and what ends with the stream.
    fn admit(&self, node: &Node) -> Result<(View, StreamGuard), Status> {
        let peer = self.admission.peer();
        let reject = |reason: &str, is_frozen| {
            self.admission.rejected(if is_frozen { Rejection::Frozen } else { Rejection::Node });
            self.served.registry.record_rejection(RejectedNode {
                node: peer.node_name(&node.id.chars().take(MAX_NODE_ID).collect::<String>()),
                by: peer.describe(),
                reason: reason.to_owned(),
                times: 0,
                is_frozen,
                last: Instant::now(),
            });
        };
        peer.may_be(&node.id).inspect_err(|status| reject(status.message(), false))?;
        if node.id.is_empty() || node.id.len() > MAX_NODE_ID {
            return Err(Status::invalid_argument("a node id has 1 to 256 bytes"));
        }
        let info = NodeInfo::of(node, peer.membership());
        let view = self.served.views.view(&info).map_err(|unserved| match unserved {
            Unserved::Frozen(reason) => {
                reject(&reason, true);
                Status::failed_precondition(reason)
            }
            Unserved::Foreign(reason) => {
                reject(&reason, false);
                Status::permission_denied(reason)
            }
        })?;
        self.served.registry.forget_rejection(&peer.node_name(&node.id), &peer.describe());
        let held = self.served.views.hold(&info, &view);
        Ok((view, held))
    }
}

fn of_view(newest: &Option<Arc<Snapshot>>, view: &View) -> Option<Arc<Snapshot>> {
    newest.as_ref().and_then(|newest| newest.shared_view(view))
}

fn truncate(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
    }
}

struct StreamState {
    /// A request that came already.
    waiting: Option<DeltaDiscoveryRequest>,
    sync: SyncTracker,
    unacked: UnackedTimer,
}

/// For how long the other side has unacked an answer.
#[derive(Default)]
struct UnackedTimer(Option<(u64, Instant)>);

impl UnackedTimer {
    fn look(&mut self, oldest: Option<u64>, now: Instant) {
        if self.0.map(|(number, _)| number) != oldest {
            self.0 = oldest.map(|number| (number, now));
        }
    }

    fn is_any(&self) -> bool {
        self.0.is_some()
    }

    fn patience(&self, most: Duration, now: Instant) -> Duration {
        self.0.map_or(most, |(_, since)| most.saturating_sub(now.saturating_duration_since(since)))
    }
}

/// Whether a node has acknowledged all of the newest snapshot.
#[derive(Default)]
struct SyncTracker {
    /// The version that it had all of last, if it still has.
    synced: Option<String>,
    /// Whether a snapshot came while it was connected.
    is_newer: bool,
}

impl SyncTracker {
    /// Whether the node has just acknowledged the whole of a snapshot that came while it was connected.
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
fn count_answer(metrics: &dyn XdsMetrics, request: &DeltaDiscoveryRequest) {
    let Some(kind) = delta::answered_kind(request).map(ResourceKind::label) else { return };
    match delta::refusal(request) {
        Some(_) => metrics.nacked(kind),
        None => metrics.acked(kind),
    }
}

fn log_refusal(stream: &DeltaStream, request: &DeltaDiscoveryRequest) {
    if let Some(refusal) = delta::refusal(request) {
        // Envoy quotes what it was sent, and secrets are among that.
        let error = portcullis_api::status::sanitize(refusal.message);
        let (node, type_url) = (stream.node(), refusal.type_url);
        tracing::warn!(node, type_url, error, "refused by Envoy");
    }
}
