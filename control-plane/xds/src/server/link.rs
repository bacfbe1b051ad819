use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::connection::Connection;
use super::limits::Rejection;
use crate::peer::Peer;

/// What a connection goes over.
pub(crate) enum Transport {
    /// The Unix socket.
    Unix(UnixStream),
    /// Mutual TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    pub(crate) fn peer(&self) -> Peer {
        match self {
            Self::Unix(_) => Peer::Local,
            Self::Tls(stream) => {
                let leaf = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                Peer::of_certificate(leaf.map(AsRef::as_ref).unwrap_or_default())
            }
        }
    }
}

/// A connection that was let in. It ends when nobody on it says for a while which node it is.
pub(crate) struct AdmittedConnection {
    transport: Transport,
    connection: Arc<Connection>,
    look: Pin<Box<Sleep>>,
}

impl AdmittedConnection {
    pub(crate) fn new(transport: Transport, connection: Arc<Connection>) -> Self {
        let look = Box::pin(sleep(connection.peers.limits.idle));
        Self { transport, connection, look }
    }

    /// Whether it may go on.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.look.as_mut().poll(cx).is_ready() {
            if self.connection.is_idle() && !self.connection.is_closed() {
                self.connection.peers.rejected(Rejection::Idle);
                self.connection.close();
            }
            let next = Instant::now() + self.connection.peers.limits.idle;
            self.look.as_mut().reset(next);
        }
        if self.connection.is_closed() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

impl Connected for AdmittedConnection {
    type ConnectInfo = Arc<Connection>;

    fn connect_info(&self) -> Arc<Connection> {
        Arc::clone(&self.connection)
    }
}

impl AsyncRead for AdmittedConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        match &mut self.get_mut().transport {
            Transport::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Transport::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for AdmittedConnection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().transport {
            Transport::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
