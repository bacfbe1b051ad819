//! The open connections and streams of each peer, and their bounds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::limits::{Limits, Rejection};
use crate::membership::Membership;
use crate::metrics::OptionalMetrics;
use crate::peer::Peer;
use crate::registry::lock;

/// All peers with a connection.
pub(crate) struct Peers {
    pub(crate) limits: Limits,
    metrics: OptionalMetrics,
    /// A peer without connections stays until its buckets are full again, so that a reconnect does not refill them.
    open: Mutex<BTreeMap<Peer, Arc<PeerQuota>>>,
    network: AtomicUsize,
}

/// The usage of one peer.
struct PeerQuota {
    connections: AtomicUsize,
    streams: AtomicUsize,
    exchanges: AtomicUsize,
    /// Streams that may be opened, and when that was so.
    openings: Mutex<Bucket>,
    /// Exchanges that may begin, and bytes that may come in them.
    beginnings: Mutex<Bucket>,
    bytes: Mutex<Bucket>,
    /// Time that requests may take.
    work: Mutex<Bucket>,
    /// Units of bytes that may be unread.
    unread: Arc<Semaphore>,
}

impl PeerQuota {
    /// Whether the quota is that of a new peer.
    fn is_at_rest(&self, now: Instant) -> bool {
        let is_full = |bucket: &Mutex<Bucket>| {
            let mut bucket = lock(bucket);
            bucket.level(now) >= bucket.size
        };
        self.connections.load(Ordering::Relaxed) == 0
            && self.streams.load(Ordering::Relaxed) == 0
            && self.exchanges.load(Ordering::Relaxed) == 0
            && is_full(&self.openings)
            && is_full(&self.beginnings)
            && is_full(&self.bytes)
            && is_full(&self.work)
    }
}

/// A token bucket: it fills while time passes.
struct Bucket {
    level: f64,
    size: f64,
    per_second: f64,
    at: Instant,
}

impl Bucket {
    /// Takes more than there is, too. Returns what is left.
    fn take(&mut self, amount: f64) -> f64 {
        self.level = self.level(Instant::now()) - amount;
        self.level
    }

    fn new(size: f64, per_second: f64) -> Self {
        Self { level: size, size, per_second, at: Instant::now() }
    }

    fn filled_in_two_seconds(size: f64) -> Self {
        Self::new(size, size / 2.0)
    }

    fn level(&mut self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.level = (self.level + passed * self.per_second).min(self.size);
        self.level
    }
}

/// Looks after which a connection is idle that had a stream of a node.
const IDLE_LOOKS_BETWEEN_STREAMS: u32 = 4;

/// The number of bytes of one permit.
const UNIT: usize = 1_024;

impl Peers {
    pub(crate) fn new(limits: Limits, metrics: OptionalMetrics) -> Arc<Self> {
        Arc::new(Self { limits, metrics, open: Mutex::default(), network: AtomicUsize::new(0) })
    }

