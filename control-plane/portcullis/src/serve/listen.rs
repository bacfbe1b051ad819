use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Most connections at a time; further ones are closed at once. Far below what would leave Envoys without a file descriptor.
const MAX_CONNECTIONS: usize = 256;
/// How long a client may take to say what it wants.
const HEADERS: Duration = Duration::from_secs(5);
/// How long a connection may live, whatever happens on it.
const LIFE: Duration = Duration::from_secs(60);
/// How long to wait after a connection could not be accepted, as when there is no file descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves pages until it is dropped. Clients that say nothing, or read nothing, hold nobody up for long.
pub(super) async fn serve(listener: TcpListener, pages: Router) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let pages = pages.clone();
        tokio::spawn(async move {
            converse(stream, pages).await;
            drop(place);
        });
    }
}

async fn converse(stream: TcpStream, pages: Router) {
    let service = TowerToHyperService::new(pages);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    // How it ends is the client's affair.
    let _ = tokio::time::timeout(LIFE, connection).await;
}
