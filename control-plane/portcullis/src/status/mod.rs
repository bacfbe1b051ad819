//! `portcullis status`: what a running control plane says of its objects.

mod arguments;
mod report;
mod text;

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

pub(crate) use arguments::{Status, StatusOutput};
use report::StatusReport;

use crate::http_client::{self, HttpError, ResponseLimits};
use crate::runtime::{RuntimeError, Threads, runtime};

/// The bounds of the status: thousands of clusters, with messages.
const LIMITS: ResponseLimits = ResponseLimits { time: Duration::from_secs(15), bytes: 256 << 20 };

/// The reason for which nothing can be printed.
#[derive(Debug, thiserror::Error)]
enum StatusError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("cannot ask the control plane at {address}; does `portcullis serve` run there?")]
    Ask { address: String, source: HttpError },
    #[error("the control plane's answer is not a status")]
    Read(#[source] serde_json::Error),
    #[error("the control plane knows no UpstreamCluster {0}")]
    Unknown(String),
}

pub(crate) fn run(arguments: &Status) -> ExitCode {
    match text(arguments) {
        Ok((text, all_is_well)) => {
            let printed = crate::print(&text);
            if all_is_well { printed } else { ExitCode::FAILURE }
        }
        Err(error) => crate::fail(&error),
    }
}

/// The text to print, and whether every object in it is accepted and programmed.
fn text(arguments: &Status) -> Result<(String, bool), StatusError> {
    let address = &arguments.address;
    let body = runtime(Threads::Current)?.block_on(http_client::get(address, "/status", LIMITS));
    let body = body.map_err(|source| StatusError::Ask { address: address.clone(), source })?;
    let mut answer: Value = serde_json::from_slice(&body).map_err(StatusError::Read)?;
    if let Some(name) = &arguments.name {
        keep(&mut answer, name).ok_or_else(|| StatusError::Unknown(name.clone()))?;
    }
    let report: StatusReport = serde_json::from_value(answer.clone()).map_err(StatusError::Read)?;
    let text = match (arguments.output, &arguments.name) {
        (StatusOutput::Json, None) => format!("{answer:#}\n"),
        (StatusOutput::Json, Some(_)) => format!("{:#}\n", answer.pointer("/objects/0").unwrap_or(&Value::Null)),
        (_, Some(_)) => report.objects.iter().map(text::detail).collect::<Vec<_>>().join("\n"),
        (StatusOutput::Wide, None) => text::table(&report, true),
        (StatusOutput::Text, None) => text::table(&report, false),
    };
    Ok((text, report.objects.iter().all(report::Object::is_well)))
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
