//! `portcullis diff`: all requests that two sets of objects judge differently.

mod arguments;
mod atoms;
mod classes;
mod cluster;
mod cluster_diff;
mod compare;
mod content;
mod doors;
mod endings;
mod example;
mod fields;
mod natural;
mod objects;
mod output;
mod region;
mod report;
mod search;
mod side;
mod space;
mod target_text;
mod verdict;
mod vocabulary;

use std::process::ExitCode;

use portcullis_core::CompileError;
use portcullis_sources::InputError;
use rustls_pki_types::UnixTime;

pub(crate) use arguments::Diff;
use content::with_content;
use report::DiffReport;

use crate::explain::{Environment, EnvironmentError, ObjectFiles, ReadObjects};
use crate::replay::{FAILED, ReplayOutput};

/// Why objects cannot be compared.
#[derive(Debug, thiserror::Error)]
enum DiffError {
    #[error("the Secrets among the objects")]
    Secrets(#[from] InputError),
    #[error("the old objects")]
    Old(#[source] EnvironmentError),
    #[error("the new objects")]
    New(#[source] EnvironmentError),
    #[error("UpstreamCluster {0}")]
    Compile(String, #[source] CompileError),
    #[error("there is no UpstreamCluster {0} among the objects")]
    NoCluster(String),
    #[error("cannot print the report")]
    Print(#[from] crate::output::OutputError),
}

pub(crate) fn run(arguments: &Diff) -> ExitCode {
    match diff(arguments) {
        Ok(exit) => exit,
        Err(error) => {
            crate::fail(&error);
            ExitCode::from(FAILED)
        }
    }
}

fn diff(arguments: &Diff) -> Result<ExitCode, DiffError> {
    let files = |paths| ObjectFiles {
        paths,
        namespace: &arguments.namespace,
        settings_name: arguments.settings_name.as_deref(),
    };
    let ReadObjects { set: old, attached: old_policies } = files(&arguments.old).read().map_err(DiffError::Old)?;
    let ReadObjects { set: new, attached: new_policies } = files(&arguments.new).read().map_err(DiffError::New)?;
    let resolved = [
        with_content(&old, &arguments.old, arguments.references_root.as_deref())?,
        with_content(&new, &arguments.new, arguments.with_references_root.as_deref())?,
    ];
    let [old_content, new_content] = &resolved;
    let sides = [
        Environment::with_routes(old_content, old_policies, &arguments.namespace, true).map_err(DiffError::Old)?,
        Environment::with_routes(new_content, new_policies, &arguments.namespace, true).map_err(DiffError::New)?,
    ];
    for (side, word) in sides.iter().zip(["old", "new"]) {
        side.problems().iter().for_each(|problem| crate::complain("warning", &format!("{word} objects: {problem}")));
    }
    let now = UnixTime::now().as_secs();
    let report = DiffReport::new([&old, &new], [old_content, new_content], &sides, &arguments.clusters, now)?;
    for cluster in &report.clusters {
        for path in &cluster.unknown_content {
            let message = format!("{}: the content of {path} is not compared: it is not at hand", cluster.name);
            crate::complain("warning", &message);
        }
    }
    if report.has_unknown_settings {
        let message = "GatewaySettings: the content of references is not compared: it is not at hand";
        crate::complain("warning", message);
    }
    let printed = crate::print(&match arguments.output {
        ReplayOutput::Text => output::text(&report, arguments.show),
        ReplayOutput::Json => output::json(&report, arguments.show),
    });
    Ok(if report.is_same() { printed } else { ExitCode::from(1) })
}

#[cfg(test)]
mod tests;
