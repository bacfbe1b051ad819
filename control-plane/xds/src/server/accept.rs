//! Lets connections in, from the Unix socket and over mutual TLS.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

use super::link::Link;
use crate::tls::Credentials;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Most handshakes at a time; who comes beside them waits.
const HANDSHAKES: usize = 64;
/// How long to wait after the system refused a connection, for want of descriptors mostly.
const BREATH: Duration = Duration::from_millis(100);

/// Lets in whoever may use the socket.
pub(super) async fn unix(listener: UnixListener, links: mpsc::Sender<io::Result<Link>>) {
    while !links.is_closed() {
        match listener.accept().await {
            Ok((stream, _)) => drop(links.send(Ok(Link::Unix(stream))).await),
            Err(error) => refused(&error).await,
        }
    }
}

/// Lets in whoever has a certificate of ours.
pub(super) async fn tls(listener: TcpListener, credentials: Arc<Credentials>, links: mpsc::Sender<io::Result<Link>>) {
    let turns = Arc::new(Semaphore::new(HANDSHAKES));
    while !links.is_closed() {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                refused(&error).await;
                continue;
            }
        };
        let (credentials, links) = (Arc::clone(&credentials), links.clone());
        tokio::spawn(async move {
            let shaken = tokio::time::timeout(HANDSHAKE, shake(stream, &credentials)).await;
            drop(turn);
            match shaken {
                Ok(Ok(link)) => drop(links.send(Ok(link)).await),
                Ok(Err(error)) => tracing::warn!(%error, "an xDS client was turned away"),
                Err(_) => tracing::warn!("an xDS client was turned away: its handshake took too long"),
            }
        });
    }
}

async fn shake(stream: TcpStream, credentials: &Credentials) -> io::Result<Link> {
    // Small messages go back and forth.
    stream.set_nodelay(true)?;
    let acceptor = TlsAcceptor::from(credentials.newest());
    Ok(Link::Tls(Box::new(acceptor.accept(stream).await?)))
}

async fn refused(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(BREATH).await;
}
