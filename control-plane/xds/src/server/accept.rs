//! Accepts connections, from the Unix socket and over mutual TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::server::Acceptor;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_rustls::LazyConfigAcceptor;

use crate::admission::{AdmittedConnection, ConnectionTable, Peers, Transport};
use crate::limits::Rejection;
use crate::lock::lock;
use crate::tls::Credentials;

/// The pause after a connection could not be accepted, mostly for want of descriptors.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The shortest time between two log lines about clients that were refused before authentication.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The queue of admitted connections.
type ConnectionSender = mpsc::Sender<io::Result<AdmittedConnection>>;

/// Accepts connections on the Unix socket, whose file permissions authenticate them.
pub(super) async fn accept_unix(listener: UnixListener, peers: Arc<Peers>, connections: ConnectionSender) {
    while !connections.is_closed() {
        match listener.accept().await {
            Ok((stream, _)) => admit(Transport::Unix(stream), &peers, &connections).await,
            Err(error) => pause_after(&error).await,
        }
    }
}

/// Accepts connections with a trusted client certificate. Handshakes run side by side, so that a silent client delays no
/// other; [`ConnectionTable`] bounds them.
pub(super) async fn accept_tls(
    listener: TcpListener,
    credentials: Arc<Credentials>,
    peers: Arc<Peers>,
    connections: ConnectionSender,
) {
    let limits = &peers.limits;
    let handshakes = Mutex::new(ConnectionTable::new(limits.handshakes, limits.handshakes_per_source));
    let acceptor = Arc::new(TlsAcceptor { handshakes, credentials, peers, log: RateLimitedLog::default() });
    while !connections.is_closed() {
        match listener.accept().await {
            Ok((stream, from)) => TlsAcceptor::spawn(&acceptor, stream, from, connections.clone()),
            Err(error) => {
                if let Some(evicted) = lock(&acceptor.handshakes).evict() {
                    evicted.abort();
                    acceptor.reject(Rejection::Handshakes, "the system has no more room");
                }
                pause_after(&error).await;
            }
        }
    }
}

struct TlsAcceptor {
    handshakes: Mutex<ConnectionTable<AbortHandle>>,
    credentials: Arc<Credentials>,
    peers: Arc<Peers>,
    log: RateLimitedLog,
}

impl TlsAcceptor {
    fn spawn(this: &Arc<Self>, stream: TcpStream, from: SocketAddr, connections: ConnectionSender) {
        let spawn = |number| {
            let this = Arc::clone(this);
            let task = tokio::spawn(async move {
                let time = this.peers.limits.handshake_time;
                let handshake = tokio::time::timeout(time, this.handshake(stream, number)).await;
                lock(&this.handshakes).remove(number);
                match handshake {
                    Ok(Ok(transport)) => admit(transport, &this.peers, &connections).await,
                    Ok(Err(error)) => this.reject(Rejection::HandshakeFailed, &error.to_string()),
                    Err(_) => this.reject(Rejection::HandshakeTime, "its handshake took too long"),
                }
            });
            task.abort_handle()
        };
        // The lock is held until the handshake is in the table: its task cannot remove it before.
        let evicted = lock(&this.handshakes).insert(from.ip(), spawn);
        if let Some(evicted) = evicted {
            evicted.abort();
            this.reject(Rejection::Handshakes, "its handshake was ended in favour of newer ones");
        }
    }

    async fn handshake(&self, stream: TcpStream, number: u64) -> io::Result<Transport> {
        // Small messages go back and forth.
        stream.set_nodelay(true)?;
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        lock(&self.handshakes).mark_active(number);
        let stream = hello.into_stream(self.credentials.newest()).await?;
        Ok(Transport::Tls(Box::new(stream)))
    }

    fn reject(&self, reason: Rejection, why: &str) {
        self.peers.rejected(reason);
        if let Some(unlogged) = self.log.allow(Instant::now()) {
            tracing::warn!(why, unlogged, "an xDS client was rejected");
        }
    }
}

/// Admits a connection, if its peer may have another one.
async fn admit(transport: Transport, peers: &Arc<Peers>, connections: &ConnectionSender) {
    match peers.connect(transport.peer()) {
        Ok(connection) => drop(connections.send(Ok(AdmittedConnection::new(transport, connection))).await),
        Err(reason) => {
            tracing::warn!(
                by = transport.peer().describe(),
                "a connection was rejected: this peer has too many, or all have"
            );
            peers.rejected(reason);
        }
    }
}

async fn pause_after(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
}

/// Keeps unauthenticated clients from filling the log.
#[derive(Default)]
struct RateLimitedLog(Mutex<(Option<Instant>, u64)>);

impl RateLimitedLog {
    /// Whether a line may be written now, with the number of lines that were left out since the last one.
    fn allow(&self, now: Instant) -> Option<u64> {
        let mut state = lock(&self.0);
        let (last, unlogged) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < LOG_INTERVAL) {
            *unlogged += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_writes_one_line_a_second_with_the_number_left_out() {
        let (log, start) = (RateLimitedLog::default(), Instant::now());
        let at = |millis| log.allow(start + Duration::from_millis(millis));
        assert_eq!([at(0), at(1), at(999), at(1_000), at(2_000)], [Some(0), None, None, Some(2), Some(0)]);
    }
}
