//! `portcullis top`: the traffic of all clusters, or everything about one, in a terminal.

mod arguments;
mod cluster_text;
mod fleet_text;
mod gateway_traffic;
mod numbers;
#[cfg(test)]
mod tests;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use arguments::{Order, TopOutput};
pub(crate) use arguments::{Top, interval};

use crate::control_plane_client::{AskError, escaped};
use crate::http_client::ResponseLimits;
use crate::live;
use crate::runtime::{RuntimeError, Threads, runtime};
use crate::serve::fleet::view::{ClusterView, FleetView};

/// The bounds of a view: thousands of clusters and gateways.
const LIMITS: ResponseLimits = ResponseLimits { time: Duration::from_secs(15), bytes: 256 << 20 };

/// The reason for which nothing can be printed.
#[derive(Debug, thiserror::Error)]
enum TopError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the control plane's answer cannot be read")]
    Read(#[source] serde_json::Error),
    #[error("cannot draw on the terminal")]
    Draw(#[source] io::Error),
}

pub(crate) fn run(arguments: &Top) -> ExitCode {
    let runtime = runtime(Threads::Current).map_err(TopError::Runtime);
    match runtime.and_then(|runtime| runtime.block_on(print(arguments))) {
        Ok(status) => status,
        Err(error) => crate::fail(&error),
    }
}

async fn print(arguments: &Top) -> Result<ExitCode, TopError> {
    let is_once = arguments.once || arguments.output == TopOutput::Json || !live::is_possible();
    // A first failure ends it: the address may be wrong.
    let first = text(arguments, arguments.sort).await?;
    if is_once {
        return Ok(crate::print(&first));
    }
    let (mut order, mut first) = (arguments.sort, Some(first));
    let frame = async |key: Option<char>| {
        if key == Some('s') {
            order = order.next();
        } else if let Some(first) = first.take() {
            return first;
        }
        text(arguments, order).await.unwrap_or_else(|error| failure(&error))
    };
    live::follow(arguments.interval, frame).await.map_err(TopError::Draw)?;
    Ok(ExitCode::SUCCESS)
}

/// An error with its causes, in the place of a frame.
pub(crate) fn failure(error: &dyn std::error::Error) -> String {
    let mut text = format!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    crate::display_text::one_line(&text)
}

async fn text(arguments: &Top, order: Order) -> Result<String, TopError> {
    let path = match &arguments.cluster {
        Some(name) => format!("/ui/api/clusters/{}", escaped(name)),
        None => "/ui/api/fleet".to_owned(),
    };
    let body = arguments.control_plane.get(&path, LIMITS).await?;
    if arguments.output == TopOutput::Json {
        let answer: Value = serde_json::from_slice(&body).map_err(TopError::Read)?;
        return Ok(crate::display_text::json(&answer));
    }
    match &arguments.cluster {
        Some(_) => {
            let view: ClusterView = serde_json::from_slice(&body).map_err(TopError::Read)?;
            Ok(cluster_text::detail(&view))
        }
        None => {
            let mut view: FleetView = serde_json::from_slice(&body).map_err(TopError::Read)?;
            Ok(fleet_text::table(&mut view, order))
        }
    }
}
