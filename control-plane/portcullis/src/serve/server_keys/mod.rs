//! Public keys of service accounts' tokens, read from the servers of objects that want that (`jwks.fromServers`), and put into
//! the objects before they are translated.
//!
//! `schedule` says when which servers are asked and for how long an answer holds, without I/O and with time as an argument; here
//! they are asked.

mod schedule;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use portcullis_api::{Cluster, Server, Settings, check_cluster, parse_cluster, resolve};
use portcullis_filter_config::RequestHeaders;
use portcullis_sources::{NoticedAt, ObjectSet};
use portcullis_translate::choose_settings;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::timeout;

use super::discovery::AskedUpstream;
use crate::onboard::{TokenKeysError, read_token_keys};
use schedule::{KeyQuestion, KeySchedule, Wanted, asks_servers};

/// Clusters whose servers are asked at a time.
const AT_A_TIME: usize = 8;
/// Servers of a cluster that one question goes to, one after another.
const SERVERS_OF_A_QUESTION: usize = 3;
/// Time for one server.
const SERVER_DEADLINE: Duration = Duration::from_secs(6);
/// Time for a question: so long it keeps its turn from other clusters.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long the first set is held back until the servers have answered: a control plane that starts again must not take from
/// the filters what they have.
const FIRST_ANSWERS: Duration = Duration::from_secs(3);

/// Why the servers of a refused object are not asked.
const REFUSED: &str = "the object is not accepted";

/// The sets with the keys in them that their servers have, from the first one on. A set in which no object wants that goes on as it
/// is.
pub(super) async fn with_server_keys(sets: watch::Receiver<Arc<ObjectSet>>) -> watch::Receiver<Arc<ObjectSet>> {
    with_keys_by(ask_servers, FIRST_ANSWERS, sets).await
}

async fn with_keys_by<A, F>(
    ask: A,
    patience: Duration,
    mut sets: watch::Receiver<Arc<ObjectSet>>,
) -> watch::Receiver<Arc<ObjectSet>>
where
    A: Fn(ServersToAsk) -> F + Send + 'static,
    F: Future<Output = Result<String, TokenKeysError>> + Send + 'static,
{
    let mut set = Arc::clone(&sets.borrow_and_update());
    let mut reader = KeyReader::new(ask);
    reader.follow(&set);
    let answers = async {
        while reader.ask_due(&set, Instant::now()) {
            reader.wait().await;
        }
    };
    // Those that are late come later.
    let _ = timeout(patience, answers).await;
    let (sender, receiver) = watch::channel(reader.schedule.put_into(&set, Instant::now()));
    tokio::spawn(async move {
        loop {
            let is_new = tokio::select! {
                changed = sets.changed() => match changed {
                    Ok(()) => true,
                    Err(_) => return,
                },
                () = sender.closed() => return,
                () = reader.wait() => false,
            };
            if is_new {
                set = Arc::clone(&sets.borrow_and_update());
                reader.follow(&set);
            }
            reader.ask_due(&set, Instant::now());
            let mut next = reader.schedule.put_into(&set, Instant::now());
            if !is_new {
                // The sources have not changed since: the edit begins with the answer.
                Arc::make_mut(&mut next).noticed = NoticedAt(Some(Instant::now()));
            }
            sender.send_if_modified(|before| {
                let is_other = !Arc::ptr_eq(before, &next) && **before != *next;
                if is_other {
                    *before = next;
                }
                is_other
            });
        }
    });
    receiver
}

/// A cluster whose servers are asked.
struct ServersToAsk {
    cluster: Cluster,
    headers: RequestHeaders,
    allow_loopback: bool,
    /// Questions before this one that no server has answered.
    failures: usize,
}

struct KeyReader<A> {
    ask: A,
    schedule: KeySchedule,
    settings: Settings,
    running: JoinSet<Result<String, TokenKeysError>>,
    questions: HashMap<Id, (KeyQuestion, AbortHandle)>,
    turns: Arc<Semaphore>,
}

