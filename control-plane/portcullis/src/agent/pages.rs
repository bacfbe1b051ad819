use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::sync::watch;
use tokio::time::Instant;

use super::metrics::Metrics;
use super::probe::Sight;

/// /healthz and /readyz of this program and its Envoy, and Envoy's /metrics.
pub(super) fn router(sight: watch::Receiver<Sight>, metrics: Metrics) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(sight)
        .route("/metrics", get(async move || metrics.page().await))
}

type Answer = (StatusCode, String);

async fn healthz(State(sight): State<watch::Receiver<Sight>>) -> Answer {
    if sight.borrow().hangs(Instant::now()) {
        return (StatusCode::SERVICE_UNAVAILABLE, "Envoy does not answer\n".to_owned());
    }
    (StatusCode::OK, "ok\n".to_owned())
}

async fn readyz(State(sight): State<watch::Receiver<Sight>>) -> Answer {
    match sight.borrow().unready() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
