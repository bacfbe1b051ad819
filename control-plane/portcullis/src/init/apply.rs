use std::path::Path;
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Error};
use portcullis_sources::ConnectError;
use serde_json::Value;

use super::settings::Settings;
use super::{objects, withdrawn};

/// The field manager of everything that is applied.
const MANAGER: &str = "portcullis-init";
/// How often a state is asked for that is waited for.
const PACE: Duration = Duration::from_millis(250);

/// Why the store does not have everything.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApplyError {
    #[error("cannot reach the store")]
    Connect(#[from] ConnectError),
    #[error("the kube-apiserver is not ready; start etcd and kube-apiserver: DIR/members/NAME/start/")]
    NotReady(#[source] Box<Error>),
    #[error("cannot apply {name}")]
    Apply { name: String, source: Box<Error> },
    #[error("the kube-apiserver does not serve UpstreamClusters")]
    NotServed,
    #[error(transparent)]
    Withdrawn(#[from] withdrawn::RemoveError),
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
    timeout: Duration,
    prune: bool,
) -> Result<Applied, ApplyError> {
    let deadline = Instant::now() + timeout;
    let access = portcullis_sources::connect(Some(kubeconfig), None, Some(&settings.namespace)).await?;
    wait_ready(&access.client, deadline).await?;
    let mut names = Vec::new();
    let objects = objects::all(settings);
    for object in &objects {
        if is_present_namespace(&access.client, object).await {
            continue;
        }
        let name = apply_one(&access.client, object, deadline).await?;
        if object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition") {
            wait_served(&access.client, object, deadline).await?;
        }
        names.push(name);
    }
    let removed = if prune { withdrawn::remove(&access.client, &objects).await? } else { Vec::new() };
    Ok(Applied { names, removed })
}

async fn wait_ready(client: &Client, deadline: Instant) -> Result<(), ApplyError> {
    loop {
        let request = http_get("/readyz");
        match client.request_text(request).await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(ApplyError::NotReady(Box::new(error))),
            Err(_) => tokio::time::sleep(PACE).await,
        }
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
async fn apply_one(client: &Client, object: &Value, deadline: Instant) -> Result<String, ApplyError> {
    let (api, full_name) = (api_of(client, object), name_of(object));
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let parameters = PatchParams::apply(MANAGER).force();
    loop {
        match api.patch(name, &parameters, &Patch::Apply(object)).await {
            Ok(_) => return Ok(full_name),
            Err(error) if is_final(&error) || Instant::now() > deadline => {
                return Err(ApplyError::Apply { name: full_name, source: Box::new(error) });
            }
            Err(_) => tokio::time::sleep(PACE).await,
        }
    }
}

/// The object itself is refused.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Api(status) if matches!(status.code, 400 | 409 | 413 | 422))
}

async fn wait_served(client: &Client, definition: &Value, deadline: Instant) -> Result<(), ApplyError> {
    let api = api_of(client, definition);
    let name = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    while Instant::now() < deadline {
        let present = api.get(name).await.ok();
        let conditions = present.as_ref().and_then(|one| one.data.pointer("/status/conditions")?.as_array());
        let is = |one: &Value| one["type"] == "Established" && one["status"] == "True";
        if conditions.is_some_and(|all| all.iter().any(is)) {
            return Ok(());
        }
        tokio::time::sleep(PACE).await;
    }
    Err(ApplyError::NotServed)
}
