//! The same as the pages, for programs.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::denied::DeniedResponse;
use super::question::Question;
use super::state::{Console, StatusPart};
use super::visit::Visit;

pub(super) async fn fleet(State(console): State<Console>, visit: Visit) -> Result<Response, DeniedResponse> {
    let visible = console.fleet(&visit.reader, visit.now).await.map_err(|denied| visit.refuse(denied))?;
    Ok(Json(visible.view.as_ref()).into_response())
}

pub(super) async fn cluster(
    State(console): State<Console>,
    visit: Visit,
    Path(name): Path<String>,
) -> Result<Response, DeniedResponse> {
    let view = console.cluster(&visit.reader, &name, visit.now).await.map_err(|denied| visit.refuse(denied))?;
    Ok(match view {
        Some(view) => Json(view).into_response(),
        None => fault(StatusCode::NOT_FOUND, "there is no UpstreamCluster of this name"),
    })
}

pub(super) async fn explain(
    State(console): State<Console>,
    visit: Visit,
    Json(question): Json<Question>,
) -> Result<Response, DeniedResponse> {
    let answer = console.answer(&visit.reader, &question, visit.now).await.map_err(|denied| visit.refuse(denied))?;
    Ok(match answer {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => fault(StatusCode::BAD_REQUEST, &error),
    })
}

/// The query of `/status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StatusQuery {
    instance: Option<String>,
    cluster: Option<String>,
}

/// The conditions of objects and the acknowledgements of gateways: all of them for readers who may see everything, or a part.
pub(super) async fn status(
    State(console): State<Console>,
    visit: Visit,
    Query(query): Query<StatusQuery>,
) -> Result<Response, DeniedResponse> {
    let part = match (&query.instance, &query.cluster) {
        (None, None) => StatusPart::All,
        (Some(instance), None) => StatusPart::Instance(instance),
        (None, Some(cluster)) => StatusPart::Cluster(cluster),
        (Some(_), Some(_)) => return Ok(fault(StatusCode::BAD_REQUEST, "either an instance or a cluster")),
    };
    let status = console.status(&visit.reader, part, visit.now).await.map_err(|denied| visit.refuse(denied))?;
    Ok(match status {
        Some(status) => Json(status.as_ref()).into_response(),
        None => fault(StatusCode::NOT_FOUND, "there is no such object"),
    })
}

fn fault(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"code": status.as_u16(), "message": message}))).into_response()
}
