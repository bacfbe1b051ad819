//! `portcullis promote`: the object in which a shadow decides.

mod arguments;
mod attached;

use std::process::ExitCode;
use std::sync::Arc;

use portcullis_api::{Problem, ProblemCode, check_cluster, cluster_mistakes, merge_patch, parse_cluster, promote};
use portcullis_sources::ObjectSet;
use serde_json::{Value, json};

pub(crate) use arguments::Promote;
use arguments::PromoteOutput;
use attached::{AttachedError, Promotion};

use crate::arguments::ManifestOutput;
use crate::onboard::{OnboardError, StoreArguments, StoreCluster, fail_with_advice, say};
use crate::output::OutputError;
use crate::policies::name_of;
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
    /// A limit that the object names may be of a policy that is not here.
    #[error("{0} (hint: policies are attached to it; -f with their files, too, checks it with them)")]
    RefusedAlone(Box<PromoteError>),
    #[error(transparent)]
    Attached(#[from] AttachedError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

pub(crate) fn run(arguments: &Promote) -> ExitCode {
    let objects = if arguments.files.is_empty() {
        match stored(arguments) {
            Ok(document) => {
                ObjectSet { clusters: document.map(Arc::new).into_iter().collect(), ..ObjectSet::default() }
            }
            Err(error) => return fail_with_advice(&error),
        }
    } else {
        match written(arguments) {
            Ok(objects) => objects,
            Err(error) => return crate::fail(&error),
        }
    };
    match promoted(arguments, &objects) {
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

/// The objects of all files, as far as they decide about who is let in.
fn written(arguments: &Promote) -> Result<ObjectSet, PromoteError> {
    let mut all = ObjectSet::default();
    for path in &arguments.files {
        let read = read_manifests(path)?;
        all.clusters.extend(read.clusters);
        all.policies.extend(read.policies);
        all.others.extend(read.others);
    }
    Ok(all)
}

fn promoted(arguments: &Promote, objects: &ObjectSet) -> Result<String, PromoteError> {
    let (name, home_namespace) = (&arguments.name, &arguments.namespace);
    let document = objects.clusters.iter().find(|document| name_of(document) == name);
    let document = document.ok_or_else(|| PromoteError::NoCluster(name.clone()))?;
    let Some(after) = promote(document) else {
        let of_policy = attached::of_policy(objects, home_namespace, name);
        return Err(of_policy.map_or_else(|| PromoteError::NoShadow(name.clone()), PromoteError::from));
    };
    let promotion = match objects.policies.is_empty() {
        true => attached::by_status(document, after.clone())?,
        false => attached::among(objects, home_namespace, document, after.clone())?,
    };
    let Promotion { document: served, has_policies, remarks } = promotion;
    match check(name, &served) {
        Err(error) if !has_policies => return Err(PromoteError::RefusedAlone(Box::new(error))),
        checked => checked?,
    }
    remarks.iter().for_each(|remark| say(remark));
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
