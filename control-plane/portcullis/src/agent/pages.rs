use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use futures_util::stream::once;
use futures_util::{FutureExt, StreamExt};
use http_body_util::BodyDataStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::activity::{ActivityError, ActivitySource};
use super::admin::Admin;
use super::admin::EnvoyState;
use super::report::LimitsState;
use super::talkers;

/// /healthz and /readyz of this program and its Envoy, and /metrics: Envoy's, with the talkers behind them.
pub(super) fn router(sight: watch::Receiver<EnvoyState>, metrics: MetricsPage) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(sight)
        .route("/metrics", get(async move || metrics.page().await))
}

type PageResponse = (StatusCode, String);

async fn healthz(State(sight): State<watch::Receiver<EnvoyState>>) -> PageResponse {
    if sight.borrow().hangs(Instant::now()) {
        return (StatusCode::SERVICE_UNAVAILABLE, "Envoy does not answer\n".to_owned());
    }
    (StatusCode::OK, "ok\n".to_owned())
}

async fn readyz(State(sight): State<watch::Receiver<EnvoyState>>) -> PageResponse {
    match sight.borrow().not_ready_reason() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// Envoy's page; what has never been counted is left out, for that is most of what many clusters have.
const PAGE: &str = "/stats/prometheus?usedonly";
/// Most pages under way: Envoy writes them on its main thread.
const AT_ONCE: usize = 2;
/// Age of the talkers at most: the agent's own reports have asked for activity just before, as a rule.
const MAX_AGE: Duration = Duration::from_secs(5);

/// Envoy's page, and the number of concurrent readers of it.
#[derive(Clone, Debug)]
pub(super) struct MetricsPage {
    admin: Admin,
    activity: ActivitySource,
    limits: LimitsState,
    places: Arc<Semaphore>,
}

impl MetricsPage {
    pub(super) fn new(admin: Admin, activity: ActivitySource, limits: LimitsState) -> Self {
        Self { admin, activity, limits, places: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// The page, handed on as it comes, and the talkers. 503 while too many ask, or where Envoy does not answer.
    pub(super) async fn page(&self) -> Response<Body> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return (StatusCode::SERVICE_UNAVAILABLE, "others are asking\n").into_response();
        };
        match self.admin.stream(PAGE, place).await {
            Ok(body) => {
                let talkers = once(talkers_text(self.activity.clone()).map(Ok));
                let limits = once(std::future::ready(Ok(Bytes::from(self.limits.text()))));
                let page = BodyDataStream::new(body).chain(talkers).chain(limits);
                ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], Body::from_stream(page)).into_response()
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "no metrics from Envoy");
                (StatusCode::SERVICE_UNAVAILABLE, "Envoy does not answer\n").into_response()
            }
        }
    }
}

/// Nothing where the filter does not answer: the rest of the page is as good as without.
async fn talkers_text(activity: ActivitySource) -> Bytes {
    match activity.newer_than(MAX_AGE).await {
        Ok(activity) => talkers::text(&activity).into(),
        Err(error) => {
            if !matches!(error, ActivityError::Unavailable) {
                tracing::warn!(error = &error as &dyn std::error::Error, "no talkers from the filter");
            }
            Bytes::new()
        }
    }
}
