//! The layers between the sockets and the gRPC services: connections that end when they are idle, streams that are counted
//! before anything of them is read, and responses that are bounded in bytes until the peer reads them.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use portcullis_report::EXCHANGE_LIMITS;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::transport::server::Connected;

use super::connection::{Admission, Connection};
use super::reading::ResponseRoom;
use super::receiving::bounded;
use crate::limits::Rejection;
use crate::peer::Peer;

/// The transport of a connection.
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

/// An admitted connection. It ends when no stream of it names its node for a while, when a response is not read in time, and when a large
/// message has room for too long.
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

    /// Whether it may go on. Asked whenever something is read or written: with a peer that does not read, nothing else is polled.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.look.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let (is_idle, overdue) = (self.connection.is_idle(), self.connection.overdue(now.into_std()));
            let fault = overdue.or(is_idle.then_some(Rejection::Idle));
            if let Some(fault) = fault.filter(|_| !self.connection.is_closed()) {
                self.connection.peers.rejected(fault);
                self.connection.close();
            }
            self.look.as_mut().reset(now + self.connection.peers.limits.idle);
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
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        match &mut self.get_mut().transport {
            Transport::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        match &mut self.get_mut().transport {
            Transport::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        match &mut self.get_mut().transport {
            Transport::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// A service behind the bounds.
#[derive(Clone)]
pub(crate) struct Admitted<S> {
    pub(crate) service: S,
    /// Most bytes of a stream before its node is let in.
    pub(crate) introduction: usize,
}

impl<S: NamedService> NamedService for Admitted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Admitted<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let admission = match opened(&request) {
            Ok(admission) => admission,
            Err(status) => return Box::pin(std::future::ready(Ok(status.into_http()))),
        };
        request.extensions_mut().insert(Arc::clone(&admission));
        let introduction = self.introduction;
        Box::pin(self.service.call(request.map(|body| bounded(body, admission, introduction))))
    }
}

/// Counts a request as a stream or as an exchange.
fn opened<B>(request: &http::Request<B>) -> Result<Arc<Admission>, Status> {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let is_exchange = request.uri().path() == EXCHANGE_LIMITS;
    let open = |connection: Arc<Connection>| {
        let opened = if is_exchange { connection.open_exchange() } else { connection.open_stream() };
        opened.inspect_err(|excess| connection.peers.rejected(*excess))
    };
    let opened = connection.ok_or(Rejection::Node).and_then(open);
    opened.map_err(|_| Status::resource_exhausted("too many streams of this peer"))
}

/// Requests of no service. Each counts as a stream that is opened, so that a peer that makes them without end is disconnected.
#[derive(Clone)]
pub(crate) struct UnknownPaths;

impl<B> Service<http::Request<B>> for UnknownPaths {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let refusal = opened(&request).err().unwrap_or_else(|| Status::unimplemented("there is no such service"));
        std::future::ready(Ok(refusal.into_http()))
    }
}

/// A response, and the room that it takes.
pub(crate) struct QueuedResponse<T> {
    pub(crate) content: Result<T, Status>,
    pub(crate) room: ResponseRoom,
}

/// The stream from which the transport takes responses. It asks for the next one when most of the last one is written, not
/// before.
pub(crate) struct ResponseStream<T> {
    queued: mpsc::Receiver<QueuedResponse<T>>,
    /// Of what was taken last.
    room: ResponseRoom,
    /// The stream counts for as long as something of it waits here.
    _admission: Arc<Admission>,
}

impl<T> ResponseStream<T> {
    pub(crate) fn new(queued: mpsc::Receiver<QueuedResponse<T>>, admission: Arc<Admission>) -> Self {
        Self { queued, room: ResponseRoom::default(), _admission: admission }
    }
}

impl<T> Stream for ResponseStream<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.room = ResponseRoom::default();
        self.queued.poll_recv(context).map(|response| {
            let response = response?;
            self.room = response.room;
            Some(response.content)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::connection::Peers;
    use super::*;
    use crate::limits::Limits;
    use crate::metrics::OptionalMetrics;

    /// HTTP/2 reads nothing while it has to write.
    #[tokio::test]
    async fn connection_whose_peer_does_not_read_ends_while_it_writes() {
        let limits = Limits { idle: Duration::from_millis(20), ..Limits::default() };
        let connection = Peers::new(limits, OptionalMetrics::default()).connect(Peer::Local).unwrap();
        let (own, _peer) = UnixStream::pair().unwrap();
        let mut admitted = AdmittedConnection::new(Transport::Unix(own), connection);
        let written = admitted.write_all(&vec![0; 64 << 20]).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        assert!(admitted.flush().await.is_err() && admitted.shutdown().await.is_err());
    }

    /// Nothing polls the stream of the message, as if it waited for something else.
    #[tokio::test]
    async fn connection_ends_when_a_large_message_takes_too_long() {
        let (idle, message_time) = (Duration::from_millis(20), Duration::from_millis(30));
        for limits in [
            Limits { idle, message_time, ..Limits::default() },
            Limits { idle, message_wait: message_time, ..Limits::default() },
        ] {
            let connection = Peers::new(limits, OptionalMetrics::default()).connect(Peer::Local).unwrap();
            let stream = connection.open_stream().ok().unwrap();
            stream.admit();
            let _room = stream.receive(1 << 20).await;
            let _waits = (message_time != stream.limits().message_time).then(|| stream.process_time());
            let (own, _peer) = UnixStream::pair().unwrap();
            let mut admitted = AdmittedConnection::new(Transport::Unix(own), connection);
            let read = admitted.read(&mut [0]).await;
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        }
    }
}
