use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};

use super::BackupError;
use portcullis_api::{SECRET_LABEL, SETTINGS_SECRET_LABEL};
use portcullis_sources::WatchedKind;

use super::arguments::Backup;
use super::objects::{access, exported, secrets};

/// Objects of one page of a list.
const PAGE: u32 = 500;

pub(super) async fn back_up(arguments: &Backup) -> Result<String, BackupError> {
    let access = access(&arguments.store).await?;
    let mut labelled = BTreeMap::new();
    for label in [SECRET_LABEL, SETTINGS_SECRET_LABEL] {
        let found = list("Secrets", &secrets(&access), ListParams::default().labels(label)).await?;
        labelled.extend(found.into_iter().map(|secret| (secret.metadata.name.clone(), secret)));
    }
    let of_kind = async |what: &'static str, kind: WatchedKind| {
        let found = list(what, &kind.api(access.client.clone()), ListParams::default()).await?;
        let all = found.iter().map(|one| exported(kind.api_version(), kind.kind(), one));
        Ok::<Vec<Value>, BackupError>(all.collect())
    };
    let settings = optional(of_kind("GatewaySettings", WatchedKind::GatewaySettings).await)?;
    let instances = optional(of_kind("Instances", WatchedKind::Instance).await)?;
    let clusters = of_kind("UpstreamClusters", WatchedKind::UpstreamCluster).await?;
    let counts = (clusters.len(), labelled.len());
    let beside = [("GatewaySettings", settings.len()), ("Instances", instances.len())];
    let secrets = labelled.values().map(|one| exported("v1", "Secret", one));
    let items: Vec<Value> = secrets.chain(instances).chain(clusters).chain(settings).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let mut text = serde_json::to_vec_pretty(&list)?;
    text.push(b'\n');
    write(&arguments.to, &text).map_err(|source| BackupError::Write(arguments.to.clone(), source))?;
    let beside = beside.into_iter().filter(|(_, count)| *count > 0).map(|(kind, count)| format!(", {count} {kind}"));
    let beside: String = beside.collect();
    Ok(format!("wrote {} UpstreamClusters{beside} and {} Secrets to {}\n", counts.0, counts.1, arguments.to.display()))
}

/// None in a store of an earlier version, which has no definition of them.
fn optional(found: Result<Vec<Value>, BackupError>) -> Result<Vec<Value>, BackupError> {
    match found {
        Err(BackupError::List(_, error)) if matches!(&*error, kube::Error::Api(status) if status.code == 404) => {
            Ok(Vec::new())
        }
        found => found,
    }
}

async fn list(
    what: &'static str,
    api: &Api<DynamicObject>,
    parameters: ListParams,
) -> Result<Vec<DynamicObject>, BackupError> {
    let mut all = Vec::new();
    let mut parameters = parameters.limit(PAGE);
    loop {
        let page = api.list(&parameters).await.map_err(|source| BackupError::List(what, Box::new(source)))?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}

/// Written through to the disk: after a crash there is the old backup or the new one.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let coming = path.with_added_extension("new");
    match fs::remove_file(&coming) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&coming)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&coming, path)?;
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
