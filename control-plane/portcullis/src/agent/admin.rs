//! A client of Envoy's admin page.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Envoy answers from its main thread, which a large configuration keeps busy for a while.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for a client to read a page that is streamed to it.
const STREAM_TIMEOUT: Duration = Duration::from_secs(30);
/// The size limit of a response: statistics of many thousand clusters.
const MAX_RESPONSE: usize = 32 << 20;

/// Why the admin page did not answer as it should. Envoy is busy, starting or ending: ask again later.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdminError {
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("the exchange failed")]
    Exchange(#[from] hyper::Error),
    #[error("the request cannot be expressed")]
    Request(#[from] hyper::http::Error),
    #[error("the answer cannot be read")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no answer within {REQUEST_TIMEOUT:?}")]
    Timeout,
    #[error("{0} was answered")]
    Status(StatusCode),
}

/// Envoy's admin page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admin {
    address: SocketAddr,
}

impl Admin {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// The body of a page.
    pub(super) async fn get(&self, path: &str) -> Result<Bytes, AdminError> {
        let (status, body) = self.ask(Method::GET, path).await?;
        if status.is_success() { Ok(body) } else { Err(AdminError::Status(status)) }
    }

    /// The status of a page, whatever it is.
    pub(super) async fn status(&self, path: &str) -> Result<StatusCode, AdminError> {
        Ok(self.ask(Method::GET, path).await?.0)
    }

    /// Makes Envoy do something.
    pub(super) async fn post(&self, path: &str) -> Result<(), AdminError> {
        let (status, _) = self.ask(Method::POST, path).await?;
        if status.is_success() { Ok(()) } else { Err(AdminError::Status(status)) }
    }

    async fn ask(&self, method: Method, path: &str) -> Result<(StatusCode, Bytes), AdminError> {
        timeout(REQUEST_TIMEOUT, self.exchange(method, path)).await.map_err(|_| AdminError::Timeout)?
    }

    /// The body of a page as it comes. `guard` is dropped at its end, at the latest after half a minute.
    pub(super) async fn stream(&self, path: &str, guard: impl Send + 'static) -> Result<Incoming, AdminError> {
        let sent = timeout(REQUEST_TIMEOUT, self.send(Method::GET, path)).await;
        let (answer, connection) = sent.map_err(|_| AdminError::Timeout)??;
        tokio::spawn(async move {
            let _guard = guard;
            let abort = connection.abort_handle();
            // How it ends shows in the body.
            if timeout(STREAM_TIMEOUT, connection).await.is_err() {
                abort.abort();
            }
        });
        if answer.status().is_success() { Ok(answer.into_body()) } else { Err(AdminError::Status(answer.status())) }
    }

    async fn exchange(&self, method: Method, path: &str) -> Result<(StatusCode, Bytes), AdminError> {
        let (answer, connection) = self.send(method, path).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, MAX_RESPONSE).collect().await.map_err(AdminError::Body)?;
        connection.abort();
        Ok((head.status, body.to_bytes()))
    }

    /// Sends a request on a connection of its own, whose driver is given along.
    async fn send(&self, method: Method, path: &str) -> Result<(Response<Incoming>, JoinHandle<()>), AdminError> {
        let stream = TcpStream::connect(self.address).await.map_err(AdminError::Connect)?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string())
            .body(Empty::<Bytes>::new())?;
        // Ends with the sender; how it ends shows in the answer.
        let driver = tokio::spawn(async move { connection.await.unwrap_or_default() });
        Ok((sender.send_request(request).await?, driver))
    }
}
