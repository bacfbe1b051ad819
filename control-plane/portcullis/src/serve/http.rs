//! The HTTP address: the console and the status behind their guards, and the probes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use portcullis_sources::SourceHealth;
use portcullis_xds::{HealthRegistry, Registry, Snapshot};
use tokio::sync::watch;

use super::console::{self, Console, MAX_BODY};
use super::metrics::{CONTENT_TYPE, ControlPlaneMetrics};
use super::turns::{take_turns, turns};
use super::watchdog::Watchdog;

/// The time limit for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The rights of a page in a browser: to use what this server sends, and nothing else. No page frames it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of every response that has none of its own. The page that sent a request is named to this server only: without that
/// a browser hides the origin of a form.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// All routes. Methods that a page does not have are answered with 405.
pub(super) fn router(console: Console, hosts: Arc<AllowedHosts>, probes: Probes) -> Router {
    console::router(console)
        .layer(middleware::from_fn_with_state(turns(), take_turns))
        .layer(middleware::from_fn(read_body))
        .layer(middleware::from_fn_with_state(hosts, guard))
        .merge(probe_router(probes))
        .layer(middleware::map_response(harden))
}

async fn guard(State(hosts): State<Arc<AllowedHosts>>, request: Request, next: Next) -> Response {
    let written = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let asked = request.uri().authority().map(|authority| authority.as_str()).or(written);
    if hosts.allow(asked) {
        return next.run(request).await;
    }
    let message = "this host name is not served here: ask by IP address or as localhost, or start with --http-host\n";
    (StatusCode::MISDIRECTED_REQUEST, message).into_response()
}

/// Reads a body before the request takes a turn, so that slow senders take none.
async fn read_body(request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Ok(Err(_)) => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too long, or broken\n").into_response(),
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "the body is late\n").into_response(),
    }
}

async fn harden(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// The inputs of the probes.
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
    fn allow(&self, host: Option<&str>) -> bool {
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
