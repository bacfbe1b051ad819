//! One open stream: between what the transport brings and the state machine.

use std::hash::RandomState;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use futures_util::{Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tonic::Status;

use crate::admission::{Admission, QueuedResponse, ResponseRoom};
use crate::chunk::ByteChunks;
use crate::delta::{self, DeltaStream, PendingResponse};
use crate::kind::ResourceKind;
use crate::limits::Rejection;
use crate::lock::lock;
use crate::metrics::XdsMetrics;
use crate::node::View;
use crate::open_streams::SharedStream;
use crate::registry::Registry;
use crate::server::ServerState;
use crate::server::introduction::{KnownNode, introduce, waiting_bytes};
use crate::snapshot::Snapshot;

/// Bytes in memory of a name with its version, of most.
const USUAL_NAME: usize = 448;
/// Longest reason of a refusal that is kept.
const MAX_REASON: usize = 4 * 1024;
/// Bytes of the reasons that one stream keeps in all, and what is kept of one beyond.
const MAX_REASONS: usize = 64 * 1024;
const SHORT_REASON: usize = 256;
/// Time that a stream may take for a snapshot at no charge: a part for each resource, and one for all.
const FREE_OF_RESOURCE: Duration = Duration::from_micros(2);
const FREE: Duration = Duration::from_millis(5);

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
    Snapshot,
    /// No answer is missing yet: a response is not read, or its answer is not.
    Unread,
    Ended,
}

impl Task {
    pub(super) async fn run<S>(self, requests: S)
    where
        S: Stream<Item = Result<DeltaDiscoveryRequest, Status>> + Unpin,
    {
        if let Err(status) = self.serve(requests).await {
            // A closed stream needs no reason.
            let _ = self.responses.send(QueuedResponse { content: Err(status), room: ResponseRoom::default() }).await;
        }
    }

    async fn serve<S>(&self, mut requests: S) -> Result<(), Status>
    where
        S: Stream<Item = Result<DeltaDiscoveryRequest, Status>> + Unpin,
    {
        let Some(mut first) = self.admission.first_message(&mut requests).await? else { return Ok(()) };
        // Held until after the registry's entry below.
        let KnownNode { id: node, name, view, held: _held } = introduce(&self.served, &self.admission, &mut first)?;
        let mut snapshots = self.served.snapshots.clone();
        if of_view(&snapshots.borrow(), &view).is_none() && !self.admission.may_name(waiting_bytes(&first), 0) {
            self.admission.rejected(Rejection::Names);
            return Err(Status::resource_exhausted("too many names while nothing is served yet"));
        }
        // A node that disconnects before there is a snapshot leaves no trace.
        let newest = tokio::select! {
            newest = snapshots.wait_for(|newest| of_view(newest, &view).is_some()) => newest.map(|newest| of_view(&newest, &view)),
            () = self.responses.closed() => return Ok(()),
        };
        let Ok(newest) = newest else { return Ok(()) };
        let most = self.admission.most_of_response();
        let stream =
            Arc::new(Mutex::new(DeltaStream::new(newest.unwrap_or_default(), RandomState::new()).with_most(most)));
        let (shared, registry): (SharedStream, _) = (stream.clone(), Arc::clone(&self.served.registry));
        let _entry = OpenStreamGuard { id: registry.open(name.clone(), shared, view.clone()), registry };
        let mut state =
            StreamState { waiting: Some(first), sync: SyncTracker::default(), unacked: UnackedTimer::default() };
        loop {
            let pending = match self.next(&mut requests, &mut snapshots, &mut state).await? {
                Event::Ended => return Ok(()),
                Event::Unread => Vec::new(),
                Event::Request(request) => self.take(&stream, &node, *request)?,
                Event::Snapshot => {
                    // Meanwhile newer ones take its place.
                    if !self.rests().await {
                        return Ok(());
                    }
                    state.sync.is_newer = true;
                    let newest = of_view(&snapshots.borrow_and_update(), &view);
                    newest.map(|newest| self.take_snapshot(&stream, newest)).unwrap_or_default()
                }
            };
            self.report_sync(&mut state.sync, &stream, (&view, &name));
            if !self.send(&stream, pending).await {
                return Ok(());
            }
            state.unacked.look(lock(&stream).oldest_unanswered(), Instant::now());
        }
    }

