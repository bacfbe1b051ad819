use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{LoadProfile, Protocol};
use crate::error::Result;

/// A connection that closes again and again is broken, not merely closing.
const MAX_RECONNECTS: usize = 5;

type Body = Full<Bytes>;
pub(super) type Failed = String;
/// The answer, or the request if no server took it.
type Sent = std::result::Result<std::result::Result<Answer, Request<Body>>, Failed>;

/// The connections of a lane.
#[derive(Debug)]
pub(super) struct LoadConnection {
    pub(super) lane: LoadProfile,
    tls: Arc<ClientConfig>,
    shared: tokio::sync::Mutex<Option<http2::SendRequest<Body>>>,
    idle: Mutex<Vec<http1::SendRequest<Body>>>,
    connections: AtomicUsize,
}

/// An answer's head, and what its connection needs to be used again.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    own: Option<http1::SendRequest<Body>>,
}

impl LoadConnection {
    pub(super) fn new(lane: LoadProfile) -> Result<Self> {
        let tls = lane.target.config()?;
        Ok(Self { lane, tls, shared: Default::default(), idle: Mutex::default(), connections: AtomicUsize::new(0) })
    }

    /// How often this lane connected.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// Sends a GET and waits for the head of its answer.
    pub(super) async fn send(&self, path: &str) -> std::result::Result<Answer, Failed> {
        let mut request = self.request(path)?;
        for _ in 0..MAX_RECONNECTS {
            let unsent = match self.lane.protocol {
                Protocol::Http2 => self.send_shared(request).await?,
                Protocol::Http1 => self.send_alone(request).await?,
            };
            request = match unsent {
                Ok(answer) => return Ok(answer),
                Err(unsent) => unsent,
            };
        }
        Err("every new connection closed at once".to_owned())
    }

    /// Keeps an HTTP/1.1 connection for the next request, once the answer was read.
    pub(super) async fn recycle(&self, own: Option<http1::SendRequest<Body>>) {
        let Some(mut own) = own else { return };
        if own.ready().await.is_ok() {
            self.idle().push(own);
        }
    }

    fn request(&self, path: &str) -> std::result::Result<Request<Body>, Failed> {
        let host = self.lane.target.sni.clone().unwrap_or_else(|| self.lane.target.address.to_string());
        let builder = match self.lane.protocol {
            Protocol::Http2 => Request::builder().uri(format!("https://{host}{path}")),
            Protocol::Http1 => Request::builder().uri(path).header("host", host),
        };
        let builder = match self.lane.authorization() {
            Some(value) => builder.header("authorization", value),
            None => builder,
        };
        let builder = self.lane.headers.iter().fold(builder, |builder, (name, value)| builder.header(name, value));
        builder.body(Body::default()).map_err(|error| format!("building a request: {error}"))
    }

    async fn send_shared(&self, request: Request<Body>) -> Sent {
        let mut sender = self.shared().await?;
        if sender.ready().await.is_err() {
            return Ok(Err(request));
        }
        let again = copy(&request);
        let mut error = match sender.try_send_request(request).await {
            Ok(response) => return Ok(Ok(Answer { response, own: None })),
            Err(error) => error,
        };
        match error.take_message() {
            Some(unsent) => Ok(Err(unsent)),
            None if was_not_processed(error.error()) => Ok(Err(again)),
            None => Err(failure_text("waiting for headers", error.error())),
        }
    }

    async fn send_alone(&self, request: Request<Body>) -> Sent {
        let kept = { self.idle().pop() };
        let mut sender = match kept {
            Some(kept) if kept.is_ready() => kept,
            Some(_) => return Ok(Err(request)),
            None => self.connect_http1().await?,
        };
        match sender.try_send_request(request).await {
            Ok(response) => Ok(Ok(Answer { response, own: Some(sender) })),
            Err(mut error) => {
                let unsent = error.take_message();
                unsent.map(Err).ok_or_else(|| failure_text("waiting for headers", error.error()))
            }
        }
    }

    /// The HTTP/2 connection, a new one if there is none that takes requests.
    async fn shared(&self) -> std::result::Result<http2::SendRequest<Body>, Failed> {
        let mut shared = self.shared.lock().await;
        if let Some(sender) = shared.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let io = TokioIo::new(self.tls().await?);
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), io).await.map_err(|error| failure_text("connecting", &error))?;
        // How a connection ended shows in the requests on it.
        tokio::spawn(async move { connection.await.ok() });
        *shared = Some(sender.clone());
        Ok(sender)
    }

    async fn connect_http1(&self) -> std::result::Result<http1::SendRequest<Body>, Failed> {
        let io = TokioIo::new(self.tls().await?);
        let (sender, connection) = http1::handshake(io).await.map_err(|error| failure_text("connecting", &error))?;
        tokio::spawn(async move { connection.await.ok() });
        Ok(sender)
    }

    async fn tls(&self) -> std::result::Result<TlsStream<TcpStream>, Failed> {
        let mut outcome = self.handshake().await;
        for _ in 1..self.lane.handshakes {
            if outcome.is_ok() {
                break;
            }
            outcome = self.handshake().await;
        }
        outcome
    }

    async fn handshake(&self) -> std::result::Result<TlsStream<TcpStream>, Failed> {
        self.connections.fetch_add(1, Ordering::AcqRel);
        let address = self.lane.target.address;
        let name = self.lane.target.server_name().map_err(|error| error.to_string())?;
        let tcp = TcpStream::connect(address).await.map_err(|error| failure_text("connecting", &error))?;
        tcp.set_nodelay(true).map_err(|error| failure_text("connecting", &error))?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        connector.connect(name, tcp).await.map_err(|error| failure_text("handshaking", &error))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<http1::SendRequest<Body>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answer {
    /// The answer, and what is to be given back to [`LoadConnection::recycle`] after its body.
    pub(super) fn split(self) -> (Response<Incoming>, Option<http1::SendRequest<Body>>) {
        (self.response, self.own)
    }
}

/// A request without body, once more.
fn copy(request: &Request<Body>) -> Request<Body> {
    let mut copy = Request::new(Body::default());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

/// Whether the server closes the connection in order and says that it did not take this request (RFC 9113 section 6.8).
fn was_not_processed(error: &hyper::Error) -> bool {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    causes.filter_map(|cause| cause.downcast_ref::<h2::Error>()).any(|error| {
        let said_so = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        error.is_remote() && (said_so || error.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

/// An error with its causes, because hyper's own text says little.
pub(super) fn failure_text(step: &str, error: &dyn std::error::Error) -> Failed {
    let causes = std::iter::successors(Some(error), |error| error.source());
    format!("{step}: {}", causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
}
