use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use portcullis_filter_config::Reviews;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use ring::hmac;

use super::{ReviewKey, ReviewResult};
use crate::observe::catalog::CACHES;
use crate::x509::CertificateCache;

/// Answers that are remembered per cluster: good and bad ones apart, so that a flood of bad ones displaces no good one. So
/// many good ones, if their users are of the usual size ([`UpstreamUser::weight`]).
const GOOD: usize = 65_536;
const BAD: usize = 16_384;

/// Reviews of one cluster that may be under way at a time, about whomever.
const REVIEWS: usize = 64;
/// Further reviews that only renew a good answer that got too old. Strangers cannot cause them, so however many of them come,
/// whoever was let in before is reviewed again.
const RENEWALS: usize = 64;

/// So long, in seconds, a good answer about a token is believed even if the upstream answers 401.
pub const BELIEVED: u64 = 10;

/// For how long answers are believed, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lifetimes {
    /// A token's user; never longer than the token says itself.
    pub token: u64,
    /// That a token is nobody's.
    pub rejected_token: u64,
    /// That a user may impersonate.
    pub allowed: u64,
    /// That a user may not.
    pub denied: u64,
}

impl Lifetimes {
    /// As configured.
    pub fn of(config: &Reviews) -> Self {
        Lifetimes {
            token: config.token_seconds,
            rejected_token: config.rejected_token_seconds,
            allowed: config.allowed_seconds,
            denied: config.denied_seconds,
        }
    }
}

impl Default for Lifetimes {
    fn default() -> Self {
        Lifetimes { token: 120, rejected_token: 10, allowed: 300, denied: 30 }
    }
}

/// What is known of one cluster's credentials, shared by all workers and kept over edits of its policies.
#[derive(Debug)]
pub struct CredentialCaches {
    /// Client certificates.
    pub certificates: CertificateCache,
    tokens: Answers,
    access: Answers,
    secret: hmac::Key,
    lifetimes: Lifetimes,
    under_way: Arc<AtomicUsize>,
}

/// Answers to one kind of question.
#[derive(Debug)]
struct Answers {
    good: Cache<ReviewKey, Answer, UserWeight>,
    bad: Cache<ReviewKey, Answer, UserWeight>,
}

/// From when until when it is believed, in seconds.
#[derive(Clone, Debug)]
struct Answer {
    since: u64,
    until: u64,
    result: ReviewResult,
}

impl Answers {
    fn new() -> Self {
        Answers {
            good: Cache::with_weighter(GOOD, GOOD as u64, UserWeight),
            bad: Cache::with_weighter(BAD, BAD as u64, UserWeight),
        }
    }

    fn get(&self, key: &ReviewKey, now: u64) -> Option<ReviewResult> {
        let valid = |known: Option<Answer>| known.filter(|answer| now < answer.until).map(|answer| answer.result);
        valid(self.good.get(key)).or_else(|| valid(self.bad.get(key)))
    }
}

/// A large user takes the room of several.
#[derive(Clone, Debug)]
struct UserWeight;

impl Weighter<ReviewKey, Answer> for UserWeight {
    fn weight(&self, _key: &ReviewKey, answer: &Answer) -> u64 {
        match &answer.result {
            ReviewResult::User(user) => user.weight(),
            _ => 1,
        }
    }
}

/// Leave to ask; given back when it is dropped.
#[derive(Debug)]
pub struct ReviewPermit(Arc<AtomicUsize>);

impl Drop for ReviewPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl CredentialCaches {
    /// Empty caches. `secret` is random: without it nobody can tell which token a key belongs to.
    pub fn new(secret: &[u8; 32], lifetimes: Lifetimes) -> Self {
        CredentialCaches {
            certificates: CertificateCache::default(),
            tokens: Answers::new(),
            access: Answers::new(),
            secret: hmac::Key::new(hmac::HMAC_SHA256, secret),
            lifetimes,
            under_way: Arc::default(),
        }
    }

    pub(super) fn token_key(&self, token: &[u8]) -> ReviewKey {
        self.key(b"token", token)
    }

    pub(super) fn access_key(&self, question: &str) -> ReviewKey {
        self.key(b"access", question.as_bytes())
    }

    fn key(&self, domain: &[u8], text: &[u8]) -> ReviewKey {
        let mut context = hmac::Context::with_key(&self.secret);
        context.update(domain);
        context.update(&[0]);
        context.update(text);
        let mut key = ReviewKey::default();
        key.copy_from_slice(context.sign().as_ref());
        key
    }

    pub(super) fn token(&self, key: &ReviewKey, now: u64) -> Option<ReviewResult> {
        self.tokens.get(key, now)
    }

    pub(super) fn access(&self, key: &ReviewKey, now: u64) -> Option<ReviewResult> {
        self.access.get(key, now)
    }

    /// How many answers are remembered, by kind; expired ones count until they are displaced.
    pub fn entries(&self) -> [(&'static str, u64); CACHES.len()] {
        let (verified, refused) = self.certificates.entries();
        let [tokens, rejected, allowed, denied] =
            [&self.tokens.good, &self.tokens.bad, &self.access.good, &self.access.bad].map(Cache::len);
        let counts = [tokens, rejected, allowed, denied, verified, refused];
        let mut kinds = CACHES.map(|kind| (kind, 0));
        for ((_, entries), count) in kinds.iter_mut().zip(counts) {
            *entries = count as u64;
        }
        kinds
    }

    /// Reviews that wait for their answer.
    pub fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::Acquire) as u64
    }

    pub(super) fn insert(&self, key: ReviewKey, result: &ReviewResult, expires: Option<u64>, now: u64) {
        let (cache, lifetime) = match result {
            ReviewResult::User(_) => (&self.tokens.good, self.lifetimes.token),
            ReviewResult::Allowed => (&self.access.good, self.lifetimes.allowed),
            ReviewResult::Rejected => (&self.tokens.bad, self.lifetimes.rejected_token),
            ReviewResult::Denied => (&self.access.bad, self.lifetimes.denied),
            ReviewResult::Failed => return,
        };
        let until = now.saturating_add(lifetime);
        let until = expires.filter(|_| matches!(result, ReviewResult::User(_))).map_or(until, |exp| until.min(exp));
        cache.insert(key, Answer { since: now, until, result: result.clone() });
        match result {
            ReviewResult::Rejected => _ = self.tokens.good.remove(&key),
            ReviewResult::Denied => _ = self.access.good.remove(&key),
            _ => {}
        }
    }

    /// Believes no longer that a token is somebody's, if that was not said just now: whoever makes an upstream answer 401 to
    /// good tokens causes one review of each in that time, and no more. It keeps its place, so that it is renewed where others
    /// are reviewed.
    pub(super) fn doubt(&self, key: &ReviewKey, now: u64) {
        let old = |answer: &Answer| now < answer.until && now.saturating_sub(answer.since) >= BELIEVED;
        if let Some(answer) = self.tokens.good.get(key).filter(old) {
            self.tokens.good.insert(*key, Answer { until: now, ..answer });
        }
    }

    pub(super) fn permit(&self, key: &ReviewKey) -> Option<ReviewPermit> {
        // An answer that got too old stays until it is displaced or replaced.
        let is_renewal = self.tokens.good.contains_key(key) || self.access.good.contains_key(key);
        let most = if is_renewal { REVIEWS.saturating_add(RENEWALS) } else { REVIEWS };
        let taken = self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            (count < most).then_some(count.saturating_add(1))
        });
        taken.ok().map(|_| ReviewPermit(Arc::clone(&self.under_way)))
    }
}
