//! Public keys of tokens, read from the servers of objects that want that (`jwks.fromServers`) and from URLs of issuers (`jwks.url`,
//! `jwks.fromIssuer`), and put into the objects before they are translated.
//!
//! - [`sources`]: the sources that an object names, pure.
//! - [`schedule`]: when which source is asked and for how long an answer holds, without I/O and with time as an argument; [`known`]: the
//!   state of one source.
//! - [`keyed_documents`]: the keys in the objects' documents.
//! - [`held`]: keys that a source has shown, and for how long they hold; [`saved`]: the same for the next
//!   start; [`key_file`]: their file.
//! - [`facts`]: the state of each object's sources, for its status.
//! - [`turns`]: how many questions are put at a time, of which sources and objects.
//! - [`servers`], [`issuer`]: a question to servers, and to an issuer.

mod facts;
mod held;
mod issuer;
mod key_file;
mod keyed_documents;
mod known;
mod saved;
mod schedule;
mod servers;
mod sources;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use portcullis_api::status::NoAnswer;
use portcullis_api::{Cluster, KeySource, ReferencedData, Settings, check_cluster, parse_cluster, resolve};
use portcullis_filter_config::RequestHeaders;
use portcullis_sources::{NoticedAt, ObjectSet};
use portcullis_translate::choose_settings;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::timeout;

pub(super) use facts::KeysByObject;
pub(super) use key_file::{KeyFile, KeyFileWriting};

use super::discovery::AskedUpstream;
use issuer::read_issuer_keys;
use key_file::KeySaver;
use keyed_documents::KeyedDocuments;
use schedule::{KeyQuestion, KeySchedule, Wanted};
use servers::read_server_keys;
use sources::{UrlSource, asked_at_urls, asks_servers, has_written_for_servers, name_of, uid_of};
use turns::Turns;

/// Time for a question: so long it keeps its turn from others.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long the first set is held back until the sources have answered: a control plane that starts again must not take from
/// the filters what they have.
const FIRST_ANSWERS: Duration = Duration::from_secs(3);

/// The sets with the keys in them that their servers and issuers have, from the first one on. A set in which no object wants that goes
/// on as it is. The state of the sources goes to `facts`. The last keys are in `file`, if there is one, and hold until their sources have
/// answered.
pub(super) async fn with_token_keys(
    sets: watch::Receiver<Arc<ObjectSet>>,
    interval: Duration,
    facts: watch::Sender<Arc<KeysByObject>>,
    file: Option<KeyFile>,
) -> watch::Receiver<Arc<ObjectSet>> {
    let mut reader = KeyReader::new(ask, interval, facts);
    if let Some(file) = file {
        reader.restore(file);
    }
    with_keys_by(reader, FIRST_ANSWERS, sets).await
}

async fn with_keys_by<A, F>(
    reader: KeyReader<A>,
    patience: Duration,
    mut sets: watch::Receiver<Arc<ObjectSet>>,
) -> watch::Receiver<Arc<ObjectSet>>
where
    A: Fn(AskedSource) -> F + Send + 'static,
    F: Future<Output = Result<String, String>> + Send + 'static,
{
    let mut set = Arc::clone(&sets.borrow_and_update());
    let mut reader = followed(reader, &set).await;
    let answers = async {
        while reader.ask_due(&set, Instant::now()) {
            reader.wait().await;
        }
    };
    // Those that are late come later.
    let _ = timeout(patience, answers).await;
    let (sender, receiver) = watch::channel(reader.publish(&set));
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
                reader = followed(reader, &set).await;
            }
            reader.ask_due(&set, Instant::now());
            let mut next = reader.publish(&set);
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

