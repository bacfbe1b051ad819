//! One open stream: between what the transport brings and the state machine.

use std::future::Future;
use std::hash::RandomState;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use futures_util::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;
use tonic::Status;

use crate::admission::{Admission, QueuedResponse, ResponseRoom};
use crate::chunk::ByteChunks;
use crate::delta::{self, DeltaStream, NextResponse, PendingResponse};
use crate::kind::ResourceKind;
use crate::limits::Rejection;
use crate::lock::lock;
use crate::metrics::XdsMetrics;
use crate::open_streams::SharedStream;
use crate::registry::Registry;
use crate::server::ServerState;
use crate::server::followed::{FollowedSnapshots, of_view};
use crate::server::introduction::{KnownNode, introduce, waiting_bytes};

/// Bytes in memory of a name with its version, of most.
const USUAL_NAME: usize = 448;
/// Longest reason of a refusal that is kept.
const MAX_REASON: usize = 4 * 1024;
/// Bytes of the reasons that one stream keeps in all, and what is kept of one beyond.
const MAX_REASONS: usize = 64 * 1024;
const SHORT_REASON: usize = 256;

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
    /// The time for an answer is over, and it is not the peer's fault: the response is not read yet, or the peer is not.
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
        // A message that waits for room is not read, and so is the end of its stream.
        let first = tokio::select! {
            first = self.admission.first_message(&mut requests) => first?,
            () = self.responses.closed() => return Ok(()),
        };
        let Some(mut first) = first else { return Ok(()) };
        // Held until after the registry's entry below.
        let KnownNode { id: node, name, view, held: _held } = introduce(&self.served, &self.admission, &mut first)?;
        let mut snapshots = self.served.snapshots.clone();
        if of_view(&snapshots.borrow(), &view).is_none() && !self.admission.may_name(waiting_bytes(&first), 0) {
            self.admission.rejected(Rejection::Names);
            return Err(Status::resource_exhausted("too many names while nothing is served yet"));
        }
        // A node that disconnects before there is a snapshot leaves no trace.
        let waits = self.admission.process_time();
        let newest = tokio::select! {
            newest = snapshots.wait_for(|newest| of_view(newest, &view).is_some()) => newest.map(|newest| of_view(&newest, &view)),
            () = self.responses.closed() => return Ok(()),
        };
        drop(waits);
        let Ok(newest) = newest else { return Ok(()) };
        let most = self.admission.most_of_response();
        let stream =
            Arc::new(Mutex::new(DeltaStream::new(newest.unwrap_or_default(), RandomState::new()).with_most(most)));
        let (shared, registry): (SharedStream, _) = (stream.clone(), Arc::clone(&self.served.registry));
        let _entry = OpenStreamGuard { id: registry.open(name.clone(), shared, view.clone()), registry };
        let mut followed = FollowedSnapshots::after(snapshots, view, stream, Arc::clone(&self.admission));
        let mut state =
            StreamState { waiting: Some(first), sync: SyncTracker::default(), unacked: UnackedTimer::default() };
        loop {
            match self.next(&mut requests, &mut followed, &mut state).await? {
                Event::Ended => return Ok(()),
                Event::Unread => {}
                Event::Request(request) => self.take(&mut followed, &node, *request)?,
                Event::Snapshot => {
                    if !self.rests(&mut followed).await {
                        return Ok(());
                    }
                }
            }
            if !self.respond(&mut followed).await {
                return Ok(());
            }
            self.report_sync(&mut state.sync, &followed, &name);
            state.unacked.look(lock(followed.stream()).oldest_unanswered(), Instant::now());
        }
    }

    async fn next<S>(
        &self,
        requests: &mut S,
        followed: &mut FollowedSnapshots,
        state: &mut StreamState,
    ) -> Result<Event, Status>
    where
        S: Stream<Item = Result<DeltaDiscoveryRequest, Status>> + Unpin,
    {
        if let Some(first) = state.waiting.take() {
            return Ok(Event::Request(Box::new(first)));
        }
        // A peer that has to make up for work is not read, and its answers wait.
        if !self.rests(followed).await {
            return Ok(Event::Ended);
        }
        if followed.is_due() {
            return Ok(Event::Snapshot);
        }
        let patience = state.unacked.patience(self.admission.limits().answer, Instant::now());
        tokio::select! {
            // A peer that always has a request ready is not left out of snapshots, and an answer that has come is not missing.
            biased;
            is_open = followed.next() => Ok(if is_open { Event::Snapshot } else { Event::Ended }),
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
            () = self.responses.closed() => Ok(Event::Ended),
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
    async fn rests(&self, followed: &mut FollowedSnapshots) -> bool {
        self.wait(followed, self.admission.rested()).await.is_some()
    }

    /// Waits for the peer. Snapshots are followed meanwhile, and requests are not read. `None` if the stream has ended.
    async fn wait<T>(&self, followed: &mut FollowedSnapshots, wait: impl Future<Output = T>) -> Option<T> {
        let _time = self.admission.process_time();
        tokio::select! {
            biased;
            output = followed.during(wait) => output,
            () = self.responses.closed() => None,
        }
    }

    /// Hands a request to the state machine. A peer whose requests take much time is read later.
    fn take(
        &self,
        followed: &mut FollowedSnapshots,
        node: &str,
        mut request: DeltaDiscoveryRequest,
    ) -> Result<(), Status> {
        if request.node.as_ref().is_some_and(|sent| sent.id != node) {
            return Err(Status::invalid_argument("the node id changed within a stream"));
        }
        let limits = self.admission.limits();
        let start = Instant::now();
        if let Some(error) = &mut request.error_detail {
            let left = MAX_REASONS.saturating_sub(lock(followed.stream()).reason_bytes());
            truncate(&mut error.message, left.clamp(SHORT_REASON, MAX_REASON));
        }
        let (names, known, foreign) = {
            let mut stream = lock(followed.stream());
            self.served.registry.metrics.with(|metrics| count_answer(metrics, &request));
            log_refusal(&stream, &request);
            if !delta::is_within_limits(&request) {
                self.admission.rejected(Rejection::Names);
                return Err(Status::invalid_argument("a name is too long"));
            }
            stream.take_request(request);
            (stream.subscription_count(), stream.resource_count(), stream.foreign_bytes())
        };
        followed.worked(start.elapsed());
        // Of the names of resources that there are, the node may ask for each and have each.
        // After an update of the control plane a node may have another version of each, or know each by another name.
        let is_large = !self.admission.may_name(foreign, known.saturating_mul(USUAL_NAME));
        if is_large || names > limits.names.saturating_add(known.saturating_mul(2)) {
            self.admission.rejected(Rejection::Names);
            return Err(Status::resource_exhausted("too many names"));
        }
        Ok(())
    }

    fn report_sync(&self, sync: &mut SyncTracker, followed: &FollowedSnapshots, name: &str) {
        let stream = lock(followed.stream());
        if sync.is_reached(&stream) && followed.is_newer() {
            let version = stream.snapshot_version();
            self.served.registry.metrics.with(|metrics| metrics.propagated(followed.view(), name, version));
        }
    }

    /// Sends all responses that there are. One is made when the peer has room for it, of the snapshot of then: what waits for room keeps
    /// its place in the line, and no bytes. Returns whether the stream is still open.
    async fn respond(&self, followed: &mut FollowedSnapshots) -> bool {
        let mut granted: Option<(usize, ResponseRoom)> = None;
        let mut wanted = 0;
        loop {
            let next = followed.respond(|size| {
                let granted = granted.take().filter(|(bytes, _)| size <= *bytes).map(|(_, room)| room);
                granted.or_else(|| self.admission.unread(size).now_or_never())
            });
            match next {
                NextResponse::None => return true,
                NextResponse::Waits(size) => {
                    // It has grown while it waited, or is the first one.
                    wanted = size.max(wanted);
                    let Some(room) = self.wait(followed, self.admission.unread(wanted)).await else { return false };
                    granted = Some((wanted, room));
                }
                NextResponse::Made(response, room) => {
                    wanted = 0;
                    let sent = self.responses.send(self.queued(followed.stream(), response, room));
                    if self.wait(followed, sent).await.is_none_or(|sent| sent.is_err()) {
                        return false;
                    }
                }
            }
        }
    }

    fn queued(
        &self,
        stream: &Mutex<DeltaStream>,
        response: PendingResponse,
        room: ResponseRoom,
    ) -> QueuedResponse<ByteChunks> {
        lock(stream).log(&response);
        let kind = ResourceKind::of(response.type_url()).label();
        self.served.registry.metrics.with(|metrics| metrics.responded(kind));
        let content = response.encode().map_err(|error| Status::resource_exhausted(error.to_string()));
        QueuedResponse { content, room }
    }
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

/// How long the oldest response has been without an answer.
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
}

impl SyncTracker {
    /// Whether the node has just acknowledged the whole of a snapshot.
    fn is_reached(&mut self, stream: &DeltaStream) -> bool {
        let synced = stream.is_in_sync().then(|| stream.snapshot_version().to_owned());
        let is_reached = synced.is_some() && synced != self.synced;
        if is_reached {
            tracing::info!(node = stream.node(), snapshot = stream.snapshot_version(), "in sync");
        }
        self.synced = synced;
        is_reached
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
