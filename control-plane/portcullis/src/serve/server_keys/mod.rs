//! Public keys of service accounts' tokens, read from the servers of objects that want that (`jwks.fromServers`), and put into
//! the objects before they are translated.
//!
//! `schedule` says when which servers are asked and for how long an answer holds, without I/O and with time as an argument; here
//! they are asked.

mod schedule;

use std::sync::Arc;
use std::time::Instant;

use portcullis_api::{Cluster, Settings, check_cluster, parse_cluster, resolve};
use portcullis_sources::ObjectSet;
use portcullis_translate::choose_settings;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::onboard::{TokenKeysError, read_token_keys};
use schedule::{KeySchedule, Wanted, asks_servers};

/// Clusters whose servers are asked at a time.
const AT_A_TIME: usize = 4;

/// Why the servers of a refused object are not asked.
const REFUSED: &str = "the object is not accepted";

/// The answer of a cluster's servers.
struct ServersAnswer {
    name: String,
    keys: Result<String, TokenKeysError>,
}

/// The sets with the keys in them that their servers have. A set in which no object wants that goes on as it is.
pub(super) fn with_server_keys(mut sets: watch::Receiver<Arc<ObjectSet>>) -> watch::Receiver<Arc<ObjectSet>> {
    let first = Arc::clone(&sets.borrow_and_update());
    let (sender, receiver) = watch::channel(Arc::clone(&first));
    tokio::spawn(async move {
        let mut reader = KeyReader::new();
        let (mut set, mut is_new) = (first, true);
        loop {
            if is_new {
                reader.follow(&set);
            }
            reader.ask_due(&set, Instant::now());
            let next = reader.schedule.put_into(&set, Instant::now());
            sender.send_if_modified(|before| {
                let is_other = !Arc::ptr_eq(before, &next) && **before != *next;
                if is_other {
                    *before = next;
                }
                is_other
            });
            is_new = tokio::select! {
                changed = sets.changed() => match changed {
                    Ok(()) => { set = Arc::clone(&sets.borrow_and_update()); true }
                    Err(_) => return,
                },
                () = sender.closed() => return,
                () = reader.wait() => false,
            };
        }
    });
    receiver
}

struct KeyReader {
    schedule: KeySchedule,
    settings: Settings,
    answers: (mpsc::UnboundedSender<ServersAnswer>, mpsc::UnboundedReceiver<ServersAnswer>),
    turns: Arc<Semaphore>,
}

impl KeyReader {
    fn new() -> Self {
        Self {
            schedule: KeySchedule::default(),
            settings: Settings::default(),
            answers: mpsc::unbounded_channel(),
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    fn follow(&mut self, set: &ObjectSet) {
        if let Some(settings) = choose_settings(&set.settings, None).settings {
            self.settings = settings;
        }
        self.schedule.follow(set.clusters.iter().filter_map(|document| wanted(document, set)), Instant::now());
    }

    /// Asks the servers of the clusters whose keys are due.
    fn ask_due(&mut self, set: &ObjectSet, now: Instant) {
        for name in self.schedule.take_due(now) {
            let document = set.clusters.iter().find(|document| name_of(document) == name);
            let Some(cluster) = document.and_then(|document| self.cluster(document, set)) else {
                self.schedule.answered(&name, Err(REFUSED.to_owned()), now);
                continue;
            };
            let (sender, turns) = (self.answers.0.clone(), Arc::clone(&self.turns));
            let headers = self.settings.request_header_names.clone();
            tokio::spawn(async move {
                // It is never closed.
                let _turn = turns.acquire_owned().await;
                let mut keys = Err(TokenKeysError::Answer);
                for server in cluster.servers.iter().filter(|server| server.enabled) {
                    keys = read_token_keys(&cluster, &server.endpoint, &headers).await;
                    if keys.is_ok() {
                        break;
                    }
                }
                // Without a receiver the control plane ends.
                let _ = sender.send(ServersAnswer { name, keys });
            });
        }
    }

    /// The checked object with its credential.
    fn cluster(&self, document: &Arc<Value>, set: &ObjectSet) -> Option<Cluster> {
        let raw = parse_cluster(&resolve(document, &set.referenced_data).document).ok()?;
        check_cluster(&raw, self.settings.allow_loopback_upstreams).outcome.ok()
    }

    /// Waits for an answer, or until keys are due.
    async fn wait(&mut self) {
        let due = self.schedule.next(Instant::now());
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            answer = self.answers.1.recv() => if let Some(ServersAnswer { name, keys }) = answer {
                if let Err(error) = &keys {
                    tracing::warn!(cluster = %name, %error, "the servers' keys of service accounts are not known anew");
                }
                self.schedule.answered(&name, keys.map_err(|error| error.to_string()), Instant::now());
            },
            () = timer => {}
        }
    }
}

fn name_of(document: &Value) -> &str {
    document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// A cluster that wants its servers' keys. Other servers, another CA or another credential are asked anew.
fn wanted(document: &Arc<Value>, set: &ObjectSet) -> Option<Wanted> {
    if !asks_servers(document) {
        return None;
    }
    let resolved = resolve(document, &set.referenced_data).document;
    let part = |path| resolved.pointer(path).cloned().unwrap_or_default();
    let asked = ["/spec/servers", "/spec/clientConfig", "/spec/portcullis/upstreamIdentity", "/metadata/uid"].map(part);
    Some(Wanted { name: name_of(document).to_owned(), asked: Value::from(asked.to_vec()) })
}
