//! A client of Envoy's admin page, and the probe that follows Envoy's state by it.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, StatusCode};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

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

/// How often Envoy is asked, until it is ready and after that.
const IMPATIENT: Duration = Duration::from_millis(200);
const INTERVAL: Duration = Duration::from_secs(1);
/// An Envoy that does not answer for so long hangs. A cold start with a thousand clusters takes a second.
const HANGS: Duration = Duration::from_secs(30);

/// The state of Envoy.
#[derive(Clone, Copy, Debug)]
pub(super) struct EnvoyState {
    /// When it answered last; the start, if it never did.
    answered: Instant,
    /// The state at that time.
    state: Readiness,
    /// Whether it is about to end.
    leaving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    /// It never answered, or does not any more.
    Silent,
    /// It waits for its first configuration, or its health checks were made to fail.
    NotLive,
    /// It runs without a listener: no control plane answered in time, or none has a configuration.
    NoListener,
    /// It serves.
    Serving,
}

impl EnvoyState {
    pub(super) fn new(now: Instant) -> Self {
        Self { answered: now, state: Readiness::Silent, leaving: false }
    }

    /// Why clients should not be sent here, if so.
    pub(super) fn not_ready_reason(&self) -> Option<&'static str> {
        match (self.leaving, self.state) {
            (true, _) => Some("draining: Envoy is about to end"),
            (_, Readiness::Silent) => Some("Envoy's admin page does not answer"),
            (_, Readiness::NotLive) => {
                Some("Envoy is not live: it has no configuration yet, or its health checks are set to fail")
            }
            (_, Readiness::NoListener) => Some("Envoy has no listener: no control plane has sent one"),
            (_, Readiness::Serving) => None,
        }
    }

    /// Whether Envoy hangs, so that only a restart helps.
    pub(super) fn hangs(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.answered) > HANGS
    }
}

/// Marks that Envoy is about to end.
pub(super) fn leave(sight: &watch::Sender<EnvoyState>) {
    sight.send_modify(|sight| sight.leaving = true);
}

/// Asks Envoy again and again.
pub(super) async fn probe(admin: Admin, sight: watch::Sender<EnvoyState>) {
    loop {
        let state = look(admin).await;
        let before = sight.borrow().not_ready_reason();
        sight.send_modify(|sight| match state {
            Ok(state) => (sight.state, sight.answered) = (state, Instant::now()),
            Err(_) => sight.state = Readiness::Silent,
        });
        let after = sight.borrow().not_ready_reason();
        if before != after {
            tracing::info!(ready = after.is_none(), "{}", after.unwrap_or("Envoy serves"));
        }
        sleep(if after.is_none() { INTERVAL } else { IMPATIENT }).await;
    }
}

async fn look(admin: Admin) -> Result<Readiness, HttpError> {
    if !admin.status("/ready").await?.is_success() {
        return Ok(Readiness::NotLive);
    }
    let listeners = admin.get("/listeners").await?;
    Ok(if listeners.is_empty() { Readiness::NoListener } else { Readiness::Serving })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envoy_is_ready_only_while_it_serves_and_stays() {
        let now = Instant::now();
        for (state, leaving, ready) in [
            (Readiness::Serving, false, true),
            (Readiness::Serving, true, false),
            (Readiness::NoListener, false, false),
            (Readiness::NotLive, false, false),
            (Readiness::Silent, false, false),
        ] {
            let sight = EnvoyState { answered: now, state, leaving };
            assert_eq!(sight.not_ready_reason().is_none(), ready, "{sight:?}");
        }
    }

    #[test]
    fn envoy_hangs_when_it_is_silent_for_long() {
        let sight = EnvoyState::new(Instant::now());
        assert!(!sight.hangs(sight.answered));
        assert!(!sight.hangs(sight.answered + HANGS));
        assert!(sight.hangs(sight.answered + HANGS + Duration::from_millis(1)));
    }
}