    async fn next<S>(
        &self,
        requests: &mut S,
        snapshots: &mut watch::Receiver<Option<Arc<Snapshot>>>,
        state: &mut StreamState,
    ) -> Result<Event, Status>
    where
        S: Stream<Item = Result<DeltaDiscoveryRequest, Status>> + Unpin,
    {
        if let Some(first) = state.waiting.take() {
            return Ok(Event::Request(Box::new(first)));
        }
        // A peer that has to make up for work is not read, and its answers wait.
        if !self.rests().await {
            return Ok(Event::Ended);
        }
        let patience = state.unacked.patience(self.admission.limits().answer, Instant::now());
        tokio::select! {
            // A peer that always has a request ready is not left out of snapshots, and an answer that has come is not missing.
            biased;
            changed = snapshots.changed() => Ok(match changed {
                Ok(()) => Event::Snapshot,
                Err(_) => Event::Ended,
            }),
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
            () = tokio::time::sleep(patience), if state.unacked.is_any() => {
                if self.admission.has_unread() {
                    // For that it has a time of its own.
                    state.unacked.restart(Instant::now());
                    return Ok(Event::Unread);
                }
                if self.admission.owes_work() {
                    return Ok(Event::Unread);
                }
                self.admission.rejected(Rejection::AckState);
                self.admission.close_connection();
                Err(Status::deadline_exceeded("a response has no answer"))
            }
        }
    }

    /// Waits until the peer may be worked for. Returns whether the stream is still open.
    async fn rests(&self) -> bool {
        tokio::select! {
            () = self.admission.rested() => true,
            () = self.responses.closed() => false,
        }
    }

    /// Hands a request to the state machine. A peer whose requests take much time is read later.
    fn take(
        &self,
        stream: &Mutex<DeltaStream>,
        node: &str,
        mut request: DeltaDiscoveryRequest,
    ) -> Result<Vec<PendingResponse>, Status> {
        if request.node.as_ref().is_some_and(|sent| sent.id != node) {
            return Err(Status::invalid_argument("the node id changed within a stream"));
        }
        let limits = self.admission.limits();
        let start = Instant::now();
        if let Some(error) = &mut request.error_detail {
            let left = MAX_REASONS.saturating_sub(lock(stream).reason_bytes());
            truncate(&mut error.message, left.clamp(SHORT_REASON, MAX_REASON));
        }
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
        self.admission.worked(start.elapsed());
        // Of the names of resources that there are, the node may ask for each and have each.
        // After an update of the control plane a node may have another version of each, or know each by another name.
        let is_large = !self.admission.may_name(foreign, known.saturating_mul(USUAL_NAME));
        if is_large || names > limits.names.saturating_add(known.saturating_mul(2)) {
            self.admission.rejected(Rejection::Names);
            return Err(Status::resource_exhausted("too many names"));
        }
        Ok(pending)
    }

    /// Hands a snapshot to the state machine. Names and refusals of a node can make that take longer than its resources do: the rest is
    /// the node's work.
    fn take_snapshot(&self, stream: &Mutex<DeltaStream>, newest: Arc<Snapshot>) -> Vec<PendingResponse> {
        let resources = u32::try_from(newest.len()).unwrap_or(u32::MAX);
        let free = FREE.saturating_add(FREE_OF_RESOURCE.saturating_mul(resources));
        let start = Instant::now();
        let pending = lock(stream).on_snapshot(newest);
        self.admission.worked(start.elapsed().saturating_sub(free));
        pending
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

    fn restart(&mut self, now: Instant) {
        self.0 = self.0.map(|(number, _)| (number, now));
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
