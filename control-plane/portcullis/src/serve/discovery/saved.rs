use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use portcullis_api::DiscoveredServer;
use serde::{Deserialize, Serialize};

use super::super::state::{read_private, write_private};
use super::answers::Answer;
use super::want::AnswerKey;

/// The file's name in --state-dir.
const FILE: &str = "discovered";
/// The version of its content. Others are not read.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
struct SavedAnswers {
    version: u32,
    answers: Vec<SavedAnswer>,
}

#[derive(Serialize, Deserialize)]
struct SavedAnswer {
    name: String,
    uid: String,
    source: String,
    place: String,
    written: BTreeSet<String>,
    /// Seconds since 1970.
    changed: Option<u64>,
    /// Address and zone.
    servers: Vec<(SocketAddr, String)>,
}

/// The answers of the last run. Without a file that can be used there are none.
pub(super) fn load(directory: &Path) -> BTreeMap<String, Answer> {
    let path = directory.join(FILE);
    let file = path.display().to_string();
    let bytes = match read_private(&path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return BTreeMap::new(),
        Err(error) => {
            tracing::error!(file, "the servers discovered before the start are not used: the file {error}");
            return BTreeMap::new();
        }
    };
    match serde_json::from_slice::<SavedAnswers>(&bytes) {
        Ok(saved) if saved.version == VERSION => {
            saved.answers.into_iter().map(|one| (one.name.clone(), answer(one))).collect()
        }
        Ok(_) | Err(_) => {
            tracing::error!(
                file,
                "the servers discovered before the start are not used: the file is of another release"
            );
            BTreeMap::new()
        }
    }
}

fn answer(saved: SavedAnswer) -> Answer {
    let key = AnswerKey { name: saved.name, uid: saved.uid, source: saved.source, place: saved.place };
    let server =
        |(address, zone): (SocketAddr, String)| DiscoveredServer { ip: address.ip(), port: address.port(), zone };
    Answer {
        written: saved.written,
        servers: saved.servers.into_iter().map(server).collect(),
        changed: saved.changed.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
        ..Answer::none(key, SystemTime::now())
    }
}

/// Writes the answers that have servers.
pub(super) async fn save(directory: PathBuf, answers: BTreeMap<String, Answer>) {
    let with_servers = answers.into_values().filter(|answer| !answer.servers.is_empty());
    let saved = SavedAnswers { version: VERSION, answers: with_servers.map(saved).collect() };
    let shown = directory.display().to_string();
    let write = move || {
        let bytes = serde_json::to_vec(&saved)?;
        write_private(&directory, FILE, &bytes)
    };
    let outcome = tokio::task::spawn_blocking(write).await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    if let Err(error) = outcome {
        tracing::error!(directory = shown, %error, "the discovered servers cannot be written");
    }
}

fn saved(answer: Answer) -> SavedAnswer {
    let since_epoch = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let AnswerKey { name, uid, source, place } = answer.key;
    let server = |server: DiscoveredServer| (SocketAddr::new(server.ip, server.port), server.zone);
    let servers = answer.servers.into_iter().map(server).collect();
    let (written, changed) = (answer.written, answer.changed.map(since_epoch));
    SavedAnswer { name, uid, source, place, written, changed, servers }
}