/// Has a reader follow a set on a thread of its own: of thousands of objects that ask each is read. A panic there is a panic here.
async fn followed<A, F>(mut reader: KeyReader<A>, set: &Arc<ObjectSet>) -> KeyReader<A>
where
    A: Fn(AskedSource) -> F + Send + 'static,
    F: Future<Output = Result<String, String>> + Send + 'static,
{
    let set = Arc::clone(set);
    let work = tokio::task::spawn_blocking(move || {
        reader.follow(&set);
        reader
    });
    match work.await.map_err(JoinError::try_into_panic) {
        Ok(reader) => reader,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime ends.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// A source that is asked, and the object that wants it.
struct AskedSource {
    cluster: Cluster,
    source: KeySource,
    headers: RequestHeaders,
    allow_loopback: bool,
    /// Questions before this one that had no answer.
    failures: usize,
}

struct KeyReader<A> {
    ask: A,
    schedule: KeySchedule,
    documents: KeyedDocuments,
    settings: Settings,
    /// The content behind the objects' references, of the last time.
    referenced_data: ReferencedData,
    running: JoinSet<Result<String, String>>,
    questions: HashMap<Id, (KeyQuestion, AbortHandle)>,
    turns: Turns,
    facts: watch::Sender<Arc<KeysByObject>>,
    /// The way to the file of keys, and the edition that is in it.
    saver: Option<(KeySaver, u64)>,
}

impl<A, F> KeyReader<A>
where
    A: Fn(AskedSource) -> F,
    F: Future<Output = Result<String, String>> + Send + 'static,
{
    fn new(ask: A, interval: Duration, facts: watch::Sender<Arc<KeysByObject>>) -> Self {
        Self {
            ask,
            schedule: KeySchedule::new(interval),
            documents: KeyedDocuments::default(),
            settings: Settings::default(),
            referenced_data: ReferencedData::default(),
            running: JoinSet::new(),
            questions: HashMap::new(),
            turns: Turns::new(),
            facts,
            saver: None,
        }
    }

    /// Begins with the keys of an earlier run, and saves them from now on.
    fn restore(&mut self, KeyFile { saved, saver }: KeyFile) {
        self.schedule.restore(saved, (SystemTime::now(), Instant::now()));
        self.saver = Some((saver, self.schedule.edition()));
    }

    fn save(&mut self) {
        let edition = self.schedule.edition();
        if let Some((saver, saved)) = self.saver.as_mut().filter(|(_, saved)| *saved != edition) {
            *saved = edition;
            saver.send_replace(Arc::new(self.schedule.saved(Instant::now())));
        }
    }

    fn follow(&mut self, set: &ObjectSet) {
        let settings = choose_settings(&set.settings, None).settings.filter(|settings| *settings != self.settings);
        let has_other_data = self.referenced_data != set.referenced_data;
        if settings.is_some() || has_other_data {
            self.schedule.judge_anew(Instant::now());
        }
        if let Some(settings) = settings {
            self.settings = settings;
        }
        if has_other_data {
            self.referenced_data = set.referenced_data.clone();
        }
        let (asking, _) = self.documents.asking(&set.clusters);
        let wanted: Vec<Wanted> = asking.iter().flat_map(|document| self.wanted(document, set)).collect();
        self.schedule.follow(wanted.into_iter(), Instant::now());
        // A source that holds nothing may be one that is not there yet.
        if !set.clusters.is_empty() {
            self.schedule.forget_unwanted();
        }
        // They would only keep their turns from others.
        for (question, task) in self.questions.values() {
            if !self.schedule.is_open(question) {
                task.abort();
            }
        }
        self.turns.forget_idle();
    }

    /// Asks the sources that are due. Returns whether an answer is missing of one that never had any.
    fn ask_due(&mut self, set: &ObjectSet, now: Instant) -> bool {
        for question in self.schedule.take_due(now) {
            let document = self.schedule.document_of(&question);
            let Some(cluster) = document.and_then(|document| self.cluster(&document, set)) else {
                self.schedule.answered(&question, Err(NoAnswer::Refused), (SystemTime::now(), now));
                continue;
            };
            let queue = self.turns.queue(&question.cluster, &question.source, question.failures);
            let answer = (self.ask)(AskedSource {
                cluster,
                source: question.source.clone(),
                headers: self.settings.request_header_names.clone(),
                allow_loopback: self.settings.allow_loopback_upstreams,
                failures: question.failures,
            });
            let task = self.running.spawn(async move {
                let _turn = queue.turn().await;
                timeout(DEADLINE, answer).await.unwrap_or_else(|_| Err(NO_ANSWER.to_owned()))
            });
            self.questions.insert(task.id(), (question, task));
        }
        !self.schedule.is_settled()
    }

    /// The set with the keys that are known now. Their state becomes known, too.
    fn publish(&mut self, set: &Arc<ObjectSet>) -> Arc<ObjectSet> {
        let now = Instant::now();
        self.save();
        let facts = self.schedule.facts(now);
        self.facts.send_if_modified(|before| {
            let is_other = **before != facts;
            if is_other {
                *before = Arc::new(facts);
            }
            is_other
        });
        let Self { documents, schedule, .. } = self;
        documents.put(set, |document| schedule.found(document, now))
    }

    /// The checked object with its credential.
    fn cluster(&self, document: &Arc<Value>, set: &ObjectSet) -> Option<Cluster> {
        let raw = parse_cluster(&resolve(document, &set.referenced_data).document).ok()?;
        check_cluster(&raw, self.settings.allow_loopback_upstreams).outcome.ok()
    }

    /// The sources that an object wants to have read. With other parts they are asked anew.
    fn wanted(&self, document: &Arc<Value>, set: &ObjectSet) -> Vec<Wanted> {
        let name = name_of(document).to_owned();
        let uid = uid_of(document).to_owned();
        let issuers = asked_at_urls(document).into_iter().map(|UrlSource { issuer, asked, has_written }| Wanted {
            name: name.clone(),
            uid: uid.clone(),
            document: Arc::clone(document),
            source: KeySource::Issuer(issuer),
            asked,
            upstream: None,
            has_written,
        });
        let mut wanted: Vec<Wanted> = issuers.collect();
        if asks_servers(document) {
            let resolved = resolve(document, &set.referenced_data).document;
            let part = |path| resolved.pointer(path).cloned().unwrap_or_default();
            let asked =
                ["/spec/servers", "/spec/clientConfig", "/spec/portcullis/upstreamIdentity", "/metadata/uid"].map(part);
            let asked = Value::from(asked.to_vec());
            let is_known = self.schedule.asks_servers_of(&name, &asked);
            let upstream = || AskedUpstream::of(&self.cluster(document, set)?, &self.settings);
            let upstream = if is_known { None } else { upstream() };
            let has_written = has_written_for_servers(document);
            let (source, document) = (KeySource::Servers, Arc::clone(document));
            wanted.push(Wanted { name, uid, document, source, asked, upstream, has_written });
        }
        wanted
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
                Err(error) => (error.id(), Err(NO_ANSWER.to_owned())),
            },
            () = timer => return,
        };
        let Some((question, _)) = self.questions.remove(&id).filter(|(question, _)| self.schedule.is_open(question))
        else {
            return;
        };
        if let Err(error) = &keys {
            let KeyQuestion { cluster, source, .. } = &question;
            tracing::warn!(%cluster, ?source, error, "the keys of tokens are not known anew");
        }
        self.schedule.answered(&question, keys.map_err(NoAnswer::Failed), (SystemTime::now(), Instant::now()));
    }
}

/// The work that an edit has here, without questions.
#[cfg(test)]
pub(super) fn key_step() -> impl FnMut(&Arc<ObjectSet>) -> Arc<ObjectSet> {
    let ask = |_: AskedSource| async { Err(NO_ANSWER.to_owned()) };
    let mut reader = KeyReader::new(ask, Duration::MAX, watch::channel(Arc::default()).0);
    move |set| {
        reader.follow(set);
        reader.publish(set)
    }
}

/// The reason of a question that was given up.
const NO_ANSWER: &str = "no answer in time";

async fn ask(asked: AskedSource) -> Result<String, String> {
    let AskedSource { cluster, source, headers, allow_loopback, failures } = asked;
    match source {
        KeySource::Servers => {
            let keys = read_server_keys(&cluster, &headers, allow_loopback, failures).await;
            keys.map_err(|error| error.to_string())
        }
        KeySource::Issuer(url) => {
            let Some(issuer) = cluster.tokens.asked_issuers.iter().find(|issuer| issuer.issuer == url) else {
                return Err("the issuer is not asked".to_owned());
            };
            read_issuer_keys(issuer, allow_loopback).await.map_err(|error| error.to_string())
        }
    }
}
