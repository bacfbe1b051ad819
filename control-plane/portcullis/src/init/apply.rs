use std::path::Path;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Error};
use portcullis_sources::ConnectError;
use serde_json::Value;

use super::lookout::{LastLines, Lookout, Over};
use super::settings::Settings;
use super::{objects, withdrawn};

/// The field manager of everything that is applied.
const MANAGER: &str = "portcullis-init";

/// Why the store does not have everything.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApplyError {
    #[error("cannot reach the store")]
    Connect(#[from] ConnectError),
    #[error("the kube-apiserver is not ready; start etcd and kube-apiserver: DIR/members/NAME/start/")]
    NotReady(#[source] Box<Error>),
    #[error("{0}")]
    Ended(LastLines),
    #[error("cannot apply {name}")]
    Apply { name: String, source: Box<Error> },
    #[error("the kube-apiserver does not serve UpstreamClusters")]
    NotServed,
    #[error(transparent)]
    Withdrawn(#[from] withdrawn::RemoveError),
}

impl ApplyError {
    /// The end of a wait: a server's own, or the error for a store that does not come.
    fn of(over: Over, late: impl FnOnce() -> Self) -> Self {
        match over {
            Over::Ended(lines) => Self::Ended(lines),
            Over::Deadline => late(),
        }
    }
}

/// The objects that the store got or lost, by kind and name.
pub(super) struct Applied {
    pub(super) names: Vec<String>,
    pub(super) removed: Vec<String>,
}

/// Applies everything in order, as soon as the kube-apiserver is ready; with `prune`, removes what earlier runs applied and this
/// one does not.
pub(super) async fn apply(
    kubeconfig: &Path,
    settings: &Settings,
    mut lookout: Lookout<'_>,
    prune: bool,
) -> Result<Applied, ApplyError> {
    let lookout = &mut lookout;
    let access = portcullis_sources::connect(Some(kubeconfig), None, Some(&settings.namespace)).await?;
    wait_ready(&access.client, lookout).await?;
    let mut names = Vec::new();
    let objects = objects::all(settings);
    for object in &objects {
        if is_present_namespace(&access.client, object).await {
            continue;
        }
        let name = apply_one(&access.client, object, lookout).await?;
        if object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition") {
            wait_served(&access.client, object, lookout).await?;
        }
        names.push(name);
    }
    let removed = if prune { withdrawn::remove(&access.client, &objects).await? } else { Vec::new() };
    Ok(Applied { names, removed })
}

async fn wait_ready(client: &Client, lookout: &mut Lookout<'_>) -> Result<(), ApplyError> {
    loop {
        let request = http_get("/readyz");
        let Err(error) = client.request_text(request).await else { return Ok(()) };
        let late = || ApplyError::NotReady(Box::new(error));
        lookout.wait().await.map_err(|over| ApplyError::of(over, late))?;
    }
}

fn http_get(path: &'static str) -> hyper::Request<Vec<u8>> {
    let mut request = hyper::Request::new(Vec::new());
    *request.uri_mut() = hyper::Uri::from_static(path);
    request
}

fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let version = text("/apiVersion").unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    // The plural of each kind here is regular.
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind").unwrap_or_default()));
    match text("/metadata/namespace") {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// A namespace that is there may have got labels and finalizers of others; nothing in it is of this command.
async fn is_present_namespace(client: &Client, object: &Value) -> bool {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let is_namespace = object.get("kind").is_some_and(|kind| kind == "Namespace");
    is_namespace && api_of(client, object).get(name).await.is_ok()
}

/// An object's kind and name.
fn name_of(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", text("/kind"), text("/metadata/name"))
}

/// Tries again until the deadline: a kube-apiserver that has just become ready may still refuse a kind or the user's rights.
async fn apply_one(client: &Client, object: &Value, lookout: &mut Lookout<'_>) -> Result<String, ApplyError> {
    let (api, full_name) = (api_of(client, object), name_of(object));
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let parameters = PatchParams::apply(MANAGER).force();
    loop {
        let Err(error) = api.patch(name, &parameters, &Patch::Apply(object)).await else { return Ok(full_name) };
        let is_refused = is_final(&error);
        let failed = || ApplyError::Apply { name: full_name.clone(), source: Box::new(error) };
        if is_refused {
            return Err(failed());
        }
        lookout.wait().await.map_err(|over| ApplyError::of(over, failed))?;
    }
}

/// The object itself is refused.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Api(status) if matches!(status.code, 400 | 409 | 413 | 422))
}

async fn wait_served(client: &Client, definition: &Value, lookout: &mut Lookout<'_>) -> Result<(), ApplyError> {
    let api = api_of(client, definition);
    let name = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    loop {
        let present = api.get(name).await.ok();
        let conditions = present.as_ref().and_then(|one| one.data.pointer("/status/conditions")?.as_array());
        let is = |one: &Value| one["type"] == "Established" && one["status"] == "True";
        if conditions.is_some_and(|all| all.iter().any(is)) {
            return Ok(());
        }
        lookout.wait().await.map_err(|over| ApplyError::of(over, || ApplyError::NotServed))?;
    }
}
