//! The state of one source of keys.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use portcullis_api::status::{KeysInUse, NoAnswer, Timestamp, TokenKeysFacts};
use portcullis_api::{KeySource, ShownKeys};
use serde_json::Value;

use super::super::discovery::AskedUpstream;
use super::held::HeldKeys;
use super::saved::SavedKeys;

/// Keys of an earlier run, with what they were the answer to.
pub(super) struct RestoredKeys {
    pub(super) held: HeldKeys,
    pub(super) saved: Arc<SavedKeys>,
    pub(super) since: SystemTime,
}

/// The state of a source.
pub(super) struct KnownKeys {
    pub(super) uid: String,
    pub(super) document: Arc<Value>,
    pub(super) has_written: bool,
    pub(super) asked: Value,
    pub(super) upstream: Option<AskedUpstream>,
    pub(super) keys: Option<HeldKeys>,
    /// The same for the next run.
    pub(super) saved: Option<Arc<SavedKeys>>,
    /// Since when there is no answer, and why.
    pub(super) failed: Option<(SystemTime, NoAnswer)>,
    /// Since when each question failed, those aside that were not put.
    pub(super) failing_since: Option<SystemTime>,
    /// Questions without an answer since the last one that had one.
    pub(super) failures: usize,
    /// The number of the question that is under way.
    pub(super) question: Option<u64>,
    /// `None` while a question is under way.
    pub(super) due: Option<Instant>,
}

impl KnownKeys {
    pub(super) fn new(
        uid: String,
        document: Arc<Value>,
        asked: Value,
        upstream: Option<AskedUpstream>,
        now: Instant,
    ) -> Self {
        Self {
            uid,
            document,
            has_written: false,
            asked,
            upstream,
            keys: None,
            saved: None,
            failed: None,
            failing_since: None,
            failures: 0,
            question: None,
            due: Some(now),
        }
    }

    /// Whether the last question was not put because the object is not accepted, and none is under way.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.failed, Some((_, NoAnswer::Refused))) && self.question.is_none()
    }

    /// Whether the upstream is that which has shown the keys, whatever was written in between.
    pub(super) fn has_keys_of(&self, upstream: Option<&AskedUpstream>) -> bool {
        let shown_by = self.keys.as_ref().and_then(|held| held.upstream.as_ref());
        shown_by.zip(upstream).is_some_and(|(before, now)| before.is_same(now))
    }

    /// Takes the keys of an earlier run, if they are of the same question. Returns whether they are of another one, and forgotten.
    pub(super) fn take_restored(
        &mut self,
        key: &(String, KeySource),
        restored: &mut BTreeMap<(String, KeySource), RestoredKeys>,
    ) -> bool {
        // Of servers of an object that is not accepted it is not known whether they are the same.
        if self.keys.is_some() || (key.1 == KeySource::Servers && self.upstream.is_none()) {
            return false;
        }
        let Some(RestoredKeys { held, saved, since }) = restored.remove(key) else { return false };
        let is_same = match &key.1 {
            KeySource::Servers => held.upstream.as_ref().zip(self.upstream.as_ref()).is_some_and(|(a, b)| a.is_same(b)),
            KeySource::Issuer(_) => saved.is_answer_to(&self.asked),
        };
        if is_same {
            (self.keys, self.saved) = (Some(held), Some(saved));
            let failed = self.failed.take();
            self.failed = failed.or(Some((since, NoAnswer::NotYet)));
        }
        !is_same
    }

    /// Takes an answer. Returns whether it is news.
    pub(super) fn take(&mut self, (name, source): &(String, KeySource), held: HeldKeys) -> bool {
        let is_news = !self.keys.as_ref().is_some_and(|before| before.is_like(&held));
        self.saved = Some(Arc::new(SavedKeys::new(name, source, &self.asked, &held)));
        (self.keys, self.failed, self.failing_since, self.failures) = (Some(held), None, None, 0);
        is_news
    }

    /// Notes why there is no answer. The time is the first one at which there was none, or none was asked for.
    pub(super) fn fail(&mut self, why: NoAnswer, now: SystemTime) {
        let refused_before = self.failed.as_ref().filter(|(_, before)| *before == NoAnswer::Refused);
        let since = match why {
            NoAnswer::Refused => refused_before.map_or(now, |(since, _)| *since),
            NoAnswer::NotYet | NoAnswer::Failed(_) => *self.failing_since.get_or_insert(now),
        };
        self.failed = Some((since, why));
    }

    pub(super) fn held(&self, now: Instant) -> Option<&HeldKeys> {
        self.keys.as_ref().filter(|held| now < held.end)
    }

    pub(super) fn facts(&self, source: &KeySource, now: Instant) -> TokenKeysFacts {
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
        let failed = self.failed.as_ref().map(|(since, why)| ((*since).into(), why.clone()));
        TokenKeysFacts { source, keys, has_written: self.has_written, failed }
    }

    pub(super) fn found(&self, now: Instant) -> ShownKeys {
        let error = self.failed.as_ref().map(|(_, why)| why.text().to_owned());
        ShownKeys { keys: self.held(now).map(|held| (held.keys.clone(), held.valid_until)), error }
    }
}
