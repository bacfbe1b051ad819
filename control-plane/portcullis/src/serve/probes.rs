//! Pages for machines: /healthz, /readyz and /metrics. They contain no object's name.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use portcullis_sources::SourceHealth;
use portcullis_xds::{HealthRegistry, Registry, Snapshot};
use tokio::sync::watch;

use super::metrics::{CONTENT_TYPE, ControlPlaneMetrics};
use super::watchdog::Watchdog;

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

pub(super) fn router(probes: Probes) -> Router {
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
