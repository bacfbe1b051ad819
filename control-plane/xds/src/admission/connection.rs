//! The open connections and streams of each peer, and their bounds.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tonic::Status;
use tonic::codegen::http;

use super::common_room::{ByteRoom, CommonRest};
use super::held_messages::{HeldMessages, MessageRoom, ProcessTime};
use super::name_room::NameRoom;
use super::namespace_room::{NamespacePart, NamespaceParts};
use super::quota::{Quota, QuotaBounds, QuotaTable};
use super::reading::{UnreadOfStream, UnreadResponses};
use super::waits::{Wait, Waits};
use crate::limits::{Limits, Rejection};
use crate::lock::lock;
use crate::membership::Membership;
use crate::metrics::OptionalMetrics;
use crate::node_name::owner_of_instances;
use crate::peer::Peer;

/// All peers with a connection.
pub(crate) struct Peers {
    pub(crate) limits: Limits,
    metrics: OptionalMetrics,
    open: QuotaTable<Peer>,
    /// By the instance that a certificate names; those that name several have one together.
    instances: QuotaTable<String>,
    /// The share of all those beyond the number that have one of their own.
    others: QuotaTable<()>,
    /// The unread bytes that instances take beyond their own parts.
    rest: Arc<CommonRest>,
    /// The room for large messages that are not decoded yet, of all network peers.
    receiving: ByteRoom,
    /// The parts of Envoys of Gateways, by namespace.
    gateways: NamespaceParts,
    /// Connections of network peers that belong to no instance and no Gateway.
    network: AtomicUsize,
}

/// Looks after which a connection is idle that had a stream of a node.
const IDLE_LOOKS_BETWEEN_STREAMS: u32 = 4;

impl Peers {
    pub(crate) fn new(limits: Limits, metrics: OptionalMetrics) -> Arc<Self> {
        let (open, instances, others) = (QuotaTable::default(), QuotaTable::default(), QuotaTable::default());
        let rest = CommonRest::of(&limits);
        let (receiving, gateways) = (ByteRoom::new(limits.receiving_of_all), NamespaceParts::default());
        let network = AtomicUsize::new(0);
        Arc::new(Self { limits, metrics, open, instances, others, rest, receiving, gateways, network })
    }

