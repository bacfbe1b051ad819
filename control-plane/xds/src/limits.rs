use std::time::Duration;

/// The bounds of unauthenticated clients and of peers. The defaults are meant for thousands of Envoys; `docs/operations.md`
/// lists them.
///
/// A peer is the set of clients whose certificates have the same names. Those whose certificates name an instance of the fleet have the
/// instance's share of connections, streams, unread bytes and work together, and take nothing from that of others. All processes that may use the Unix socket are one
/// peer, whose connections have the bound of all network connections together, and which is not paced.
#[derive(Clone, Debug)]
pub struct Limits {
    /// TLS handshakes under way. Over it the oldest of the source with most of them ends, those without a message first.
    pub handshakes: usize,
    /// The same for one source: an IPv4 address, or the first 64 bits of an IPv6 address.
    pub handshakes_per_source: usize,
    /// How long a handshake may take.
    pub handshake_time: Duration,
    /// Connections whose client certificate was verified and names no instance and no Gateway.
    pub connections: usize,
    /// The same of those that name Gateways.
    pub connections_of_gateways: usize,
    /// The same of the Gateways of one namespace.
    pub connections_per_namespace: usize,
    /// The same of one peer.
    pub connections_per_peer: usize,
    /// Streams of one connection.
    pub streams_per_connection: u32,
    /// Streams of one peer.
    pub streams_per_peer: usize,
    /// Streams that a peer may open in a burst; each second makes up for one.
    pub stream_burst: u32,
    /// How long a connection may be without a stream that has said which node it is, and a stream without saying so.
    pub idle: Duration,
    /// Bytes of a stream before its node is let in.
    pub introduction: usize,
    /// Bytes of a message afterwards.
    pub message: usize,
    /// Bytes of large messages, those above 64 KiB, that come and are not decoded yet, of one peer.
    pub receiving: usize,
    /// The same of one instance, or of the Gateways of one namespace.
    pub receiving_per_instance: usize,
    /// The same of all network peers together.
    pub receiving_of_all: usize,
    /// How long a large message may take from its beginning to its end, without the time in which this process does not read it.
    pub message_time: Duration,
    /// How long the room of a large message may be kept in that time, and until the message is decoded.
    pub message_wait: Duration,
    /// Bytes of a stream of health reports before its node is let in.
    pub health_introduction: usize,
    /// Bytes of a health report.
    pub report: usize,
    /// Bytes of a message of a gateway's report about itself.
    pub activity: usize,
    /// Shortest time between two reports of a stream; who sends more is read later.
    pub report_pause: Duration,
    /// The same between two reports of the use of limits that gateways share.
    pub limits_pause: Duration,
    /// Exchanges about limits of one peer that may be under way: each is a request of its own, and none of the streams above.
    pub exchanges_per_peer: usize,
    /// Exchanges that a peer may begin in a burst; each second makes up for half of them.
    pub exchange_burst: u32,
    /// Bytes of the reports in them in a burst; each second makes up for half of them.
    pub exchange_bytes: usize,
    /// Names of resources that a stream may ask for or claim to have.
    pub names: usize,
    /// Bytes of names and versions that all streams of a peer have in memory and that no resource has.
    pub name_bytes: usize,
    /// Bytes of responses that a peer has not read yet. One that is larger goes alone.
    pub unread: usize,
    /// How long a response may stay unread, beyond the time by `reading_rate`. Envoy reads no response while its main thread handles
    /// another one, which takes some seconds with thousands of clusters.
    pub reading: Duration,
    /// Bytes a second that a peer reads at least.
    pub reading_rate: usize,
    /// How long a response that was read may stay without an answer. Envoy answers clusters when they are warm, with the first health
    /// check of each server, which may take five minutes (`healthCheck.timeout`).
    pub answer: Duration,
    /// Time that a peer's requests may take of this process in a burst; a quarter of the time that passes makes up for it.
    pub work: Duration,
    /// Instances with connections that have a share of their own. Those beyond have one together.
    pub instances: usize,
    /// Connections of one instance.
    pub connections_per_instance: usize,
    /// Streams of one instance.
    pub streams_per_instance: usize,
    /// Exchanges about limits of one instance that may be under way.
    pub exchanges_per_instance: usize,
    /// Bytes of the reports in them in a burst; each second makes up for half of them.
    pub exchange_bytes_per_instance: usize,
    /// Bytes of names and versions that no resource has, of all Envoys of one instance.
    pub name_bytes_per_instance: usize,
    /// Bytes of responses that all Envoys of one instance have not read yet.
    pub unread_per_instance: usize,
    /// The same of all instances together.
    pub unread_of_instances: usize,
    /// The part of that which is kept for each instance with a share of its own, and for those beyond.
    pub unread_kept_per_instance: usize,
    /// Time that the requests of one instance may take in a burst; half of the time that passes makes up for it.
    pub work_per_instance: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes: 512,
            handshakes_per_source: 64,
            handshake_time: Duration::from_secs(10),
            connections: 2_048,
            connections_of_gateways: 2_048,
            connections_per_namespace: 512,
            connections_per_peer: 16,
            streams_per_connection: 8,
            streams_per_peer: 32,
            stream_burst: 100,
            idle: Duration::from_secs(10),
            introduction: 8 << 20,
            message: 16 << 20,
            receiving: 16 << 20,
            receiving_per_instance: 32 << 20,
            receiving_of_all: 256 << 20,
            message_time: Duration::from_secs(30),
            message_wait: Duration::from_secs(90),
            health_introduction: 256 << 10,
            report: 8 << 20,
            activity: 1 << 20,
            report_pause: Duration::from_secs(1),
            limits_pause: Duration::from_millis(50),
            exchanges_per_peer: 32,
            exchange_burst: 400,
            exchange_bytes: 16 << 20,
            names: 100_000,
            name_bytes: 32 << 20,
            unread: 32 << 20,
            reading: Duration::from_secs(60),
            reading_rate: 1 << 20,
            answer: Duration::from_secs(600),
            work: Duration::from_secs(5),
            instances: 100,
            connections_per_instance: 128,
            streams_per_instance: 256,
            exchanges_per_instance: 128,
            exchange_bytes_per_instance: 64 << 20,
            name_bytes_per_instance: 64 << 20,
            unread_per_instance: 64 << 20,
            unread_of_instances: 1 << 30,
            unread_kept_per_instance: 8 << 20,
            work_per_instance: Duration::from_secs(10),
        }
    }
}

