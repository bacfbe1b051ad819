use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use portcullis_api::status::NoAnswer;
use portcullis_api::{KeySource, ShownKeys};
use serde_json::Value;

use super::super::discovery::AskedUpstream;
use super::facts::KeysByObject;
use super::held::HeldKeys;
use super::known::{KnownKeys, RestoredKeys};
use super::saved::SavedKeys;
use super::sources::{UrlSource, asked_at_urls, asks_servers, name_of};

/// Time between two questions after a failure.
const RETRY: Duration = Duration::from_secs(15);

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

/// The keys of each object's sources as far as they are known, and the time of the next question to each.
pub(super) struct KeySchedule {
    sources: BTreeMap<(String, KeySource), KnownKeys>,
    /// Those of an earlier run that no source was found for yet.
    restored: BTreeMap<(String, KeySource), RestoredKeys>,
    /// Counts the changes of keys, for their file.
    edition: u64,
    questions: u64,
    /// Time between two questions to a source that answers: an issuer signs with a new key only after it has shown it for long.
    interval: Duration,
}

impl KeySchedule {
    pub(super) fn new(interval: Duration) -> Self {
        let (sources, restored) = (BTreeMap::new(), BTreeMap::new());
        Self { sources, restored, edition: 0, questions: 0, interval }
    }

    /// Takes keys of an earlier run, which hold for the same questions alone until these have answers, and no longer than they did.
    pub(super) fn restore(&mut self, saved: Vec<SavedKeys>, clock: (SystemTime, Instant)) {
        self.restored = saved
            .into_iter()
            .filter_map(|one| {
                let (key, held) = ((one.name.clone(), one.source()), one.held(clock)?);
                Some((key, RestoredKeys { held, saved: Arc::new(one), since: clock.0 }))
            })
            .collect();
    }

    /// Forgets keys of an earlier run whose sources nothing asks.
    pub(super) fn forget_unwanted(&mut self) {
        let before = self.restored.len();
        self.restored.retain(|key, _| self.sources.contains_key(key));
        self.count_if(self.restored.len() < before);
    }

    /// A number that is another one when there are other keys to save.
    pub(super) fn edition(&self) -> u64 {
        self.edition
    }

    /// The keys for the next run, those aside that hold no more.
    pub(super) fn saved(&self, now: Instant) -> Vec<Arc<SavedKeys>> {
        let known = self.sources.values().filter_map(|known| known.held(now).and(known.saved.as_ref()));
        let restored = self.restored.values().filter(|kept| now < kept.held.end).map(|kept| &kept.saved);
        known.chain(restored).map(Arc::clone).collect()
    }

    fn count_if(&mut self, is_changed: bool) {
        self.edition = self.edition.wrapping_add(u64::from(is_changed));
    }

    /// Takes over the sources that are wanted. The keys of others are forgotten, and questions to others are not open any more.
    pub(super) fn follow(&mut self, wanted: impl Iterator<Item = Wanted>, now: Instant) {
        let mut followed = BTreeSet::new();
        let mut is_changed = false;
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
                    let before = self.sources.insert(key.clone(), known);
                    is_changed |= before.is_some_and(|before| before.keys.is_some());
                }
            }
            if let Some(known) = self.sources.get_mut(&key) {
                (known.document, known.has_written) = (document, has_written);
                is_changed |= known.take_restored(&key, &mut self.restored);
            }
        }
        self.sources.retain(|key, known| {
            let is_wanted = followed.contains(key);
            is_changed |= !is_wanted && known.keys.is_some();
            is_wanted
        });
        self.count_if(is_changed);
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
        self.sources.values().all(|known| match &known.failed {
            None => known.keys.is_some(),
            Some((_, why)) => *why != NoAnswer::NotYet,
        })
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
        let mut is_changed = false;
        let again = match keys {
            Ok(keys) => {
                let held = HeldKeys::new(keys, known.upstream.clone(), known.keys.as_ref(), clock);
                is_changed = known.take(&key, held) | self.restored.remove(&key).is_some();
                interval
            }
            // It is judged anew after the next change.
            Err(NoAnswer::Refused) => {
                known.fail(NoAnswer::Refused, clock.0);
                interval
            }
            Err(why) => {
                let pause = pause(&key.1, known.failures, interval);
                known.fail(why, clock.0);
                known.failures = known.failures.saturating_add(1);
                pause
            }
        };
        (known.question, known.due) = (None, clock.1.checked_add(again));
        self.count_if(is_changed);
    }

    /// The whole object that a question is for.
    pub(super) fn document_of(&self, question: &KeyQuestion) -> Option<Arc<Value>> {
        let known = self.sources.get(&(question.cluster.clone(), question.source.clone()));
        known.map(|known| Arc::clone(&known.document))
    }

    /// The keys that are known for a document. None is of another object, and none of a source that it does not ask as it is.
    pub(super) fn found(&self, document: &Value, now: Instant) -> BTreeMap<KeySource, ShownKeys> {
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

#[cfg(test)]
mod tests;
