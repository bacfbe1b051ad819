//! Lets connections in, from the Unix socket and over mutual TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::server::Acceptor;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_rustls::LazyConfigAcceptor;

use super::connection::Peers;
use super::limits::Rejection;
use super::link::{AdmittedConnection, Transport};
use super::pending_handshakes::{PendingHandshakes, Source};
use crate::registry::lock;
use crate::tls::Credentials;

/// How long to wait after the system refused a connection, for want of descriptors mostly.
const BREATH: Duration = Duration::from_millis(100);
/// Between two lines of the log about strangers.
const HUSH: Duration = Duration::from_secs(1);

/// What takes connections that were let in.
pub(super) type Links = mpsc::Sender<io::Result<AdmittedConnection>>;

/// Lets in whoever may use the socket.
pub(super) async fn unix(listener: UnixListener, peers: Arc<Peers>, links: Links) {
    while !links.is_closed() {
        match listener.accept().await {
            Ok((stream, _)) => enter(Transport::Unix(stream), &peers, &links).await,
            Err(error) => refused(&error).await,
        }
    }
}

/// Lets in whoever has a certificate of ours. Everybody is accepted at once, so that nobody waits for those who say
/// nothing; who has to go for them says the lobby.
pub(super) async fn tls(listener: TcpListener, credentials: Arc<Credentials>, peers: Arc<Peers>, links: Links) {
    let door = Arc::new(Door {
        lobby: Mutex::new(PendingHandshakes::new(&peers.limits)),
        credentials,
        peers,
        log: Log::default(),
    });
    while !links.is_closed() {
        match listener.accept().await {
            Ok((stream, from)) => Door::greet(&door, stream, from, links.clone()),
            Err(error) => {
                if let Some(gone) = lock(&door.lobby).make_room() {
                    gone.abort();
                    door.rejected(Rejection::Handshakes, "the system has no more room");
                }
                refused(&error).await;
            }
        }
    }
}

struct Door {
    lobby: Mutex<PendingHandshakes<AbortHandle>>,
    credentials: Arc<Credentials>,
    peers: Arc<Peers>,
    log: Log,
}

impl Door {
    fn greet(door: &Arc<Self>, stream: TcpStream, from: SocketAddr, links: Links) {
        let shake = |number| {
            let door = Arc::clone(door);
            let task = tokio::spawn(async move {
                let time = door.peers.limits.handshake_time;
                let shaken = tokio::time::timeout(time, door.shake(stream, number)).await;
                lock(&door.lobby).leave(number);
                match shaken {
                    Ok(Ok(transport)) => enter(transport, &door.peers, &links).await,
                    Ok(Err(error)) => door.rejected(Rejection::HandshakeFailed, &error.to_string()),
                    Err(_) => door.rejected(Rejection::HandshakeTime, "its handshake took too long"),
                }
            });
            task.abort_handle()
        };
        // The lock is held until the newcomer is in: its task cannot leave before.
        let gone = lock(&door.lobby).enter(Source::of(from.ip()), shake);
        if let Some(gone) = gone {
            gone.abort();
            door.rejected(Rejection::Handshakes, "its handshake gave way to newer ones");
        }
    }

    async fn shake(&self, stream: TcpStream, number: u64) -> io::Result<Transport> {
        // Small messages go back and forth.
        stream.set_nodelay(true)?;
        let greeting = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        lock(&self.lobby).mark_spoken(number);
        let stream = greeting.into_stream(self.credentials.newest()).await?;
        Ok(Transport::Tls(Box::new(stream)))
    }

    fn rejected(&self, excess: Rejection, why: &str) {
        self.peers.rejected(excess);
        if let Some(unsaid) = self.log.may_speak(Instant::now()) {
            tracing::warn!(why, unsaid, "an xDS client was turned away");
        }
    }
}

/// Lets a connection in, if its peer may have another one.
async fn enter(transport: Transport, peers: &Arc<Peers>, links: &Links) {
    match peers.connect(transport.peer()) {
        Ok(connection) => drop(links.send(Ok(AdmittedConnection::new(transport, connection))).await),
        Err(excess) => {
            tracing::warn!(
                by = transport.peer().told(),
                "a connection was refused: this peer has too many, or all have"
            );
            peers.rejected(excess);
        }
    }
}

async fn refused(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(BREATH).await;
}

/// Keeps strangers from filling the log.
#[derive(Default)]
struct Log(Mutex<(Option<Instant>, u64)>);

impl Log {
    /// Whether a line may be written now, and how many were not written since the last one.
    fn may_speak(&self, now: Instant) -> Option<u64> {
        let mut state = lock(&self.0);
        let (last, unsaid) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < HUSH) {
            *unsaid += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_says_how_many_were_left_out() {
        let (log, start) = (Log::default(), Instant::now());
        let at = |millis| log.may_speak(start + Duration::from_millis(millis));
        assert_eq!([at(0), at(1), at(999), at(1_000), at(2_000)], [Some(0), None, None, Some(2), Some(0)]);
    }
}
