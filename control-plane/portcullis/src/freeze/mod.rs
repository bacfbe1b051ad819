//! `portcullis freeze` and `portcullis thaw`: put a profile in the place of a cluster's policies and limits, and take it away.

mod admitted;
mod arguments;
mod error;
mod known_settings;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;

use portcullis_api::{
    BUILT_IN_PROFILES, CLUSTER_KIND, Cluster, PROFILE_ANNOTATION, ProblemCode, UpstreamIdentity, check_cluster,
    cluster_mistakes, parse_cluster, unchecked_cluster,
};
use portcullis_filter_config::ProtectedIdentities;
use portcullis_sources::{change_profiles, read_profiles};
use serde_json::{Map, Value, json};

use arguments::ObjectArguments;
pub(crate) use arguments::{Freeze, Thaw};
use error::FreezeError;
use known_settings::KnownSettings;

use crate::onboard::{OnboardError, StoreArguments, StoreCluster, fail_with_advice, object_path, say};
use crate::read_manifests::read_manifests;
use crate::runtime::{Threads, runtime};

pub(crate) fn freeze(arguments: &Freeze) -> ExitCode {
    let object = &arguments.object;
    ended(match &object.profiles_file {
        Some(file) => freeze_by_file(arguments, file),
        None => block_on(freeze_in_store(arguments)),
    })
}

pub(crate) fn thaw(arguments: &Thaw) -> ExitCode {
    let object = &arguments.object;
    ended(match &object.profiles_file {
        Some(file) => thaw_by_file(arguments, file),
        None => block_on(thaw_in_store(object)),
    })
}

fn block_on(work: impl Future<Output = Result<(), FreezeError>>) -> Result<(), FreezeError> {
    runtime(Threads::Current).map_err(OnboardError::from)?.block_on(work)
}

fn ended(outcome: Result<(), FreezeError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(FreezeError::Store(error)) => fail_with_advice(&error),
        Err(error) => crate::fail(&error),
    }
}

async fn open(object: &ObjectArguments) -> Result<(StoreCluster, Value), FreezeError> {
    let store = StoreArguments {
        store_kubeconfig: object.kubeconfig.clone(),
        store_context: object.context.clone(),
        namespace: String::new(),
    };
    let store = StoreCluster::open(&store).await?;
    let found = store.existing(&object.name).await?;
    Ok((store, found.ok_or_else(|| FreezeError::Missing(object.name.clone()))?))
}

async fn freeze_in_store(arguments: &Freeze) -> Result<(), FreezeError> {
    let object = &arguments.object;
    let (store, document) = open(object).await?;
    // The settings are not in the store: a loopback server that they do not allow is refused with any profile, and by status.
    let cluster = with_stage(&document, &object.name, &arguments.stage, true)?;
    show(&cluster, &arguments.stage, &ProtectedIdentities::default());
    say(
        "the gateway's settings are not known here: their protectedIdentities and access lists may refuse some of these",
    );
    if object.dry_run {
        say("nothing was changed");
        return Ok(());
    }
    annotate(&store, &object.name, &Value::from(arguments.stage.as_str())).await?;
    say_done(&object.name, &arguments.stage);
    say_files();
    Ok(())
}

async fn thaw_in_store(object: &ObjectArguments) -> Result<(), FreezeError> {
    let (store, document) = open(object).await?;
    let annotations = document.pointer("/metadata/annotations");
    let Some(profile) = annotations.and_then(|all| all.get(PROFILE_ANNOTATION)).and_then(Value::as_str) else {
        say(&format!("{}: no profile is in effect", object.name));
        return Ok(());
    };
    if object.dry_run {
        say(&format!("{}: {profile} would end", object.name));
        return Ok(());
    }
    annotate(&store, &object.name, &Value::Null).await?;
    say(&format!("{}: {profile} ends, its policies and limits are those of the spec again", object.name));
    say_files();
    Ok(())
}

/// Patches the one annotation.
async fn annotate(store: &StoreCluster, name: &str, profile: &Value) -> Result<(), FreezeError> {
    let patch = json!({"metadata": {"annotations": {PROFILE_ANNOTATION: profile}}});
    let patched = store.api.merge(&object_path(CLUSTER_KIND, "", name), &patch).await;
    patched.map_err(store.api.failed(format!("patching UpstreamCluster {name}")))?;
    Ok(())
}

