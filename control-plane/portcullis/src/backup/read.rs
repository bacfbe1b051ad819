use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};

use super::BackupError;
use portcullis_api::SECRET_LABEL;

use super::arguments::Backup;
use super::objects::{access, clusters, exported, secrets};

/// Objects of one page of a list.
const PAGE: u32 = 500;

pub(super) async fn back_up(arguments: &Backup) -> Result<String, BackupError> {
    let access = access(&arguments.store).await?;
    let labelled = ListParams::default().labels(SECRET_LABEL);
    let secrets = list("Secrets", &secrets(&access), labelled).await?;
    let clusters = list("UpstreamClusters", &clusters(&access.client), ListParams::default()).await?;
    let counts = (clusters.len(), secrets.len());
    let items: Vec<Value> = (secrets.iter().map(|one| exported("v1", "Secret", one)))
        .chain(clusters.iter().map(|one| exported("proxy.kubegateway.io/v1alpha1", "UpstreamCluster", one)))
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let mut text = serde_json::to_vec_pretty(&list)?;
    text.push(b'\n');
    write(&arguments.to, &text).map_err(|source| BackupError::Write(arguments.to.clone(), source))?;
    Ok(format!("wrote {} UpstreamClusters and {} Secrets to {}\n", counts.0, counts.1, arguments.to.display()))
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
