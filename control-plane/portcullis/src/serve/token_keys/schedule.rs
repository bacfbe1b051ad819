use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portcullis_api::status::{KeysInUse, Timestamp, TokenKeysFacts};
use portcullis_api::{KeySource, ShownKeys, put_shown_keys, read_keys};
use portcullis_filter_config::TokenKey;
use portcullis_sources::ObjectSet;
use serde_json::Value;

use super::super::discovery::AskedUpstream;
use super::facts::KeysByObject;
use super::sources::{UrlSource, asked_at_urls, asks, asks_servers, name_of};

/// Time between two questions after a failure.
const RETRY: Duration = Duration::from_secs(15);
/// Seconds for which the last answer holds at most, and the step in which its end moves: each is another configuration.
const KEPT: u64 = 24 * 3600;
const STEP: u64 = 6 * 3600;

/// A source that an object wants to have read.
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) uid: String,
    /// The whole object.
    pub(super) document: Arc<Value>,
    pub(super) source: KeySource,
    /// All parts of the object that a question depends on.
    pub(super) asked: Value,
    /// The upstream; `None` if it is not known, or the parts are those of the last time. Issuers have none.
    pub(super) upstream: Option<AskedUpstream>,
    /// Whether the object has keys itself, which hold while those of the source are not known.
    pub(super) has_written: bool,
}

/// A question for keys. No two have the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyQuestion {
    pub(super) cluster: String,
    pub(super) source: KeySource,
    number: u64,
    /// Questions without an answer before this one.
    pub(super) failures: usize,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// It was not put, because the object is not accepted.
    Refused,
    /// It failed, for this reason.
    Failed(String),
}

/// The keys of each object's sources as far as they are known, and the time of the next question to each.
pub(super) struct KeySchedule {
    sources: BTreeMap<(String, KeySource), KnownKeys>,
    questions: u64,
    /// Time between two questions to a source that answers: an issuer signs with a new key only after it has shown it for long.
    interval: Duration,
}

/// The state of a source.
struct KnownKeys {
    uid: String,
    document: Arc<Value>,
    has_written: bool,
    asked: Value,
    upstream: Option<AskedUpstream>,
    keys: Option<HeldKeys>,
    /// Since when there is no answer, and why.
    failed: Option<(SystemTime, NoAnswer)>,
    /// Questions without an answer since the last one that had one.
    failures: usize,
    /// The number of the question that is under way.
    question: Option<u64>,
    /// `None` while a question is under way.
    due: Option<Instant>,
}

/// Keys, and the time up to which they hold.
struct HeldKeys {
    keys: String,
    /// Those that can be used.
    usable: Vec<TokenKey>,
    /// The upstream that has shown them.
    upstream: Option<AskedUpstream>,
    end: Instant,
    /// The same for the filter, in seconds since 1970.
    valid_until: u64,
    /// When they were read last, and when they were others.
    read: SystemTime,
    changed: SystemTime,
}

impl HeldKeys {
    fn new(
        keys: String,
        upstream: Option<AskedUpstream>,
        before: Option<&HeldKeys>,
        (time, now): (SystemTime, Instant),
    ) -> Self {
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let end = seconds.saturating_add(KEPT);
        let valid_until = end.saturating_sub(end.checked_rem(STEP).unwrap_or(0));
        let left = Duration::from_secs(valid_until.saturating_sub(seconds));
        let usable = read_keys(&keys).unwrap_or_default();
        let changed = before.filter(|before| before.usable == usable).map_or(time, |before| before.changed);
        let end = now.checked_add(left).unwrap_or(now);
        HeldKeys { keys, usable, upstream, end, valid_until, read: time, changed }
    }
}

impl NoAnswer {
    /// The reason, in words.
    fn text(&self) -> &str {
        match self {
            NoAnswer::Refused => "the object is not accepted",
            NoAnswer::Failed(why) => why,
        }
    }
}

impl KeySchedule {
    pub(super) fn new(interval: Duration) -> Self {
        Self { sources: BTreeMap::new(), questions: 0, interval }
    }

