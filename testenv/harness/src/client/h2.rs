//! HTTP/2 with free choice of headers, duplicates included. Asynchronous inside, blocking outside.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::client_pool::ClientPool;
use super::raw::tunnel_is_open;
use super::{Response, TlsTarget};
use crate::error::{Error, Result};

/// A request's body, with trailers if it has any.
type Payload = BoxBody<Bytes, Infallible>;

/// One HTTP/2 connection over TLS.
#[derive(Debug)]
pub struct H2Client {
    runtime: Arc<Runtime>,
    sender: SendRequest<Payload>,
    driver: JoinHandle<()>,
    authority: String,
    timeout: Duration,
}

/// An answer whose body is still coming, like a watch. Dropping it resets the stream.
#[derive(Debug)]
pub struct H2Stream<'a> {
    client: &'a H2Client,
    /// Status and headers; the body stays empty.
    pub response: Response,
    body: Incoming,
}

impl ClientPool {
    /// One more connection.
    ///
    /// # Errors
    /// As [`H2Client::connect`].
    pub fn connect(&self, target: &TlsTarget) -> Result<H2Client> {
        H2Client::connect_on(Arc::clone(self.runtime()), target)
    }
}

impl H2Client {
    /// Connects with ALPN `h2`.
    ///
    /// # Errors
    /// [`Error::Connection`] or [`Error::Http`], also when the server does not choose `h2`.
    pub fn connect(target: &TlsTarget) -> Result<Self> {
        ClientPool::new(1)?.connect(target)
    }

    pub(super) fn connect_on(runtime: Arc<Runtime>, target: &TlsTarget) -> Result<Self> {
        let target = target.clone().alpn(&["h2"]);
        let limit = target.timeout;
        let connecting = runtime.block_on(async { tokio::time::timeout(limit, open(&target)).await });
        let (sender, driver) = connecting.map_err(|_| Error::Timeout { step: "connecting" })??;
        let authority = target.sni.clone().unwrap_or_else(|| target.address.to_string());
        Ok(Self { runtime, sender, driver, authority, timeout: limit })
    }

    /// Sends `:authority` other than the SNI.
    #[must_use]
    pub fn authority(self, authority: &str) -> Self {
        Self { authority: authority.to_owned(), ..self }
    }

    /// GET with headers.
    ///
    /// # Errors
    /// As [`H2Client::request`].
    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<Response> {
        let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        self.request("GET", path, &headers, b"")
    }

    /// Sends one request and reads the whole answer. A header may be given several times; the order among equal names
    /// is kept.
    ///
    /// # Errors
    /// [`Error::Http`]: the request cannot be expressed, or the stream was reset. [`Error::Timeout`].
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &[u8])], body: &[u8]) -> Result<Response> {
        let mut stream = self.open(method, path, headers, body)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.next_chunk(self.timeout)? {
            bytes.extend(chunk);
        }
        Ok(Response { body: bytes, ..stream.response })
    }

    /// Sends one request with trailers behind its body and reads the headers of the answer.
    ///
    /// # Errors
    /// As [`H2Client::request`].
    pub fn open_with_trailers(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &[u8])],
        body: &[u8],
        trailers: &[(&str, &[u8])],
    ) -> Result<H2Stream<'_>> {
        let trailers = header_map(trailers)?;
        let request = self.build(method, path, headers, body)?;
        self.send(request.map(|body| body.with_trailers(std::future::ready(Some(Ok(trailers)))).boxed()))
    }

    /// Sends one request and reads the headers of the answer only.
    ///
    /// # Errors
    /// As [`H2Client::request`].
    pub fn open(&self, method: &str, path: &str, headers: &[(&str, &[u8])], body: &[u8]) -> Result<H2Stream<'_>> {
        self.send(self.build(method, path, headers, body)?)
    }

    /// Asks for a protocol as RFC 8441 has it for upgrades over HTTP/2, whether the server offers that or not.
    ///
    /// # Errors
    /// As [`H2Client::request`].
    pub fn extended_connect(&self, protocol: &'static str, path: &str) -> Result<H2Stream<'_>> {
        let mut request = self.build("CONNECT", path, &[], b"")?;
        request.extensions_mut().insert(hyper::ext::Protocol::from_static(protocol));
        self.send(request)
    }

    fn send(&self, request: hyper::Request<Payload>) -> Result<H2Stream<'_>> {
        // Each clone is a stream of the same connection.
        let mut sender = self.sender.clone();
        let limit = self.timeout;
        let answer = self.runtime.block_on(async {
            tokio::time::timeout(limit, async {
                sender.ready().await?;
                sender.send_request(request).await
            })
            .await
        });
        let answer = answer.map_err(|_| Error::Timeout { step: "waiting for headers" })?;
        let answer = answer.map_err(|error| failed("waiting for headers", &chain(&error)))?;
        let (parts, body) = answer.into_parts();
        let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_owned()));
        let response = Response { status: parts.status.as_u16(), headers: headers.collect(), body: Vec::new() };
        Ok(H2Stream { client: self, response, body })
    }

    /// Sends many requests, up to `at_once` at a time, and reads the whole answers; they come in the requests' order.
    pub fn burst(&self, requests: Vec<Outgoing>, at_once: usize) -> Vec<Result<Response>> {
        self.timed_burst(requests, at_once).into_iter().map(|timed| timed.answer).collect()
    }

    /// As [`H2Client::burst`], with the time of each response.
    pub fn timed_burst(&self, requests: Vec<Outgoing>, at_once: usize) -> Vec<Timed> {
        let lanes = at_once.clamp(1, requests.len().max(1));
        let mut queues: Vec<Vec<(usize, Outgoing)>> = (0..lanes).map(|_| Vec::new()).collect();
        for (index, request) in requests.into_iter().enumerate() {
            if let Some(queue) = queues.get_mut(index % lanes) {
                queue.push((index, request));
            }
        }
        let mut answers: Vec<(usize, Timed)> = self.runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for queue in queues {
                let built = queue.into_iter().map(|(index, request)| {
                    let headers: Vec<_> =
                        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
                    (index, self.build(&request.method, &request.path, &headers, &request.body))
                });
                tasks.spawn(lane(self.sender.clone(), built.collect(), self.timeout));
            }
            tasks.join_all().await.into_iter().flatten().collect()
        });
        answers.sort_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Whether the connection has ended: closed, or drained after a GOAWAY.
    pub fn is_closed(&self) -> bool {
        self.driver.is_finished() || self.sender.is_closed()
    }

    fn build(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &[u8])],
        body: &[u8],
    ) -> Result<hyper::Request<Payload>> {
        let bad = |reason: String| failed("building a request", &reason);
        let mut request = hyper::Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.authority))
            .body(Full::new(Bytes::copy_from_slice(body)).boxed())
            .map_err(|error| bad(error.to_string()))?;
        *request.headers_mut() = header_map(headers)?;
        Ok(request)
    }
}

