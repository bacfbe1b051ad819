//! Serves pages at a port that any client may reach. `serve` and `agent` share it, because a kubelet probes both: a client that
//! blocks the port could have them restarted.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use portcullis_xds::ConnectionTable;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

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

/// Serves pages until it is dropped. Clients that send nothing, or read nothing, block no other client for long, and however
/// many of them connect, a new client gets in.
pub(crate) async fn serve(listener: TcpListener, pages: Router) {
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
        let task = tasks.spawn(serve_connection(stream, pages.clone()));
        if let Some(evicted) = open.insert(source.ip(), |_| task) {
            evicted.abort();
        }
    }
}

async fn serve_connection(stream: TcpStream, pages: Router) {
    let service = TowerToHyperService::new(pages);
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