    /// Takes over the sources that are wanted. The keys of others are forgotten, and questions to others are not open any more.
    pub(super) fn follow(&mut self, wanted: impl Iterator<Item = Wanted>, now: Instant) {
        let mut followed = BTreeSet::new();
        for Wanted { name, uid, document, source, asked, upstream, has_written } in wanted {
            let key = (name, source);
            // Of two objects with one name the first is served.
            if !followed.insert(key.clone()) {
                continue;
            }
            match self.sources.get_mut(&key) {
                Some(known) if known.asked == asked => {
                    known.upstream = upstream.or(known.upstream.take());
                    // Something else of the object has changed.
                    if known.is_refused() && !Arc::ptr_eq(&known.document, &document) {
                        known.due = Some(now);
                    }
                }
                // It is not accepted, and asks nothing as it is: a half of a renewal is no other upstream.
                Some(known) if key.1 == KeySource::Servers && upstream.is_none() && known.keys.is_some() => {}
                // A renewed credential, or a server more or less: the keys are those of the same upstream.
                Some(known) if known.has_keys_of(upstream.as_ref()) => {
                    (known.asked, known.upstream, known.question, known.due) = (asked, upstream, None, Some(now));
                }
                // Another issuer, URL or CA, or another object of the name: its keys are no others'.
                Some(_) | None => {
                    let known = KnownKeys::new(uid, Arc::clone(&document), asked, upstream, now);
                    self.sources.insert(key.clone(), known);
                }
            }
            if let Some(known) = self.sources.get_mut(&key) {
                (known.document, known.has_written) = (document, has_written);
            }
        }
        self.sources.retain(|key, _| followed.contains(key));
    }

    /// Has refused objects judged again: settings, or what references lead to, have changed.
    pub(super) fn judge_anew(&mut self, now: Instant) {
        for known in self.sources.values_mut().filter(|known| known.is_refused()) {
            known.due = Some(now);
        }
    }

    /// Whether these are the parts of this cluster that questions to its servers depend on, and their upstream is known.
    pub(super) fn asks_servers_of(&self, name: &str, asked: &Value) -> bool {
        let known = self.sources.get(&(name.to_owned(), KeySource::Servers));
        known.is_some_and(|known| known.asked == *asked && known.upstream.is_some())
    }

    /// Questions that are to be asked now, at most one to each source until it is answered.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<KeyQuestion> {
        let mut questions = Vec::new();
        for ((name, source), known) in &mut self.sources {
            if known.due.is_some_and(|due| due <= now) {
                self.questions = self.questions.wrapping_add(1);
                (known.due, known.question) = (None, Some(self.questions));
                questions.push(KeyQuestion {
                    cluster: name.clone(),
                    source: source.clone(),
                    number: self.questions,
                    failures: known.failures,
                });
            }
        }
        questions
    }

    /// The next time after `now` at which something is to be done, if all that was due by then is.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let ends = |known: &KnownKeys| {
            let end = known.keys.as_ref().map(|held| held.end);
            end.filter(|end| *end > now)
        };
        self.sources.values().flat_map(|known| [known.due, ends(known)]).flatten().min()
    }

    /// Whether an answer to a question is still wanted: the parts of its object that it depends on are the same.
    pub(super) fn is_open(&self, question: &KeyQuestion) -> bool {
        let known = self.sources.get(&(question.cluster.clone(), question.source.clone()));
        known.is_some_and(|known| known.question == Some(question.number))
    }

    /// Whether each source has been asked, and has answered or not.
    pub(super) fn is_settled(&self) -> bool {
        self.sources.values().all(|known| known.keys.is_some() || known.failed.is_some())
    }

    /// Takes an answer, if its question is open: former sources' keys are never taken for those of the present ones.
    pub(super) fn answered(
        &mut self,
        question: &KeyQuestion,
        keys: Result<String, NoAnswer>,
        clock: (SystemTime, Instant),
    ) {
        if !self.is_open(question) {
            return;
        }
        let interval = self.interval;
        let key = (question.cluster.clone(), question.source.clone());
        let Some(known) = self.sources.get_mut(&key) else { return };
        let again = match keys {
            Ok(keys) => {
                let held = HeldKeys::new(keys, known.upstream.clone(), known.keys.as_ref(), clock);
                (known.keys, known.failed, known.failures) = (Some(held), None, 0);
                interval
            }
            Err(why) => {
                let since = known.failed.as_ref().map_or(clock.0, |(since, _)| *since);
                let pause = pause(&key.1, known.failures, interval);
                (known.failed, known.failures) = (Some((since, why)), known.failures.saturating_add(1));
                pause
            }
        };
        (known.question, known.due) = (None, clock.1.checked_add(again));
    }

    /// The set with the keys that are known. None is of an object, and none of a source that it does not ask as it is.
    pub(super) fn put_into(&self, set: &Arc<ObjectSet>, now: Instant) -> Arc<ObjectSet> {
        if !set.clusters.iter().any(|document| asks(document)) {
            return Arc::clone(set);
        }
        let mut changed = ObjectSet::clone(set);
        for document in changed.clusters.iter_mut().filter(|document| asks(document)) {
            let found = self.found(document, now);
            put_shown_keys(Arc::make_mut(document), &found);
        }
        Arc::new(changed)
    }

    fn found(&self, document: &Value, now: Instant) -> BTreeMap<KeySource, ShownKeys> {
        let known = |source| self.sources.get(&(name_of(document).to_owned(), source));
        let servers = asks_servers(document)
            .then(|| (KeySource::Servers, known(KeySource::Servers).map(|known| known.found(now)).unwrap_or_default()));
        let issuers = asked_at_urls(document).into_iter().map(|UrlSource { issuer, asked, .. }| {
            let source = KeySource::Issuer(issuer);
            let known = known(source.clone()).filter(|known| known.asked == asked);
            (source, known.map(|known| known.found(now)).unwrap_or_default())
        });
        servers.into_iter().chain(issuers).collect()
    }

    /// The state of all sources, for the objects' status.
    pub(super) fn facts(&self, now: Instant) -> KeysByObject {
        let mut all = KeysByObject::default();
        for ((name, source), known) in &self.sources {
            all.add(name, &known.uid, known.facts(source, now));
        }
        all
    }
}

