use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use kube::api::{Patch, PatchParams};
use portcullis_sources::{KubernetesAccess, WatchedKind};
use serde_json::{Value, json};

use super::BackupError;
use super::arguments::Restore;
use super::objects::{KINDS, access, secrets};

/// The field manager of what is restored.
const MANAGER: &str = "portcullis-restore";
/// Maximum size of a backup: forty thousand clusters.
const MAX_BYTES: u64 = 1 << 30;

pub(super) async fn restore(arguments: &Restore) -> Result<String, BackupError> {
    let path = &arguments.from;
    let bytes = read(path).map_err(|source| BackupError::Read(path.clone(), source))?;
    let shape = || BackupError::Shape(path.clone());
    let backup: Value = serde_json::from_slice(&bytes).map_err(|_| shape())?;
    let items = backup.get("items").and_then(Value::as_array).ok_or_else(shape)?;
    let mut items: Vec<&Value> = items.iter().collect();
    if !items.iter().all(|item| is_ours(item)) {
        return Err(shape());
    }
    // Names that two objects claim go to the older one.
    items.sort_by_key(|item| (turn(item), text(item, "/metadata/creationTimestamp")));
    let access = access(&arguments.store).await?;
    for item in &items {
        restore_one(&access, item).await?;
    }
    Ok(format!("restored {} objects of {}\n", items.len(), path.display()))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 GiB"));
    }
    Ok(text)
}

fn text<'a>(item: &'a Value, pointer: &str) -> &'a str {
    item.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_ours(item: &Value) -> bool {
    let is_secret = (text(item, "/apiVersion"), text(item, "/kind")) == ("v1", "Secret");
    (is_secret || kind(item).is_some()) && !text(item, "/metadata/name").is_empty()
}

/// Secrets before what refers to them, instances before the clusters that are theirs, and settings last: a control plane that uses
/// them serves from then on, and has to find all clusters.
fn turn(item: &Value) -> u8 {
    match kind(item) {
        None => 0,
        Some(WatchedKind::GatewaySettings) => 3,
        Some(WatchedKind::Instance) => 1,
        Some(_) => 2,
    }
}

/// None of a Secret.
fn kind(item: &Value) -> Option<WatchedKind> {
    let of = (text(item, "/apiVersion"), text(item, "/kind"));
    KINDS.into_iter().find(|kind| (kind.api_version(), kind.kind()) == of)
}

async fn restore_one(access: &KubernetesAccess, item: &Value) -> Result<(), BackupError> {
    let (kind, name) = (text(item, "/kind"), text(item, "/metadata/name"));
    let failed = |source| BackupError::Restore(format!("{kind} {name}"), Box::new(source));
    let mut object = item.clone();
    let status = object.as_object_mut().and_then(|object| object.remove("status"));
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
    }
    let api = self::kind(item).map_or_else(|| secrets(access), |kind| kind.api(access.client.clone()));
    let parameters = PatchParams::apply(MANAGER).force();
    api.patch(name, &parameters, &Patch::Apply(&object)).await.map_err(failed)?;
    if let Some(status) = status {
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await.map_err(failed)?;
    }
    Ok(())
}