impl<A, F> KeyReader<A>
where
    A: Fn(ServersToAsk) -> F,
    F: Future<Output = Result<String, TokenKeysError>> + Send + 'static,
{
    fn new(ask: A) -> Self {
        Self {
            ask,
            schedule: KeySchedule::default(),
            settings: Settings::default(),
            running: JoinSet::new(),
            questions: HashMap::new(),
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    fn follow(&mut self, set: &ObjectSet) {
        if let Some(settings) = choose_settings(&set.settings, None).settings {
            self.settings = settings;
        }
        let wanted: Vec<Wanted> = set.clusters.iter().filter_map(|document| self.wanted(document, set)).collect();
        self.schedule.follow(wanted.into_iter(), Instant::now());
        // They would only keep their turns from others.
        for (question, task) in self.questions.values() {
            if !self.schedule.is_open(question) {
                task.abort();
            }
        }
    }

    /// Asks the servers of the clusters whose keys are due. Returns whether an answer is missing of a cluster that never had any.
    fn ask_due(&mut self, set: &ObjectSet, now: Instant) -> bool {
        for question in self.schedule.take_due(now) {
            let document = set.clusters.iter().find(|document| name_of(document) == question.cluster);
            let Some(cluster) = document.and_then(|document| self.cluster(document, set)) else {
                self.schedule.answered(&question, Err(REFUSED.to_owned()), (SystemTime::now(), now));
                continue;
            };
            let headers = self.settings.request_header_names.clone();
            let allow_loopback = self.settings.allow_loopback_upstreams;
            let answer = (self.ask)(ServersToAsk { cluster, headers, allow_loopback, failures: question.failures });
            let turns = Arc::clone(&self.turns);
            let task = self.running.spawn(async move {
                // It is never closed.
                let _turn = turns.acquire_owned().await;
                timeout(DEADLINE, answer).await.unwrap_or(Err(TokenKeysError::Answer))
            });
            self.questions.insert(task.id(), (question, task));
        }
        !self.schedule.is_settled()
    }

    /// The checked object with its credential.
    fn cluster(&self, document: &Arc<Value>, set: &ObjectSet) -> Option<Cluster> {
        let raw = parse_cluster(&resolve(document, &set.referenced_data).document).ok()?;
        check_cluster(&raw, self.settings.allow_loopback_upstreams).outcome.ok()
    }

    /// A cluster that wants its servers' keys. With other parts it is asked anew.
    fn wanted(&self, document: &Arc<Value>, set: &ObjectSet) -> Option<Wanted> {
        if !asks_servers(document) {
            return None;
        }
        let resolved = resolve(document, &set.referenced_data).document;
        let part = |path| resolved.pointer(path).cloned().unwrap_or_default();
        let asked =
            ["/spec/servers", "/spec/clientConfig", "/spec/portcullis/upstreamIdentity", "/metadata/uid"].map(part);
        let (name, asked) = (name_of(document).to_owned(), Value::from(asked.to_vec()));
        let is_known = self.schedule.asks(&name, &asked);
        let upstream = || AskedUpstream::of(&self.cluster(document, set)?, &self.settings);
        let upstream = if is_known { None } else { upstream() };
        Some(Wanted { name, asked, upstream })
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
        let (id, keys) = tokio::select! {
            Some(ended) = self.running.join_next_with_id() => match ended {
                Ok(answer) => answer,
                // It was ended, and nothing waits for it, or it broke.
                Err(error) => (error.id(), Err(TokenKeysError::Answer)),
            },
            () = timer => return,
        };
        let Some((question, _)) = self.questions.remove(&id).filter(|(question, _)| self.schedule.is_open(question))
        else {
            return;
        };
        if let Err(error) = &keys {
            tracing::warn!(cluster = %question.cluster, %error, "the servers' keys of service accounts are not known anew");
        }
        self.schedule.answered(&question, keys.map_err(|error| error.to_string()), (SystemTime::now(), Instant::now()));
    }
}

/// Asks servers, until one of them answers.
async fn ask_servers(asked: ServersToAsk) -> Result<String, TokenKeysError> {
    let ServersToAsk { cluster, headers, allow_loopback, failures } = asked;
    let mut keys = Err(TokenKeysError::NoServer);
    for server in round(&cluster.servers, failures) {
        let answer =
            timeout(SERVER_DEADLINE, read_token_keys(&cluster, &server.endpoint, &headers, allow_loopback)).await;
        keys = answer.unwrap_or(Err(TokenKeysError::Answer));
        if keys.is_ok() {
            break;
        }
    }
    keys
}

/// The servers that are asked after so many failures: each time the next ones. Those that are disabled get no requests of clients,
/// and are asked last.
fn round(servers: &[Server], failures: usize) -> Vec<&Server> {
    let (mut ordered, disabled): (Vec<&Server>, Vec<&Server>) = servers.iter().partition(|server| server.enabled);
    ordered.extend(disabled);
    let asked = ordered.len().min(SERVERS_OF_A_QUESTION);
    let first = failures.wrapping_mul(SERVERS_OF_A_QUESTION).checked_rem(ordered.len()).unwrap_or(0);
    ordered.iter().cycle().skip(first).take(asked).copied().collect()
}

fn name_of(document: &Value) -> &str {
    document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
