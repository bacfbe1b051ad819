//! A client of Envoy's admin page.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, StatusCode};
use tokio::time::timeout;

use crate::http_client::{self, HttpError, ResponseLimits};

/// The bounds of a response. Envoy answers from its main thread, which a large configuration keeps busy for a while; the
/// largest page are the statistics of many thousand clusters.
const LIMITS: ResponseLimits = ResponseLimits { time: Duration::from_secs(5), bytes: 32 << 20 };
/// The time for a client to read a page that is streamed to it.
const STREAM_TIMEOUT: Duration = Duration::from_secs(30);

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
    pub(super) async fn get(&self, path: &str) -> Result<Bytes, HttpError> {
        http_client::get(self.address, path, LIMITS).await
    }

    /// The status of a page, whatever it is.
    pub(super) async fn status(&self, path: &str) -> Result<StatusCode, HttpError> {
        Ok(http_client::request(self.address, Method::GET, path, LIMITS).await?.0)
    }

    /// Makes Envoy do something.
    pub(super) async fn post(&self, path: &str) -> Result<(), HttpError> {
        let (status, _) = http_client::request(self.address, Method::POST, path, LIMITS).await?;
        if status.is_success() { Ok(()) } else { Err(HttpError::Status(status)) }
    }

    /// The body of a page as it comes. `guard` is dropped at its end, at the latest after half a minute.
    pub(super) async fn stream(&self, path: &str, guard: impl Send + 'static) -> Result<Incoming, HttpError> {
        let sent = timeout(LIMITS.time, http_client::send(self.address, Method::GET, path)).await;
        let (response, connection) = sent.map_err(|_| HttpError::Timeout(LIMITS.time))??;
        tokio::spawn(async move {
            let _guard = guard;
            let abort = connection.abort_handle();
            // Its errors show in the body.
            if timeout(STREAM_TIMEOUT, connection).await.is_err() {
                abort.abort();
            }
        });
        if response.status().is_success() {
            Ok(response.into_body())
        } else {
            Err(HttpError::Status(response.status()))
        }
    }
}
