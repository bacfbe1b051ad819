use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ring::hmac;
use ring::rand::SystemRandom;

use super::subject::Subject;

/// The number of tokens that are remembered, good and rejected ones apart.
const MAX_TOKENS: usize = 256;
/// The time for which a rejected token is not reviewed again.
const REJECTED_AGE: Duration = Duration::from_secs(10);

type TokenKey = [u8; 32];

/// The tokens of programs that were reviewed a short time ago, by keyed hashes.
pub(super) struct BearerCache {
    /// None if the system has no random numbers: then nothing is remembered.
    key: Option<hmac::Key>,
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    good: BTreeMap<TokenKey, (Instant, Arc<Subject>)>,
    rejected: BTreeMap<TokenKey, (Instant, ())>,
}

/// The outcome of a review that is remembered.
pub(super) enum Remembered {
    Good(Arc<Subject>),
    Rejected,
}

impl Default for BearerCache {
    fn default() -> Self {
        Self { key: hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok(), state: Mutex::default() }
    }
}

impl BearerCache {
    pub(super) fn find(&self, token: &str, now: Instant) -> Option<Remembered> {
        let key = self.key_of(token)?;
        let state = self.lock();
        if let Some((_, subject)) = state.good.get(&key).filter(|(until, _)| *until > now) {
            return Some(Remembered::Good(Arc::clone(subject)));
        }
        state.rejected.get(&key).filter(|(until, ())| *until > now).map(|_| Remembered::Rejected)
    }

    pub(super) fn remember(&self, token: &str, subject: Arc<Subject>, until: Instant) {
        if let Some(key) = self.key_of(token) {
            insert(&mut self.lock().good, key, (until, subject));
        }
    }

    pub(super) fn reject(&self, token: &str, now: Instant) {
        if let Some(key) = self.key_of(token) {
            insert(&mut self.lock().rejected, key, (now + REJECTED_AGE, ()));
        }
    }

    fn key_of(&self, token: &str) -> Option<TokenKey> {
        hmac::sign(self.key.as_ref()?, token.as_bytes()).as_ref().try_into().ok()
    }

    /// Each change is whole: a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In a full table the entry that ends first makes room.
fn insert<T>(table: &mut BTreeMap<TokenKey, (Instant, T)>, key: TokenKey, entry: (Instant, T)) {
    if table.len() >= MAX_TOKENS && !table.contains_key(&key) {
        let first = table.iter().min_by_key(|(_, (until, _))| *until).map(|(key, _)| *key);
        first.map(|first| table.remove(&first));
    }
    table.insert(key, entry);
}

#[cfg(test)]
mod tests {
    use super::super::subjects::SubjectTable;
    use super::*;
    use portcullis_core::identity::UserInfo;

    #[test]
    fn outcomes_are_remembered_for_their_time_and_bounded() {
        let (cache, now) = (BearerCache::default(), Instant::now());
        let subject = || SubjectTable::new(Duration::ZERO).of(UserInfo::default(), Instant::now());
        cache.remember("good", subject(), now + Duration::from_secs(60));
        (0..10_000).for_each(|number| cache.reject(&format!("bad-{number}"), now));
        let good =
            |seconds| matches!(cache.find("good", now + Duration::from_secs(seconds)), Some(Remembered::Good(_)));
        assert!(good(0) && good(59) && !good(60));
        assert!(matches!(cache.find("bad-9999", now), Some(Remembered::Rejected)));
        assert!(cache.find("bad-9999", now + REJECTED_AGE).is_none() && cache.find("other", now).is_none());
        let state = cache.lock();
        assert_eq!((state.good.len(), state.rejected.len()), (1, MAX_TOKENS), "bad tokens displace no good one");
    }
}
