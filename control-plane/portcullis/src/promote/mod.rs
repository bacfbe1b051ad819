//! `portcullis promote`: the object in which a shadow decides.

mod arguments;

use std::process::ExitCode;
use std::sync::Arc;

use portcullis_api::{Problem, ProblemCode, check_cluster, cluster_mistakes, merge_patch, parse_cluster, promote};
use serde_json::{Value, json};

pub(crate) use arguments::Promote;
use arguments::PromoteOutput;

use crate::arguments::ManifestOutput;
use crate::onboard::{OnboardError, StoreArguments, StoreCluster, fail_with_advice};
use crate::output::OutputError;
use crate::read_manifests::{ManifestError, read_manifests};
use crate::runtime::{Threads, runtime};

/// The reason for which nothing is printed.
#[derive(Debug, thiserror::Error)]
enum PromoteError {
    #[error(transparent)]
    Manifests(#[from] ManifestError),
    #[error("no UpstreamCluster {0} is there")]
    NoCluster(String),
    #[error("UpstreamCluster {0} has no shadow: no policy of mode: Shadow, and no spec.portcullis.shadow")]
    NoShadow(String),
    /// The object's author has to act: gateways would go on with its last version.
    #[error("UpstreamCluster {name} would be refused: {}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused { name: String, problems: Vec<Problem> },
    #[error(transparent)]
    Output(#[from] OutputError),
}

pub(crate) fn run(arguments: &Promote) -> ExitCode {
    let document = if arguments.files.is_empty() {
        match stored(arguments) {
            Ok(document) => document.map(Arc::new),
            Err(error) => return fail_with_advice(&error),
        }
    } else {
        match written(arguments) {
            Ok(document) => document,
            Err(error) => return crate::fail(&error),
        }
    };
    match promoted(arguments, document.as_deref()) {
        Ok(text) => crate::print(&text),
        Err(error) => crate::fail(&error),
    }
}

fn stored(arguments: &Promote) -> Result<Option<Value>, OnboardError> {
    let store = StoreArguments {
        store_kubeconfig: arguments.kubeconfig.clone(),
        store_context: arguments.context.clone(),
        namespace: String::new(),
    };
    let read = async { StoreCluster::open(&store).await?.existing(&arguments.name).await };
    runtime(Threads::Current).map_err(OnboardError::from)?.block_on(read)
}

fn written(arguments: &Promote) -> Result<Option<Arc<Value>>, PromoteError> {
    let is_named = |document: &Arc<Value>| {
        document.pointer("/metadata/name").and_then(Value::as_str) == Some(arguments.name.as_str())
    };
    for path in &arguments.files {
        if let Some(found) = read_manifests(path)?.clusters.into_iter().find(is_named) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn promoted(arguments: &Promote, document: Option<&Value>) -> Result<String, PromoteError> {
    let document = document.ok_or_else(|| PromoteError::NoCluster(arguments.name.clone()))?;
    let after = promote(document).ok_or_else(|| PromoteError::NoShadow(arguments.name.clone()))?;
    check(&arguments.name, &after)?;
    Ok(match arguments.output {
        PromoteOutput::Patch => {
            let mut patch = merge_patch(document, &after);
            // An edit in between is then a conflict.
            if let (Some(version), Some(patch)) = (document.pointer("/metadata/resourceVersion"), patch.as_object_mut())
            {
                patch.insert("metadata".to_owned(), json!({"resourceVersion": version}));
            }
            format!("{patch}\n")
        }
        PromoteOutput::Yaml => ManifestOutput::Yaml.text(&after)?,
        PromoteOutput::Json => ManifestOutput::Json.text(&after)?,
    })
}

/// Checks the object in which the shadow decides. References are not looked at, and whether the gateway's settings allow its servers.
fn check(name: &str, after: &Value) -> Result<(), PromoteError> {
    let mut problems = match parse_cluster(after) {
        Ok(raw) => check_cluster(&raw, true).outcome.err().unwrap_or_default(),
        Err(_) => cluster_mistakes(after),
    };
    problems.retain(|problem| problem.code != ProblemCode::Unresolved);
    if problems.is_empty() { Ok(()) } else { Err(PromoteError::Refused { name: name.to_owned(), problems }) }
}
