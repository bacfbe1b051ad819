//! One HTTP/1.1 request on a connection of its own: to Envoy's admin page, and to the control plane's pages.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The step of a request that failed. The server is busy, starting or stopping, or another program listens there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("the request failed")]
    Exchange(#[from] hyper::Error),
    #[error("the request cannot be built")]
    Request(#[from] hyper::http::Error),
    #[error("the response cannot be read")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no response within {0:?}")]
    Timeout(Duration),
    #[error("the response is {0}")]
    Status(StatusCode),
}

/// The bounds of a whole response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseLimits {
    pub(crate) time: Duration,
    pub(crate) bytes: usize,
}

/// Sends a request and reads the whole response, whatever its status.
pub(crate) async fn request(
    address: impl ToSocketAddrs,
    method: Method,
    path: &str,
    limits: ResponseLimits,
) -> Result<(StatusCode, Bytes), HttpError> {
    let exchange = async { read(send(address, method, path).await?, limits).await };
    timeout(limits.time, exchange).await.map_err(|_| HttpError::Timeout(limits.time))?
}

/// Reads the whole body of a response.
pub(crate) async fn read(
    (response, connection): (Response<Incoming>, JoinHandle<()>),
    limits: ResponseLimits,
) -> Result<(StatusCode, Bytes), HttpError> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, limits.bytes).collect().await.map_err(HttpError::Body)?;
    connection.abort();
    Ok((head.status, body.to_bytes()))
}

/// The body of a page, if the status of the response is a success.
pub(crate) async fn get(address: impl ToSocketAddrs, path: &str, limits: ResponseLimits) -> Result<Bytes, HttpError> {
    let (status, body) = request(address, Method::GET, path, limits).await?;
    if status.is_success() { Ok(body) } else { Err(HttpError::Status(status)) }
}

/// Sends a request; returns the head of the response and the task that drives its connection.
pub(crate) async fn send(
    address: impl ToSocketAddrs,
    method: Method,
    path: &str,
) -> Result<(Response<Incoming>, JoinHandle<()>), HttpError> {
    let stream = TcpStream::connect(address).await.map_err(HttpError::Connect)?;
    // By address: a control plane refuses host names that it was not given.
    let host = stream.peer_addr().map_err(HttpError::Connect)?.to_string();
    let request = Request::builder().method(method).uri(path).header(header::HOST, host).body(Empty::new())?;
    send_on(stream, request).await
}

/// Sends a request on a connection; returns the head of the response and the task that drives the connection.
pub(crate) async fn send_on(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Empty<Bytes>>,
) -> Result<(Response<Incoming>, JoinHandle<()>), HttpError> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    // It ends with the sender; its errors show in the response.
    let driver = tokio::spawn(async move { connection.await.unwrap_or_default() });
    Ok((sender.send_request(request).await?, driver))
}