/// The time after a failure. Of an upstream the next servers are asked, of an issuer the same one.
fn pause(source: &KeySource, failures: usize, interval: Duration) -> Duration {
    let doublings = u32::try_from(failures).unwrap_or(u32::MAX).min(8);
    let pause = match source {
        KeySource::Servers => RETRY,
        KeySource::Issuer(_) => RETRY.saturating_mul(2_u32.saturating_pow(doublings)),
    };
    pause.min(interval)
}

impl KnownKeys {
    fn new(uid: String, document: Arc<Value>, asked: Value, upstream: Option<AskedUpstream>, now: Instant) -> Self {
        Self {
            uid,
            document,
            has_written: false,
            asked,
            upstream,
            keys: None,
            failed: None,
            failures: 0,
            question: None,
            due: Some(now),
        }
    }

    /// Whether the last question was not put because the object is not accepted, and none is under way.
    fn is_refused(&self) -> bool {
        matches!(self.failed, Some((_, NoAnswer::Refused))) && self.question.is_none()
    }

    /// Whether the upstream is that which has shown the keys, whatever was written in between.
    fn has_keys_of(&self, upstream: Option<&AskedUpstream>) -> bool {
        let shown_by = self.keys.as_ref().and_then(|held| held.upstream.as_ref());
        shown_by.zip(upstream).is_some_and(|(before, now)| before.is_same(now))
    }

    fn held(&self, now: Instant) -> Option<&HeldKeys> {
        self.keys.as_ref().filter(|held| now < held.end)
    }

    fn facts(&self, source: &KeySource, now: Instant) -> TokenKeysFacts {
        let source = match source {
            KeySource::Servers => "the servers".to_owned(),
            KeySource::Issuer(url) => url.clone(),
        };
        let keys = self.held(now).map(|held| KeysInUse {
            number: held.usable.len(),
            changed: held.changed.into(),
            read: held.read.into(),
            until: Timestamp::from_seconds(held.valid_until),
        });
        let failed = self.failed.as_ref().map(|(since, why)| ((*since).into(), why.text().to_owned()));
        TokenKeysFacts { source, keys, has_written: self.has_written, failed }
    }

    fn found(&self, now: Instant) -> ShownKeys {
        let error = self.failed.as_ref().map(|(_, why)| why.text().to_owned());
        ShownKeys { keys: self.held(now).map(|held| (held.keys.clone(), held.valid_until)), error }
    }
}

#[cfg(test)]
mod tests;