    /// Counts a connection of a peer, if the peer may have another one.
    pub(crate) fn connect(self: &Arc<Self>, peer: Peer) -> Result<Arc<Connection>, Rejection> {
        let is_local = peer == Peer::Local;
        let quota = self.quota(&peer);
        let most = if is_local { self.limits.connections } else { self.limits.connections_per_peer };
        let connection = Arc::new(Connection {
            peer,
            peers: Arc::clone(self),
            quota,
            streams: AtomicUsize::new(0),
            idle_looks: AtomicU32::new(0),
            named: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        let of_peer = connection.quota.connections.fetch_add(1, Ordering::Relaxed);
        let of_all = self.network.fetch_add(usize::from(!is_local), Ordering::Relaxed);
        if of_peer >= most || (!is_local && of_all >= self.limits.connections) {
            return Err(Rejection::Connections);
        }
        Ok(connection)
    }

    fn quota(&self, peer: &Peer) -> Arc<PeerQuota> {
        let mut open = lock(&self.open);
        if let Some(quota) = open.get(peer) {
            return Arc::clone(quota);
        }
        let now = Instant::now();
        open.retain(|_, quota| !quota.is_at_rest(now));
        let quota = Arc::new(PeerQuota {
            connections: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            exchanges: AtomicUsize::new(0),
            openings: Mutex::new(Bucket::new(f64::from(self.limits.stream_burst), 1.0)),
            beginnings: Mutex::new(Bucket::filled_in_two_seconds(f64::from(self.limits.exchange_burst))),
            bytes: Mutex::new(Bucket::filled_in_two_seconds(self.limits.exchange_bytes as f64)),
            work: Mutex::new(Bucket::new(self.limits.work.as_secs_f64(), 0.25)),
            unread: Arc::new(Semaphore::new(units(self.limits.unread))),
        });
        open.insert(peer.clone(), Arc::clone(&quota));
        quota
    }

    pub(crate) fn rejected(&self, excess: Rejection) {
        self.metrics.with(|metrics| metrics.rejected(excess));
    }
}

fn units(bytes: usize) -> usize {
    (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS)
}

/// A connection that was let in.
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    pub(crate) peers: Arc<Peers>,
    quota: Arc<PeerQuota>,
    /// Streams whose node is known.
    streams: AtomicUsize,
    /// Looks that found no such stream, since there was one.
    idle_looks: AtomicU32,
    /// Whether there was one.
    named: AtomicBool,
    closed: AtomicBool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.quota.connections.fetch_sub(1, Ordering::Relaxed);
        if self.peer != Peer::Local {
            self.peers.network.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Connection {
    /// Counts a stream, if the peer may have another one.
    pub(crate) fn open_stream(self: &Arc<Self>) -> Result<Arc<Admission>, Rejection> {
        let is_local = self.peer == Peer::Local;
        let before = self.quota.streams.fetch_add(1, Ordering::Relaxed);
        let admission = self.admission(false);
        if is_local {
            return Ok(Arc::new(admission));
        }
        let mut openings = lock(&self.quota.openings);
        if openings.level(Instant::now()) < 1.0 {
            // A client that opens and resets streams without end is disconnected.
            self.close();
            return Err(Rejection::Streams);
        }
        openings.level -= 1.0;
        if before >= self.peers.limits.streams_per_peer {
            return Err(Rejection::Streams);
        }
        Ok(Arc::new(admission))
    }

    /// Counts an exchange about limits, if the peer may begin another one.
    pub(crate) fn open_exchange(self: &Arc<Self>) -> Result<Arc<Admission>, Rejection> {
        let before = self.quota.exchanges.fetch_add(1, Ordering::Relaxed);
        let admission = self.admission(true);
        if self.peer == Peer::Local {
            return Ok(Arc::new(admission));
        }
        let now = Instant::now();
        let mut beginnings = lock(&self.quota.beginnings);
        if beginnings.level(now) < 1.0 {
            // As one that opens streams without end.
            self.close();
            return Err(Rejection::Exchanges);
        }
        beginnings.level -= 1.0;
        let is_in_debt = |bucket: &Mutex<Bucket>| lock(bucket).level(now) < 0.0;
        if before >= self.peers.limits.exchanges_per_peer
            || is_in_debt(&self.quota.bytes)
            || is_in_debt(&self.quota.work)
        {
            return Err(Rejection::Exchanges);
        }
        Ok(Arc::new(admission))
    }

    fn admission(self: &Arc<Self>, is_exchange: bool) -> Admission {
        Admission { connection: Arc::clone(self), is_exchange, is_admitted: AtomicBool::new(false) }
    }

    /// Ends the connection, at its next event or soon.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether no stream names its node, or none has for a while: a gateway whose filter reports opens a stream for each report.
    /// Called once in the time that a connection may be idle.
    pub(crate) fn is_idle(&self) -> bool {
        if self.streams.load(Ordering::Relaxed) > 0 {
            return false;
        }
        let looks = self.idle_looks.fetch_add(1, Ordering::Relaxed) + 1;
        !self.named.load(Ordering::Relaxed) || looks >= IDLE_LOOKS_BETWEEN_STREAMS
    }
}

/// A stream or an exchange, counted until the last reference is dropped.
pub(crate) struct Admission {
    connection: Arc<Connection>,
    is_exchange: bool,
    is_admitted: AtomicBool,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let PeerQuota { exchanges, streams, .. } = &*self.connection.quota;
        if self.is_exchange { exchanges } else { streams }.fetch_sub(1, Ordering::Relaxed);
        if self.is_admitted() {
            self.connection.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Admission {
    /// Marks the stream as that of a node that the peer may be.
    pub(crate) fn admit(&self) {
        if !self.is_admitted.swap(true, Ordering::Relaxed) {
            self.connection.streams.fetch_add(1, Ordering::Relaxed);
            self.connection.named.store(true, Ordering::Relaxed);
            self.connection.idle_looks.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.is_admitted.load(Ordering::Relaxed)
    }

    /// The first message of a stream of reports, which says which node this is. `None` if the stream ends without one.
    pub(crate) async fn first_message<M>(
        &self,
        messages: &mut (impl Stream<Item = Result<M, Status>> + Unpin),
    ) -> Result<Option<M>, Status> {
        let Ok(first) = tokio::time::timeout(self.limits().idle, messages.next()).await else {
            self.rejected(Rejection::Idle);
            return Err(Status::deadline_exceeded("say which node this is"));
        };
        Ok(first.and_then(Result::ok))
    }

    /// The message of an exchange. `None` if it ends without one.
    pub(crate) async fn only_message<M: prost::Message>(
        &self,
        messages: &mut (impl Stream<Item = Result<M, Status>> + Unpin),
    ) -> Result<Option<M>, Status> {
        let Ok(message) = tokio::time::timeout(self.limits().idle, messages.next()).await else {
            self.rejected(Rejection::Idle);
            return Err(Status::deadline_exceeded("the report did not come"));
        };
        let Some(message) = message.transpose()? else { return Ok(None) };
        lock(&self.connection.quota.bytes).take(message.encoded_len() as f64);
        Ok(Some(message))
    }

    /// Refuses the id of a node that the peer may not be, or that is longer than `most` bytes.
    pub(crate) fn check_node(&self, id: &str, most: usize) -> Result<(), Status> {
        self.peer().may_be(id).inspect_err(|_| self.rejected(Rejection::Node))?;
        // Its Envoy is a tenant's, and reports are about all clusters.
        if let Membership::Bound(_) | Membership::Instances(_) = self.peer().membership() {
            self.rejected(Rejection::Node);
            return Err(Status::permission_denied("an Envoy of a Gateway or of an instance reports nothing"));
        }
        if id.is_empty() || id.len() > most {
            return Err(Status::invalid_argument(format!("a node id has 1 to {most} bytes")));
        }
        Ok(())
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.connection.peer
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.connection.peers.limits
    }

    pub(crate) fn rejected(&self, excess: Rejection) {
        self.connection.peers.rejected(excess);
    }

    /// Ends the whole connection: what was sent on it is released.
    pub(crate) fn close_connection(&self) {
        self.connection.close();
    }

    /// Waits until the peer may have so many bytes more unread. They count until the permit is dropped.
    pub(crate) async fn unread(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = units(bytes).min(units(self.limits().unread));
        let permits = u32::try_from(wanted).unwrap_or(u32::MAX);
        Arc::clone(&self.connection.quota.unread).acquire_many_owned(permits).await.ok()
    }

    /// Records the time that a request of the peer took. Returns the time that its next one has to wait.
    pub(crate) fn worked(&self, took: Duration) -> Duration {
        if self.connection.peer == Peer::Local {
            return Duration::ZERO;
        }
        let mut work = lock(&self.connection.quota.work);
        let level = work.take(took.as_secs_f64());
        let missing = (-level).max(0.0) / work.per_second;
        Duration::try_from_secs_f64(missing).unwrap_or_default().min(self.limits().answer / 4)
    }
}

/// The admission of a request's stream. A stream that was not counted has none.
pub(crate) fn admission<T>(request: &tonic::Request<T>) -> Result<Arc<Admission>, Status> {
    let counted = request.extensions().get::<Arc<Admission>>().cloned();
    counted.ok_or_else(|| Status::internal("the stream was not counted"))
}

#[cfg(test)]
impl Admission {
    /// A stream of the Unix socket, with these bounds.
    pub(crate) fn local(limits: Limits) -> Arc<Self> {
        Self::of_peer(Peer::Local, limits)
    }

    /// A stream of a client whose certificate has these names, with these bounds.
    pub(crate) fn of_certificate(names: &[&str], limits: Limits) -> Arc<Self> {
        Self::of_peer(Peer::Certificate(names.iter().map(|name| (*name).to_owned()).collect()), limits)
    }

    fn of_peer(peer: Peer, limits: Limits) -> Arc<Self> {
        let peers = Peers::new(limits, OptionalMetrics::default());
        peers.connect(peer).ok().and_then(|connection| connection.open_stream().ok()).unwrap()
    }
}
