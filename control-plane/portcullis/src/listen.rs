//! Serves pages at a port that any client may reach. `serve` and `agent` share it, because a kubelet probes both: a client that
//! blocks the port could have them restarted.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use portcullis_core::identity::UserInfo;
use portcullis_xds::ConnectionTable;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::page_tls::{CertificateUser, PageTls, begins_handshake};

/// The number of open connections, far below the usual limit of file descriptors.
const MAX_CONNECTIONS: usize = 256;
/// The time limit for the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which a connection takes requests.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(60);
/// The time limit for the last response of a connection.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a connection could not be accepted, for example for want of a file descriptor.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The connection of a request; each request carries it among its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The other end, as the system knows it.
    pub(crate) peer: SocketAddr,
    /// Whether it is encrypted.
    pub(crate) is_tls: bool,
    certificate: Option<Arc<CertificateUser>>,
}

impl Connection {
    /// A connection without TLS.
    pub(crate) fn plain(peer: SocketAddr) -> Self {
        Self { peer, is_tls: false, certificate: None }
    }

    /// The user of the client's certificate, while it is valid.
    pub(crate) fn certificate_user(&self) -> Option<&UserInfo> {
        self.certificate.as_ref()?.user()
    }
}

/// Serves pages until it is dropped. With `tls`, a connection that begins with a handshake is encrypted; others are plain. Clients that send nothing, or read nothing, block no other client for long, and however
/// many of them connect, a new client gets in.
pub(crate) async fn serve(listener: TcpListener, pages: Router, tls: Option<Arc<PageTls>>) {
    let mut open = ConnectionTable::new(MAX_CONNECTIONS, MAX_CONNECTIONS);
    let mut tasks = JoinSet::new();
    loop {
        let (stream, source) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        open.retain(|task: &AbortHandle| !task.is_finished());
        let task = tasks.spawn(serve_stream(stream, source, pages.clone(), tls.clone()));
        if let Some(evicted) = open.insert(source.ip(), |_| task) {
            evicted.abort();
        }
    }
}

async fn serve_stream(stream: TcpStream, peer: SocketAddr, pages: Router, tls: Option<Arc<PageTls>>) {
    let Some(tls) = tls else { return serve_connection(stream, Connection::plain(peer), pages).await };
    let encrypted = async {
        let begins = begins_handshake(&stream).await.ok()?;
        if begins { tls.accept(stream).await.ok().map(Ok) } else { Some(Err(stream)) }
    };
    // Errors at a connection's beginning are the client's.
    match tokio::time::timeout(HEADER_TIMEOUT, encrypted).await {
        Ok(Some(Ok((stream, certificate)))) => {
            let certificate = certificate.map(Arc::new);
            serve_connection(stream, Connection { peer, is_tls: true, certificate }, pages).await;
        }
        Ok(Some(Err(stream))) => serve_connection(stream, Connection::plain(peer), pages).await,
        Ok(None) | Err(_) => {}
    }
}

async fn serve_connection<S>(stream: S, connection: Connection, pages: Router)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let pages = TowerToHyperService::new(pages);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(connection.clone());
        pages.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // Errors at its end are the client's.
    if tokio::time::timeout(CONNECTION_LIFETIME, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, connection).await;
    }
}
