use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use portcullis_translate::Diagnosis;
use portcullis_xds::{HealthRegistry, Registry, Snapshot};
use tokio::sync::watch;

use super::status::Status;

/// What the pages are made of.
#[derive(Clone)]
pub(super) struct Pages {
    pub(super) diagnoses: watch::Receiver<Arc<Vec<Diagnosis>>>,
    pub(super) snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    pub(super) registry: Arc<Registry>,
    pub(super) health: Arc<HealthRegistry>,
}

pub(super) fn router(pages: Pages) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/status", get(status))
        .with_state(pages)
}

async fn readyz(State(pages): State<Pages>) -> (StatusCode, &'static str) {
    if pages.snapshots.borrow().is_some() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "nothing is served yet: see /status\n")
    }
}

async fn status(State(pages): State<Pages>) -> Json<Status> {
    let snapshot = pages.snapshots.borrow().as_ref().map(|snapshot| snapshot.version().to_owned());
    let diagnoses = pages.diagnoses.borrow().as_ref().clone();
    let endpoints = pages.health.all(Instant::now());
    Json(Status::new(diagnoses, pages.registry.nodes(), endpoints, snapshot.unwrap_or_default()))
}