/// The reason of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A handshake gave way to newer ones.
    Handshakes,
    /// A handshake took too long.
    HandshakeTime,
    /// A handshake failed: no certificate, none of ours, or no TLS.
    HandshakeFailed,
    /// Too many connections, of the peer or of all.
    Connections,
    /// A connection or stream without a node id.
    Idle,
    /// Too many streams, or too many opened in a short time.
    Streams,
    /// Too many exchanges about limits, or too many bytes in them.
    Exchanges,
    /// A message, or what came before one, was too large.
    Message,
    /// Too many names, or names that are too long.
    Names,
    /// A response was not read in time.
    Unread,
    /// A response stayed without an answer.
    AckState,
    /// A peer says to be a node that it may not be.
    Node,
    /// There is no view for the node: it keeps its last configuration.
    Frozen,
}

impl Rejection {
    /// The words of all of them.
    pub const LABELS: [&'static str; 13] = [
        Self::Handshakes.label(),
        Self::HandshakeTime.label(),
        Self::HandshakeFailed.label(),
        Self::Connections.label(),
        Self::Idle.label(),
        Self::Streams.label(),
        Self::Exchanges.label(),
        Self::Message.label(),
        Self::Names.label(),
        Self::Unread.label(),
        Self::AckState.label(),
        Self::Node.label(),
        Self::Frozen.label(),
    ];

    /// A word for counters.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Handshakes => "handshakes",
            Self::HandshakeTime => "handshake_time",
            Self::HandshakeFailed => "handshake_failed",
            Self::Connections => "connections",
            Self::Idle => "idle",
            Self::Streams => "streams",
            Self::Exchanges => "exchanges",
            Self::Message => "message",
            Self::Names => "names",
            Self::Unread => "unread",
            Self::AckState => "answer",
            Self::Node => "node",
            Self::Frozen => "frozen",
        }
    }
}
