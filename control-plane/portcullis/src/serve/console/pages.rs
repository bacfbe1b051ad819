//! The pages for people.

use axum::extract::{Form, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;

use super::cluster_page;
use super::denied::DeniedResponse;
use super::explain_page;
use super::fleet_page::FleetPage;
use super::html::encode;
use super::layout::{ConsolePage, Frame, page};
use super::objects_page;
use super::question::Question;
use super::state::Console;
use super::visit::Visit;

/// The longest filter, in bytes.
const MAX_FILTER: usize = 256;

/// The query of the first page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FleetQuery {
    q: String,
}

/// The query of the form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ExplainQuery {
    cluster: String,
}

pub(super) async fn fleet(
    State(console): State<Console>,
    visit: Visit,
    Query(FleetQuery { q }): Query<FleetQuery>,
) -> Result<Html<String>, DeniedResponse> {
    let visible = console.fleet(&visit.reader, visit.now).await.map_err(|denied| visit.refuse(denied))?;
    let filter = if q.len() <= MAX_FILTER { q.as_str() } else { "" };
    let status = visible.sees_all.then(|| console.data.status());
    let frame =
        Frame { title: "Fleet", place: ConsolePage::Fleet, reader: visit.label(), events: Some("/ui/api/events") };
    Ok(Html(page(&frame, |html| {
        if let Some(status) = &status {
            objects_page::notices(html, status);
        }
        FleetPage { view: &visible.view, filter, sees_all: visible.sees_all }.write(html);
        if let Some(status) = &status {
            objects_page::others(html, status);
        }
    })))
}

pub(super) async fn cluster(
    State(console): State<Console>,
    visit: Visit,
    Path(name): Path<String>,
) -> Result<Response, DeniedResponse> {
    let view = console.cluster(&visit.reader, &name, visit.now).await.map_err(|denied| visit.refuse(denied))?;
    let Some(view) = view else {
        let frame = Frame { title: "Not found", place: ConsolePage::Cluster, reader: visit.label(), events: None };
        let text = page(&frame, |html| {
            html.raw("<h1>Not found</h1>\n<p>There is no UpstreamCluster ").text(&name).raw(".</p>\n");
        });
        return Ok((StatusCode::NOT_FOUND, Html(text)).into_response());
    };
    let status = console.data.status();
    let object = status.objects.cluster(&name);
    let frame =
        Frame { title: &name, place: ConsolePage::Cluster, reader: visit.label(), events: Some("/ui/api/events") };
    let text = page(&frame, |html| {
        cluster_page::write(html, &view, object);
        html.raw("<p><a href=\"/ui/explain?cluster=").text(&encode(&name)).raw("\">Explain a request to it</a></p>\n");
    });
    Ok(Html(text).into_response())
}

pub(super) async fn explain_form(visit: Visit, Query(query): Query<ExplainQuery>) -> Html<String> {
    Html(explain_text(&visit, &Question { cluster: query.cluster, ..Question::default() }, None))
}

pub(super) async fn explain(
    State(console): State<Console>,
    visit: Visit,
    Form(question): Form<Question>,
) -> Result<Response, DeniedResponse> {
    let answer = console.answer(&visit.reader, &question, visit.now).await.map_err(|denied| visit.refuse(denied))?;
    let status = if answer.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    Ok((status, Html(explain_text(&visit, &question, Some(&answer)))).into_response())
}

fn explain_text(
    visit: &Visit,
    question: &Question,
    answer: Option<&Result<super::question::Explained, String>>,
) -> String {
    let frame = Frame { title: "Explain", place: ConsolePage::Explain, reader: visit.label(), events: None };
    page(&frame, |html| explain_page::write(html, question, answer))
}