fn header_map(lines: &[(&str, &[u8])]) -> Result<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        let bad = |reason: String| failed("building a request", &format!("{name}: {reason}"));
        let value = HeaderValue::from_bytes(value).map_err(|error| bad(error.to_string()))?;
        map.append(HeaderName::from_bytes(name.as_bytes()).map_err(|error| bad(error.to_string()))?, value);
    }
    Ok(map)
}

impl H2Stream<'_> {
    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// [`Error::Http`]: the stream was reset. [`Error::Timeout`]: nothing came in time.
    pub fn next_chunk(&mut self, deadline: Duration) -> Result<Option<Vec<u8>>> {
        loop {
            let frame = self.client.runtime.block_on(async { tokio::time::timeout(deadline, self.body.frame()).await });
            match frame.map_err(|_| Error::Timeout { step: "waiting for the body" })? {
                None => return Ok(None),
                Some(Err(error)) => return Err(failed("reading the body", &chain(&error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data.to_vec())),
                    // Trailers are of no interest.
                    Err(_) => continue,
                },
            }
        }
    }
}

/// An answer of a [`H2Client::timed_burst`].
#[derive(Debug)]
pub struct Timed {
    /// The answer, or why there is none.
    pub answer: Result<Response>,
    /// Since its request was the next of its lane.
    pub took: Duration,
}

/// One request of a [`H2Client::burst`].
#[derive(Debug, Clone, Default)]
pub struct Outgoing {
    /// Method.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Header lines.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Body.
    pub body: Vec<u8>,
}

impl Outgoing {
    /// GET with headers.
    pub fn get(path: &str, headers: &[(&str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_owned())).collect();
        Self { method: "GET".to_owned(), path: path.to_owned(), headers, body: Vec::new() }
    }
}

type Built = (usize, Result<hyper::Request<Payload>>);

/// One request after the other, each within `limit`.
async fn lane(sender: SendRequest<Payload>, requests: Vec<Built>, limit: Duration) -> Vec<(usize, Timed)> {
    let mut answers = Vec::with_capacity(requests.len());
    for (index, request) in requests {
        let asked = Instant::now();
        let answer = match request {
            Ok(request) => tokio::time::timeout(limit, exchange(sender.clone(), request))
                .await
                .unwrap_or_else(|_| Err(Error::Timeout { step: "waiting for an answer" })),
            Err(error) => Err(error),
        };
        answers.push((index, Timed { answer, took: asked.elapsed() }));
    }
    answers
}

async fn exchange(mut sender: SendRequest<Payload>, request: hyper::Request<Payload>) -> Result<Response> {
    let failure = |error: hyper::Error| failed("waiting for an answer", &chain(&error));
    sender.ready().await.map_err(failure)?;
    let (parts, body) = sender.send_request(request).await.map_err(failure)?.into_parts();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_owned())).collect();
    let body = body.collect().await.map_err(failure)?.to_bytes().to_vec();
    Ok(Response { status: parts.status.as_u16(), headers, body })
}

type Opened = (SendRequest<Payload>, JoinHandle<()>);

async fn open(target: &TlsTarget) -> Result<Opened> {
    let peer = target.address;
    let mut tcp = TcpStream::connect(peer).await.map_err(Error::connection("connecting to", peer))?;
    tcp.write_all(&target.preamble).await.map_err(Error::connection("writing to", peer))?;
    if target.is_tunnel {
        read_tunnel_answer(&mut tcp).await?;
    }
    let tls = TlsConnector::from(target.config()?)
        .connect(target.server_name()?, tcp)
        .await
        .map_err(Error::connection("handshaking with", peer))?;
    if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(failed("connecting", "the server did not choose h2"));
    }
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(tls))
        .await
        .map_err(|error| failed("connecting", &chain(&error)))?;
    let driver = tokio::spawn(async move {
        // How the connection ended shows in the requests on it.
        let _ = connection.await;
    });
    Ok((sender, driver))
}

async fn read_tunnel_answer(tcp: &mut TcpStream) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.map_err(|error| failed("opening a tunnel", &error.to_string()))?);
    }
    let line = String::from_utf8_lossy(&head).into_owned();
    tunnel_is_open(line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0))
}

/// An error with its causes, because hyper's own text says little.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn failed(step: &'static str, reason: &str) -> Error {
    Error::Http { step, reason: reason.to_owned() }
}
