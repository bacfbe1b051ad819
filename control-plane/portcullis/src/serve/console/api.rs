//! The same as the pages, for programs.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::access::Denied;
use super::denied::DeniedResponse;
use super::question::Question;
use super::state::Console;
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

/// The conditions of all objects and the acknowledgements of all gateways, for readers who may see everything.
pub(super) async fn status(State(console): State<Console>, visit: Visit) -> Result<Response, DeniedResponse> {
    match console.access.sees_all(&visit.reader, visit.now).await {
        Ok(true) => Ok(Json(console.data.status().as_ref()).into_response()),
        Ok(false) => Err(visit.refuse(Denied::Forbidden)),
        Err(denied) => Err(visit.refuse(denied)),
    }
}

fn fault(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"code": status.as_u16(), "message": message}))).into_response()
}