    /// Counts a connection of a peer, if the peer may have another one. Envoys of an instance have its share of connections, and those of
    /// Gateways the part of their namespace: they take none from others.
    pub(crate) fn connect(self: &Arc<Self>, peer: Peer) -> Result<Arc<Connection>, Rejection> {
        let is_local = peer == Peer::Local;
        let of_peer = self.open.get(&peer, usize::MAX, || QuotaBounds::of_peer(&peer, &self.limits));
        let quota = of_peer.ok_or(Rejection::Connections)?;
        let instance = self.instance_quota(&peer)?;
        let most = if is_local { self.limits.connections } else { quota.bounds.connections };
        let gateways = self.gateways.get(&peer.membership(), &self.limits);
        let connection = Arc::new(Connection {
            peer,
            peers: Arc::clone(self),
            quota,
            instance,
            gateways,
            waits: Arc::default(),
            streams: AtomicUsize::new(0),
            idle_looks: AtomicU32::new(0),
            unread: Arc::default(),
            messages: Arc::default(),
            named: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        let of_peer = connection.quota.connections.fetch_add(1, Ordering::Relaxed);
        let is_full = match (&connection.instance, &connection.gateways) {
            (Some(quota), _) => quota.connections.fetch_add(1, Ordering::Relaxed) >= quota.bounds.connections,
            (None, Some(part)) => !part.connect(),
            (None, None) if is_local => false,
            (None, None) => self.network.fetch_add(1, Ordering::Relaxed) >= self.limits.connections,
        };
        if of_peer >= most || is_full {
            return Err(Rejection::Connections);
        }
        Ok(connection)
    }

    /// The share of the instance that a peer's certificate names; of several, that of all such certificates.
    fn instance_quota(&self, peer: &Peer) -> Result<Option<Arc<Quota>>, Rejection> {
        let Membership::Instances(names) = peer.membership() else { return Ok(None) };
        let bounds = || QuotaBounds::of_instance(&self.limits, &self.rest);
        let own = self.instances.get(&owner_of_instances(&names).to_owned(), self.limits.instances, bounds);
        let quota = own.or_else(|| self.others.get(&(), usize::MAX, bounds));
        quota.map(Some).ok_or(Rejection::Connections)
    }

    pub(crate) fn rejected(&self, excess: Rejection) {
        self.metrics.with(|metrics| metrics.rejected(excess));
    }
}

/// A connection that was let in.
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    pub(crate) peers: Arc<Peers>,
    pub(super) quota: Arc<Quota>,
    /// The share of its instance, if it belongs to one.
    pub(super) instance: Option<Arc<Quota>>,
    /// The part that it shares with other Envoys of its Gateway's namespace.
    gateways: Option<Arc<NamespacePart>>,
    waits: Arc<Waits>,
    /// Streams whose node is known.
    streams: AtomicUsize,
    /// Looks that found no such stream, since there was one.
    idle_looks: AtomicU32,
    unread: Arc<UnreadResponses>,
    messages: Arc<HeldMessages>,
    /// Whether there was one.
    named: AtomicBool,
    closed: AtomicBool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.quota.connections.fetch_sub(1, Ordering::Relaxed);
        match (&self.instance, &self.gateways) {
            (Some(quota), _) => {
                quota.connections.fetch_sub(1, Ordering::Relaxed);
            }
            (None, Some(part)) => part.disconnect(),
            (None, None) if self.peer == Peer::Local => {}
            (None, None) => {
                self.peers.network.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Connection {
    /// Counts a stream, if the peer may have another one.
    pub(crate) fn open_stream(self: &Arc<Self>) -> Result<Arc<Admission>, Rejection> {
        let is_local = self.peer == Peer::Local;
        let before = self.quota.streams.fetch_add(1, Ordering::Relaxed);
        let is_full = self
            .instance
            .as_ref()
            .is_some_and(|quota| quota.streams.fetch_add(1, Ordering::Relaxed) >= quota.bounds.streams);
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
        // Not for the work of others of its instance, so that none of them keeps it out.
        let is_full = is_full || self.quota.owes_work(Instant::now());
        if is_full || before >= self.quota.bounds.streams {
            return Err(Rejection::Streams);
        }
        Ok(Arc::new(admission))
    }

    /// Counts an exchange about limits, if the peer may begin another one.
    pub(crate) fn open_exchange(self: &Arc<Self>) -> Result<Arc<Admission>, Rejection> {
        let before = self.quota.exchanges.fetch_add(1, Ordering::Relaxed);
        let is_full = self
            .instance
            .as_ref()
            .is_some_and(|quota| quota.exchanges.fetch_add(1, Ordering::Relaxed) >= quota.bounds.exchanges);
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
        let is_in_debt = self.quotas().any(|quota| quota.is_in_debt(now));
        if is_full || is_in_debt || before >= self.quota.bounds.exchanges {
            return Err(Rejection::Exchanges);
        }
        Ok(Arc::new(admission))
    }

    /// The quotas against which it counts.
    pub(super) fn quotas(&self) -> impl Iterator<Item = &Quota> {
        std::iter::once(&self.quota).chain(&self.instance).map(AsRef::as_ref)
    }

    fn admission(self: &Arc<Self>, is_exchange: bool) -> Admission {
        let (is_admitted, names) = (AtomicBool::new(false), Mutex::default());
        let unread = UnreadOfStream::new(&self.unread);
        Admission { connection: Arc::clone(self), is_exchange, is_admitted, names, unread }
    }

    /// Ends the connection, at its next event or soon.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// The fault of a response that is not read, or of a large message that has room, although its time is over.
    pub(crate) fn overdue(&self, now: Instant) -> Option<Rejection> {
        if self.unread.is_overdue(now) {
            return Some(Rejection::Unread);
        }
        self.messages.is_overdue(&self.peers.limits, now).then_some(Rejection::Message)
    }

    /// Whether no stream names its node, or none has for a while: a gateway whose filter reports opens a stream for each report.
    /// Called once in the time that a connection may be idle.
    pub(crate) fn is_idle(&self) -> bool {
        let has_waited = self.waits.was_any(self.peers.limits.idle, Instant::now());
        if has_waited || self.streams.load(Ordering::Relaxed) > 0 {
            return false;
        }
        let looks = self.idle_looks.fetch_add(1, Ordering::Relaxed) + 1;
        !self.named.load(Ordering::Relaxed) || looks >= IDLE_LOOKS_BETWEEN_STREAMS
    }
}

/// A stream or an exchange, counted until the last reference is dropped.
pub(crate) struct Admission {
    pub(super) connection: Arc<Connection>,
    is_exchange: bool,
    is_admitted: AtomicBool,
    names: Mutex<NameRoom>,
    pub(super) unread: UnreadOfStream,
}

impl Drop for Admission {
    fn drop(&mut self) {
        for quota in self.connection.quotas() {
            let count = if self.is_exchange { &quota.exchanges } else { &quota.streams };
            count.fetch_sub(1, Ordering::Relaxed);
        }
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

    /// Records the bytes of an exchange.
    pub(super) fn received(&self, bytes: usize) {
        for quota in self.connection.quotas() {
            lock(&quota.bytes).take(bytes as f64);
        }
    }

    /// A wait of the stream for this process, which is no fault of the peer.
    pub(super) fn begin_wait(&self) -> Wait {
        self.connection.waits.begin(self.process_time())
    }

    /// Time in which the stream does not read its messages, because it waits for something else. No large message of the connection
    /// takes it of its peer.
    pub(crate) fn process_time(&self) -> ProcessTime {
        self.connection.messages.wait(Instant::now())
    }

    /// Whether a stream of the connection had to wait within a time before `now`.
    pub(super) fn has_waited(&self, within: Duration, now: Instant) -> bool {
        self.connection.waits.was_any(within, now)
    }

    /// The name of the node of an id. Refuses one that the peer may not be, or that is longer than `most` bytes.
    pub(crate) fn check_node(&self, id: &str, most: usize) -> Result<String, Status> {
        self.peer().may_be(id).inspect_err(|_| self.rejected(Rejection::Node))?;
        if id.is_empty() || id.len() > most {
            return Err(Status::invalid_argument(format!("a node id has 1 to {most} bytes")));
        }
        Ok(self.peer().node_name(id))
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

    /// Ends the whole connection.
    pub(crate) fn close_connection(&self) {
        self.connection.close();
    }

    /// Waits until the peer, its instance and all together may have a message of so many bytes more. It counts until the result is
    /// dropped, for which there is a time. In this order, so that a peer that waits for its own room keeps nothing of what is common.
    pub(crate) async fn receive(&self, bytes: usize) -> MessageRoom {
        let (connection, mut permits) = (&self.connection, Vec::new());
        if connection.peer != Peer::Local {
            for quota in connection.quotas() {
                permits.extend(quota.receive(bytes).await);
            }
            if let Some(part) = &connection.gateways {
                permits.extend(part.receiving.take(bytes).await);
            }
            permits.extend(connection.peers.receiving.take(bytes).await);
        }
        connection.messages.add(permits, Instant::now())
    }

    /// Whether the stream may have so many bytes of names that no resource has. They count until it ends, but for `free` ones, which
    /// not all streams of a peer have.
    pub(crate) fn may_name(&self, bytes: usize, free: usize) -> bool {
        if bytes == 0 || self.connection.peer == Peer::Local {
            return true;
        }
        let mut names = lock(&self.names);
        let free = if free > 0 && names.has_free_part(&self.connection.quota) { free } else { 0 };
        names.grow(bytes.saturating_sub(free), self.connection.quotas())
    }

    /// Records the time that a request of the peer took. Returns the time that its next one has to wait.
    pub(crate) fn worked(&self, took: Duration) -> Duration {
        if self.connection.peer == Peer::Local {
            return Duration::ZERO;
        }
        let waits = self.connection.quotas().map(|quota| quota.worked(took));
        waits.max().unwrap_or_default()
    }

    /// Whether work of before has to be made up for.
    pub(crate) fn owes_work(&self) -> bool {
        !self.worked(Duration::ZERO).is_zero()
    }
}

/// The admission of a request's stream. A stream that was not counted has none.
pub(crate) fn admission<T>(request: &http::Request<T>) -> Result<Arc<Admission>, Status> {
    let counted = request.extensions().get::<Arc<Admission>>().cloned();
    counted.ok_or_else(|| Status::internal("the stream was not counted"))
}
