use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio::sync::Semaphore;

use super::host_check::AllowedHosts;
use super::page::page;
use super::probes::{self, Probes};
use super::status_observer::StatusObserver;

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
        .merge(probes::router(probes))
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