fn freeze_by_file(arguments: &Freeze, file: &Path) -> Result<(), FreezeError> {
    let object = &arguments.object;
    match &object.manifests {
        Some(manifests) => {
            let mut objects = read_manifests(manifests)?;
            objects.divide_settings(object.settings_name.as_deref());
            let is_it = |one: &&std::sync::Arc<Value>| {
                one.pointer("/metadata/name").and_then(Value::as_str) == Some(&object.name)
            };
            let found = objects.clusters.iter().find(is_it);
            let document = found.ok_or_else(|| FreezeError::Missing(object.name.clone()))?;
            let known = KnownSettings::of(&objects, &object.name, document);
            let cluster = with_stage(document, &object.name, &arguments.stage, known.allows_loopback)?;
            show(&cluster, &arguments.stage, &known.protected);
            known.remarks.iter().for_each(|remark| say(remark));
        }
        None if BUILT_IN_PROFILES.contains(&arguments.stage.as_str()) => {
            say(&format!("not checked without -f: whether {} is there and accepted, and who is let in", object.name));
        }
        None => return Err(FreezeError::NotBuiltIn(arguments.stage.clone())),
    }
    if object.dry_run {
        say("nothing was changed");
        return Ok(());
    }
    say_if_lost(file);
    change_profiles(file, |names| drop(names.insert(object.name.clone(), arguments.stage.clone())))?;
    say_done(&object.name, &arguments.stage);
    Ok(())
}

fn thaw_by_file(arguments: &Thaw, file: &Path) -> Result<(), FreezeError> {
    let object = &arguments.object;
    let before = read_profiles(file)?.get(&object.name).cloned();
    let wanted = arguments.ignore_annotation.then(String::new);
    // Of a file that is gone the control plane keeps what it said: only one that is written anew ends that.
    if before == wanted && file.exists() {
        say(&format!("{}: {} says so already", object.name, file.display()));
        return Ok(());
    }
    if object.dry_run {
        say(&format!("{}: {} would end", object.name, before.unwrap_or_default()));
        return Ok(());
    }
    say_if_lost(file);
    change_profiles(file, |names| match &wanted {
        Some(profile) => drop(names.insert(object.name.clone(), profile.clone())),
        None => drop(names.remove(&object.name)),
    })?;
    let then = if arguments.ignore_annotation { "the spec is" } else { "its annotation, or the spec, is" };
    say(&format!("{}: {then} in effect again", object.name));
    Ok(())
}

/// The cluster with a profile, as it would be served. References are not resolved: no policy depends on them.
fn with_stage(document: &Value, name: &str, stage: &str, allows_loopback: bool) -> Result<Cluster, FreezeError> {
    let mut document = document.clone();
    let refused = |problems| FreezeError::Refused { name: name.to_owned(), problems };
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if annotations.is_null() {
            *annotations = Value::Object(Map::new());
        }
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(PROFILE_ANNOTATION.to_owned(), Value::from(stage));
        }
    }
    let raw = parse_cluster(&document).map_err(|_| refused(cluster_mistakes(&document)))?;
    match check_cluster(&raw, allows_loopback).outcome {
        Ok(cluster) => Ok(cluster),
        Err(mut problems) => {
            problems.retain(|problem| problem.code != ProblemCode::Unresolved);
            unchecked_cluster(&raw).filter(|_| problems.is_empty()).ok_or_else(|| refused(problems))
        }
    }
}

fn show(cluster: &Cluster, stage: &str, protected: &ProtectedIdentities) {
    say(&format!("{}: {stage} lets in, the first line that fits a request:", cluster.name));
    let mut protected = protected.clone();
    protected.groups.extend(cluster.protected.iter().flat_map(|own| &own.groups).cloned());
    crate::print(&admitted::admitted(cluster, &protected));
    if cluster.access.is_some() {
        say("its access lists refuse before that");
    }
    if matches!(cluster.upstream_identity, UpstreamIdentity::RequestHeader { token_review: false, .. }) {
        say("tokens are not reviewed: users of tokens match no line that names users or groups");
    }
}

fn say_files() {
    say("a control plane whose --profiles-file names the object goes by that file");
}

/// Of a file that was there before, the control plane goes by what it said last, until it is written anew.
fn say_if_lost(file: &Path) {
    if !file.exists() {
        say(&format!(
            "{} was not there and is written anew: if it was lost, the profiles of other clusters that it named end now",
            file.display()
        ));
    }
}

fn say_done(name: &str, stage: &str) {
    say(&format!(
        "{name}: {stage}; portcullis status {name} says where it is in effect, portcullis thaw {name} ends it"
    ));
}
