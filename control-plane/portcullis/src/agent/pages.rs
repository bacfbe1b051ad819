use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::sync::watch;
use tokio::time::Instant;

use super::metrics::MetricsPage;
use super::probe::EnvoyState;

/// /healthz and /readyz of this program and its Envoy, and Envoy's /metrics.
pub(super) fn router(sight: watch::Receiver<EnvoyState>, metrics: MetricsPage) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(sight)
        .route("/metrics", get(async move || metrics.page().await))
}

type Answer = (StatusCode, String);

async fn healthz(State(sight): State<watch::Receiver<EnvoyState>>) -> Answer {
    if sight.borrow().hangs(Instant::now()) {
        return (StatusCode::SERVICE_UNAVAILABLE, "Envoy does not answer\n".to_owned());
    }
    (StatusCode::OK, "ok\n".to_owned())
}

async fn readyz(State(sight): State<watch::Receiver<EnvoyState>>) -> Answer {
    match sight.borrow().not_ready_reason() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
