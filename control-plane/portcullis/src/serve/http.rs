//! The HTTP pages: the status for people and programs, and the probes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use portcullis_sources::SourceHealth;
use portcullis_xds::{HealthRegistry, Registry, Snapshot};
use tokio::sync::{Semaphore, watch};

use super::fleet::Fleet;
use super::metrics::{CONTENT_TYPE, ControlPlaneMetrics};
use super::page::page;
use super::status_observer::StatusObserver;
use super::watchdog::Watchdog;

/// The number of responses that are made at a time; further requests get 503 with Retry-After.
const MAX_AT_ONCE: usize = 16;

/// Headers of every page. A browser may show it, and nothing of it may run, load or be framed.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The inputs of the pages.
#[derive(Clone)]
pub(super) struct Pages {
    pub(super) observer: Arc<StatusObserver>,
    #[allow(dead_code, reason = "the console reads it")]
    pub(super) fleet: Arc<Fleet>,
    /// The names under which it may be asked.
    pub(super) hosts: Arc<AllowedHosts>,
}

/// Only reads: any other method is answered with 405.
pub(super) fn router(pages: Pages, probes: Probes) -> Router {
    let at_once = Arc::new(Semaphore::new(MAX_AT_ONCE));
    Router::new()
        .route("/", get(home))
        .route("/status", get(status))
        .layer(middleware::from_fn_with_state(at_once, take_turns))
        .layer(middleware::from_fn_with_state(Arc::clone(&pages.hosts), guard))
        .with_state(pages)
        .merge(probe_router(probes))
        .layer(middleware::map_response(harden))
}

async fn home(State(pages): State<Pages>) -> Html<String> {
    Html(page(&pages.observer.status()))
}

async fn status(State(pages): State<Pages>) -> Response {
    Json(pages.observer.status().as_ref()).into_response()
}

async fn guard(State(hosts): State<Arc<AllowedHosts>>, request: Request, next: Next) -> Response {
    let written = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let asked = request.uri().authority().map(|authority| authority.as_str()).or(written);
    if hosts.allow(asked) {
        return next.run(request).await;
    }
    let told = "this host name is not served here: ask by IP address or as localhost, or start with --http-host\n";
    (StatusCode::MISDIRECTED_REQUEST, told).into_response()
}

async fn take_turns(State(at_once): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    match at_once.try_acquire() {
        Ok(_turn) => next.run(request).await,
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], "busy\n").into_response(),
    }
}

async fn harden(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The inputs of the pages.
#[derive(Clone)]
pub(super) struct Probes {
    pub(super) snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    pub(super) registry: Arc<Registry>,
    pub(super) reports: Arc<HealthRegistry>,
    pub(super) metrics: Arc<ControlPlaneMetrics>,
    pub(super) watchdog: Arc<Watchdog>,
    /// Whether the source is current, as far as its objects do not show it.
    pub(super) health: watch::Receiver<SourceHealth>,
}

fn probe_router(probes: Probes) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(probes)
}

async fn healthz(State(probes): State<Probes>) -> (StatusCode, &'static str) {
    if probes.watchdog.is_alive(Instant::now()) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the objects are no longer followed: restart\n")
    }
}

async fn readyz(State(probes): State<Probes>) -> (StatusCode, &'static str) {
    if probes.snapshots.borrow().is_some() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "nothing is served yet: see /status\n")
    }
}

async fn metrics(State(probes): State<Probes>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, CONTENT_TYPE)],
        probes.metrics.text(&probes.registry, &probes.reports, &probes.health.borrow()),
    )
}

/// The host names under which the pages are served.
///
/// A page in a browser can make its own host name resolve to our address, and then read our answers, because to the browser
/// they are the page's own (DNS rebinding). It cannot make the browser send another name. Requests are therefore answered for
/// IP addresses, for `localhost`, and for the names that the operator gave.
#[derive(Debug, Default)]
pub(super) struct AllowedHosts {
    names: BTreeSet<String>,
}

impl AllowedHosts {
    pub(super) fn new(names: &[String]) -> Self {
        Self { names: names.iter().map(|name| name.trim_end_matches('.').to_ascii_lowercase()).collect() }
    }

    /// Whether a request for this host, `name`, `name:port` or `[v6]:port`, is answered. One without a host is not.
    pub(super) fn allow(&self, host: Option<&str>) -> bool {
        let Some(name) = host.and_then(without_port) else { return false };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        name.parse::<IpAddr>().is_ok() || name == "localhost" || self.names.contains(&name)
    }
}

fn without_port(host: &str) -> Option<&str> {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        return (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(address);
    }
    match host.split_once(':') {
        None => Some(host),
        Some((name, port)) => is_port(port).then_some(name),
    }
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_names_that_were_given_are_answered() {
        let hosts = AllowedHosts::new(&["Portcullis.kube-system.svc".to_owned()]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:9080",
            "10.1.2.3:80",
            "[::1]:9080",
            "[::1]",
            "localhost:9080",
            "LOCALHOST.",
            "portcullis.kube-system.svc:9080",
        ] {
            assert!(hosts.allow(Some(host)), "{host}");
        }
        for host in
            ["", "attacker.example", "attacker.example:9080", "127.0.0.1.attacker.example", "localhost.attacker"]
        {
            assert!(!hosts.allow(Some(host)), "{host}");
        }
        for host in ["127.0.0.1:x", "[::1", "[::1]x", "a@127.0.0.1", "127.0.0.1:80:80", "portcullis"] {
            assert!(!hosts.allow(Some(host)), "{host}");
        }
        assert!(!hosts.allow(None));
    }
}
