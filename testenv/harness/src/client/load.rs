//! A steady load by clients that behave as Go's do: connections are kept, a connection that the server sends away is left,
//! and a request that was never sent is sent on another one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsConnector;

use super::TlsTarget;
use crate::{Error, Result};

/// How often a request that was not sent is tried on another connection.
const TRIES: usize = 5;
/// How long a client waits before it connects again, or opens a watch again.
const AGAIN: Duration = Duration::from_millis(100);

/// HTTP's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// What became of a load so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Requests that were answered with 200.
    pub answered: u64,
    /// Why the others were not.
    pub failed: Vec<String>,
    /// Connections that were made.
    pub connections: u64,
    /// Watches that ended: when and how.
    pub ended: Vec<(Instant, String)>,
}

/// Clients that send requests until this value is dropped.
#[derive(Debug)]
pub struct Load {
    target: TlsTarget,
    tally: Arc<Mutex<Tally>>,
    runtime: Runtime,
}

impl Load {
    /// No client yet.
    ///
    /// # Errors
    /// [`Error::Http`] if the system has no threads to give.
    pub fn new(target: &TlsTarget) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Error::Http { step: "starting a runtime", reason: error.to_string() })?;
        Ok(Self { target: target.clone(), tally: Arc::default(), runtime })
    }

    /// Clients with a connection each, that GET a path at an interval.
    pub fn requests(&self, protocol: Protocol, clients: u32, path: &str, every: Duration) {
        for client in 0..clients {
            let lane = self.lane(protocol, path);
            // Spread over the interval.
            let start = every * client / clients;
            self.runtime.spawn(lane.requests(start, every));
        }
    }

    /// Clients with a connection each, that keep a watch open.
    pub fn watches(&self, protocol: Protocol, clients: u32, path: &str) {
        for _ in 0..clients {
            self.runtime.spawn(self.lane(protocol, path).watch());
        }
    }

    /// What became of it so far.
    pub fn tally(&self) -> Tally {
        lock(&self.tally).clone()
    }

    fn lane(&self, protocol: Protocol, path: &str) -> Lane {
        let authority = self.target.sni.clone().unwrap_or_else(|| self.target.address.to_string());
        let (target, tally) = (self.target.clone(), Arc::clone(&self.tally));
        Lane { target, protocol, authority, path: path.to_owned(), tally, open: None }
    }
}

/// One client.
struct Lane {
    target: TlsTarget,
    protocol: Protocol,
    authority: String,
    path: String,
    tally: Arc<Mutex<Tally>>,
    open: Option<Open>,
}

type Sent = std::result::Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>>;

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// One connection.
struct Open {
    sender: Sender,
    driver: JoinHandle<()>,
}

impl Lane {
    async fn requests(mut self, start: Duration, every: Duration) {
        sleep(start).await;
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let limit = self.target.timeout;
            let outcome = timeout(limit, self.request()).await.unwrap_or_else(|_| Err("timeout".to_owned()));
            let mut tally = lock(&self.tally);
            match outcome {
                Ok(()) => tally.answered += 1,
                Err(why) => {
                    tally.failed.push(format!("{:?}: {why}", self.protocol));
                    self.open = None;
                }
            }
        }
    }

    async fn watch(mut self) {
        loop {
            let how = match self.send().await {
                Ok(response) if response.status() == 200 => end_of(response.into_body()).await,
                Ok(response) => response.status().to_string(),
                Err(why) => why,
            };
            self.open = None;
            lock(&self.tally).ended.push((Instant::now(), format!("{:?}: {how}", self.protocol)));
            sleep(AGAIN).await;
        }
    }

    async fn request(&mut self) -> std::result::Result<(), String> {
        let response = self.send().await?;
        let status = response.status();
        response.into_body().collect().await.map_err(|error| format!("reading the body: {}", chain(&error)))?;
        if status == 200 { Ok(()) } else { Err(status.to_string()) }
    }

    async fn send(&mut self) -> std::result::Result<Response<Incoming>, String> {
        let mut why = String::new();
        for _ in 0..TRIES {
            let open = match self.open.take().filter(|open| !open.driver.is_finished()) {
                Some(open) => open,
                None => {
                    lock(&self.tally).connections += 1;
                    connect(&self.target, self.protocol).await.map_err(|error| error.to_string())?
                }
            };
            let request = self.build()?;
            match self.open.insert(open).send(request).await {
                Ok(response) => return Ok(response),
                Err(mut error) => {
                    why = chain(error.error());
                    self.open = None;
                    if error.take_message().is_none() {
                        return Err(format!("sent and not answered: {why}"));
                    }
                }
            }
        }
        Err(format!("never sent: {why}"))
    }

    fn build(&self) -> std::result::Result<Request<Full<Bytes>>, String> {
        let request = match self.protocol {
            Protocol::Http1 => Request::get(&self.path).header("host", &self.authority),
            Protocol::Http2 => Request::get(format!("https://{}{}", self.authority, self.path)),
        };
        request.body(Full::default()).map_err(|error| error.to_string())
    }
}

impl Open {
    async fn send(&mut self, request: Request<Full<Bytes>>) -> Sent {
        match &mut self.sender {
            Sender::Http1(sender) => sender.try_send_request(request).await,
            Sender::Http2(sender) => sender.try_send_request(request).await,
        }
    }
}

/// How a body ends.
async fn end_of(mut body: Incoming) -> String {
    loop {
        match body.frame().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return format!("cut: {}", chain(&error)),
            None => return "ended".to_owned(),
        }
    }
}

async fn connect(target: &TlsTarget, protocol: Protocol) -> Result<Open> {
    let peer = target.address;
    let alpn = if protocol == Protocol::Http2 { "h2" } else { "http/1.1" };
    let target = target.clone().alpn(&[alpn]);
    let tcp = TcpStream::connect(peer).await.map_err(Error::connection("connecting to", peer))?;
    tcp.set_nodelay(true).map_err(Error::connection("setting TCP_NODELAY for", peer))?;
    let tls = TlsConnector::from(target.config()?)
        .connect(target.server_name()?, tcp)
        .await
        .map_err(Error::connection("handshaking with", peer))?;
    let failed = |error: hyper::Error| Error::Http { step: "connecting", reason: chain(&error) };
    // How a connection ended shows in the requests on it.
    Ok(match protocol {
        Protocol::Http1 => {
            let (sender, connection) = http1::handshake(TokioIo::new(tls)).await.map_err(failed)?;
            Open { sender: Sender::Http1(sender), driver: tokio::spawn(async { drop(connection.await) }) }
        }
        Protocol::Http2 => {
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(tls)).await.map_err(failed)?;
            Open { sender: Sender::Http2(sender), driver: tokio::spawn(async { drop(connection.await) }) }
        }
    })
}

/// An error with its causes, because hyper's own text says little.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
