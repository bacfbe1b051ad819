//! `portcullis status`: what a running control plane says of its objects.

mod arguments;
mod instance;
mod report;
mod text;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

pub(crate) use arguments::{Status, StatusOutput};
use report::StatusReport;

use crate::control_plane_client::{AskError, escaped};
use crate::http_client::ResponseLimits;
use crate::live;
use crate::runtime::{RuntimeError, Threads, runtime};

/// The bounds of the status: thousands of clusters, with messages.
const LIMITS: ResponseLimits = ResponseLimits { time: Duration::from_secs(15), bytes: 256 << 20 };

/// The reason for which nothing can be printed.
#[derive(Debug, thiserror::Error)]
enum StatusError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the control plane's answer is not a status")]
    Read(#[source] serde_json::Error),
    #[error("the control plane knows no UpstreamCluster {0}")]
    Unknown(String),
    #[error("the control plane knows no Instance {0}")]
    UnknownInstance(String),
    #[error("cannot draw on the terminal")]
    Draw(#[source] io::Error),
}

pub(crate) fn run(arguments: &Status) -> ExitCode {
    let runtime = runtime(Threads::Current).map_err(StatusError::Runtime);
    match runtime.and_then(|runtime| runtime.block_on(print(arguments))) {
        Ok(status) => status,
        Err(error) => crate::fail(&error),
    }
}

async fn print(arguments: &Status) -> Result<ExitCode, StatusError> {
    let (text, all_is_well) = self::text(arguments).await?;
    if !arguments.watch || !live::is_possible() {
        let printed = crate::print(&text);
        return Ok(if all_is_well { printed } else { ExitCode::FAILURE });
    }
    let mut first = Some(text);
    let frame = async |_| match first.take() {
        Some(first) => first,
        None => self::text(arguments).await.map_or_else(|error| crate::top::failure(&error), |(text, _)| text),
    };
    live::follow(arguments.interval, frame).await.map_err(StatusError::Draw)?;
    Ok(ExitCode::SUCCESS)
}

/// The text to print, and whether every object in it is accepted and programmed.
async fn text(arguments: &Status) -> Result<(String, bool), StatusError> {
    let body =
        arguments.control_plane.get(&path(arguments), LIMITS).await.map_err(|error| unknown(arguments, error))?;
    let mut answer: Value = serde_json::from_slice(&body).map_err(StatusError::Read)?;
    if let Some(name) = &arguments.name {
        keep(&mut answer, name).ok_or_else(|| StatusError::Unknown(name.clone()))?;
    }
    if let Some(name) = &arguments.instance {
        instance::keep(&mut answer, name).ok_or_else(|| StatusError::UnknownInstance(name.clone()))?;
    }
    let report: StatusReport = serde_json::from_value(answer.clone()).map_err(StatusError::Read)?;
    let text = match (arguments.output, &arguments.name) {
        (StatusOutput::Json, None) => crate::display_text::json(&answer),
        (StatusOutput::Json, Some(_)) => {
            crate::display_text::json(answer.pointer("/objects/0").unwrap_or(&Value::Null))
        }
        (_, Some(_)) => report.objects.iter().map(text::detail).collect::<Vec<_>>().join("\n"),
        (StatusOutput::Wide, None) => instance::heading(&report, arguments) + &text::table(&report, true),
        (StatusOutput::Text, None) => instance::heading(&report, arguments) + &text::table(&report, false),
    };
    Ok((text, report.objects.iter().all(report::Object::is_well)))
}

/// The part that is asked for. A control plane of a release before sends everything.
fn path(arguments: &Status) -> String {
    match (&arguments.name, &arguments.instance) {
        (_, Some(instance)) => format!("/status?instance={}", escaped(instance)),
        // Names of objects have no capital letters.
        (Some(name), None) => format!("/status?cluster={}", escaped(&name.to_ascii_lowercase())),
        (None, None) => "/status".to_owned(),
    }
}

/// The error of a part that is not there.
fn unknown(arguments: &Status, error: AskError) -> StatusError {
    match (error, &arguments.name, &arguments.instance) {
        (AskError::NotFound(_), _, Some(instance)) => StatusError::UnknownInstance(instance.clone()),
        (AskError::NotFound(_), Some(name), None) => StatusError::Unknown(name.clone()),
        (error, ..) => error.into(),
    }
}

/// Leaves the clusters of a name; `None` if there is none.
fn keep(answer: &mut Value, name: &str) -> Option<()> {
    let objects = answer.get_mut("objects")?.as_array_mut()?;
    let is_wanted = |object: &Value| {
        let field = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        field("kind") == portcullis_api::CLUSTER_KIND && field("name").eq_ignore_ascii_case(name)
    };
    objects.retain(is_wanted);
    (!objects.is_empty()).then_some(())
}

#[cfg(test)]
mod tests;
