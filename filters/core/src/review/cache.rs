//! The remembered answers to the reviews of one `UpstreamCluster`, and the slots for reviews under way. The bytes are in the
//! process's [`Store`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use portcullis_filter_config::Reviews;
use ring::hmac;

use super::store::CachedAnswer;
use super::verified::{DistrustedTokens, VerifiedUser};
use super::{Requester, ReviewKey, ReviewResult, Store};
use crate::moment::Moment;
use crate::room::Remembered;
use crate::x509::CertificateCache;

/// Maximum number of reviews of one cluster under way at a time: about tokens, and as many for authenticated users who
/// impersonate.
const REVIEWS: usize = 64;
/// Maximum number of reviews of one cluster under way at a time for clients that present no credential and impersonate: an
/// anonymous user who may do so is rare, and anybody can ask.
const UNAUTHENTICATED_REVIEWS: usize = 16;
/// Further reviews that only renew a good answer that got too old. Strangers cannot cause them, so that clients with a good
/// answer are reviewed again however many strangers come.
const RENEWALS: usize = 64;
/// Maximum number of reviews of one cluster under way at a time that no request waits for: whether verified tokens are still good.
const CHECKS: usize = 16;

/// Time, in seconds, for which a good answer about a token is trusted even if the upstream answers 401.
pub const MIN_TRUST_SECS: u64 = 10;
/// Seconds for which kube-apiserver remembers an impersonation (apiserver, `pkg/endpoints/filters/impersonation/cache.go`).
const BRIEF_SECS: u64 = 10;

/// Kinds of remembered answers: values of the label `kind` of the metric of cached credentials.
pub const CACHES: [&str; 7] = [
    "tokens",
    "rejected_tokens",
    "allowed_access",
    "denied_access",
    "certificates",
    "refused_certificates",
    "distrusted_tokens",
];

/// For how long answers are believed, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lifetimes {
    /// A token's user; never longer than the token says itself.
    pub token: u64,
    /// Lifetime of the answer that a token is not valid.
    pub rejected_token: u64,
    /// That a user may impersonate.
    pub allowed: u64,
    /// That a user may not.
    pub denied: u64,
}

impl Lifetimes {
    /// As configured.
    pub fn from_config(config: &Reviews) -> Self {
        Lifetimes {
            token: config.token_ttl_seconds,
            rejected_token: config.rejected_token_ttl_seconds,
            allowed: config.authorized_ttl_seconds,
            denied: config.unauthorized_ttl_seconds,
        }
    }
}

impl Default for Lifetimes {
    fn default() -> Self {
        Lifetimes { token: 120, rejected_token: 10, allowed: 300, denied: 30 }
    }
}

/// The remembered credentials of one cluster, shared by all workers and kept over edits of its policies.
#[derive(Debug)]
pub struct CredentialCaches {
    /// Client certificates.
    pub certificates: CertificateCache,
    tokens: Answers,
    access: Answers,
    pub(super) distrusted: DistrustedTokens,
    secret: hmac::Key,
    lifetimes: Lifetimes,
    under_way: Arc<UnderWay>,
}

/// Reviews that wait for their answer, by the client that causes them.
#[derive(Debug, Default)]
struct UnderWay {
    unauthenticated: AtomicUsize,
    token: AtomicUsize,
    user: AtomicUsize,
    check: AtomicUsize,
}

impl UnderWay {
    fn counter(&self, requester: Requester) -> &AtomicUsize {
        match requester {
            Requester::Unauthenticated => &self.unauthenticated,
            Requester::Token => &self.token,
            Requester::User => &self.user,
            Requester::Check => &self.check,
        }
    }
}

/// Answers to one kind of question: good and bad ones apart, so that a flood of bad ones displaces no good one.
#[derive(Debug)]
struct Answers {
    good: Remembered<CachedAnswer>,
    bad: Remembered<CachedAnswer>,
}

impl Answers {
    fn get(&self, key: &ReviewKey, at: Moment) -> Option<ReviewResult> {
        let believed = |answer: &CachedAnswer| answer.is_believed(at).then(|| answer.result.clone());
        self.good.get(key, believed).or_else(|| self.bad.get(key, believed))
    }
}

/// A slot for one review; given back when it is dropped.
#[derive(Debug)]
pub struct ReviewPermit {
    under_way: Arc<UnderWay>,
    requester: Requester,
}

impl Drop for ReviewPermit {
    fn drop(&mut self) {
        self.under_way.counter(self.requester).fetch_sub(1, Ordering::AcqRel);
    }
}

impl CredentialCaches {
    /// Empty caches, whose answers are apart from those of all other caches in the store. `secret` is random: without it a key
    /// does not reveal its token.
    pub fn new(secret: &[u8; 32], lifetimes: Lifetimes, store: &Store) -> Self {
        let owner = store.owner();
        let answers = |good, bad| Answers { good: Remembered::new(good, owner), bad: Remembered::new(bad, owner) };
        CredentialCaches {
            certificates: CertificateCache::new(&store.certificates, owner),
            tokens: answers(&store.tokens, &store.rejected),
            access: answers(&store.allowed, &store.denied),
            distrusted: DistrustedTokens::new(&store.distrusted, owner),
            secret: hmac::Key::new(hmac::HMAC_SHA256, secret),
            lifetimes,
            under_way: Arc::default(),
        }
    }

    pub(super) fn token_key(&self, token: &[u8]) -> ReviewKey {
        self.key(b"token", token)
    }

    pub(super) fn access_key(&self, question: &[u8]) -> ReviewKey {
        self.key(b"access", question)
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

    pub(super) fn token(&self, key: &ReviewKey, at: Moment) -> Option<ReviewResult> {
        self.tokens.get(key, at)
    }

    /// The remembered verification of a token without a review, believed or not.
    pub(super) fn verified(&self, key: &ReviewKey) -> Option<Arc<VerifiedUser>> {
        self.tokens.good.get(key, |answer| match &answer.result {
            ReviewResult::Verified(verified) => Some(Arc::clone(verified)),
            _ => None,
        })
    }

    pub(super) fn forget_verified(&self, key: &ReviewKey) {
        self.tokens.good.remove(key);
    }

    pub(super) fn access(&self, key: &ReviewKey, at: Moment) -> Option<ReviewResult> {
        self.access.get(key, at)
    }

    /// How many answers are remembered, by kind; expired ones count until they are forgotten.
    pub fn entries(&self) -> [(&'static str, u64); CACHES.len()] {
        let (verified, refused) = self.certificates.entries();
        let [tokens, rejected, allowed, denied] =
            [&self.tokens.good, &self.tokens.bad, &self.access.good, &self.access.bad].map(Remembered::entries);
        let counts = [tokens, rejected, allowed, denied, verified, refused, self.distrusted.entries()];
        let mut kinds = CACHES.map(|kind| (kind, 0));
        for ((_, entries), count) in kinds.iter_mut().zip(counts) {
            *entries = count;
        }
        kinds
    }

    /// Reviews that wait for their answer.
    pub fn under_way(&self) -> u64 {
        [Requester::Unauthenticated, Requester::Token, Requester::User, Requester::Check]
            .map(|requester| self.under_way.counter(requester).load(Ordering::Acquire) as u64)
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    pub(super) fn insert(&self, key: ReviewKey, result: &ReviewResult, expires: Option<u64>, came: Duration) {
        self.insert_for(key, result, (expires, None), came);
    }

    /// Keeps an answer, a good one about a token no longer than up to its expiry and for a time.
    pub(super) fn insert_for(
        &self,
        key: ReviewKey,
        result: &ReviewResult,
        (expires, longest): (Option<u64>, Option<Duration>),
        came: Duration,
    ) {
        let (answers, lifetime) = match result {
            ReviewResult::User(_) | ReviewResult::Verified(..) => (&self.tokens.good, self.lifetimes.token),
            ReviewResult::Allowed => (&self.access.good, self.lifetimes.allowed),
            ReviewResult::Rejected => (&self.tokens.bad, self.lifetimes.rejected_token),
            ReviewResult::Denied => (&self.access.bad, self.lifetimes.denied),
            ReviewResult::Failed => return,
        };
        let lifetime = Duration::from_secs(lifetime);
        let longest = longest.filter(|_| matches!(result, ReviewResult::User(_))).unwrap_or(lifetime);
        let until = came.saturating_add(lifetime.min(longest));
        let expires = expires.filter(|_| matches!(result, ReviewResult::User(_) | ReviewResult::Verified(..)));
        answers.insert(&key, CachedAnswer { since: came, until, expires, result: result.clone() });
        match result {
            ReviewResult::Rejected => {
                self.distrust_if_verified(&key);
                self.tokens.good.remove(&key);
            }
            ReviewResult::Denied => self.access.good.remove(&key),
            _ => {}
        }
    }

    /// Remembers whether a client may impersonate for one kind of request, for as long as kube-apiserver does, and among the answers
    /// that displace no other good one.
    pub(super) fn insert_briefly(&self, key: ReviewKey, result: &ReviewResult, came: Duration) {
        let longest = match result {
            ReviewResult::Allowed => self.lifetimes.allowed,
            ReviewResult::Denied => self.lifetimes.denied,
            _ => return,
        };
        let until = came.saturating_add(Duration::from_secs(longest.min(BRIEF_SECS)));
        let answer = CachedAnswer { since: came, until, expires: None, result: result.clone() };
        self.access.bad.insert(&key, answer);
    }

    /// Invalidates a good answer about a token, unless it came just now: a client that makes an upstream answer 401 to good
    /// tokens causes one review of each in that time, and no more. The entry stays, so that it is renewed in slots that
    /// strangers cannot take.
    pub(super) fn invalidate_if_older(&self, key: &ReviewKey, uptime: Duration) {
        let believed = Duration::from_secs(MIN_TRUST_SECS);
        let old = |answer: &CachedAnswer| {
            let is_old = uptime < answer.until && uptime.saturating_sub(answer.since) >= believed;
            is_old.then(|| CachedAnswer { until: uptime, ..answer.clone() })
        };
        if let Some(doubted) = self.tokens.good.get(key, old) {
            self.tokens.good.insert(key, doubted);
        }
    }

    pub(super) fn permit(&self, key: &ReviewKey, requester: Requester) -> Option<ReviewPermit> {
        // An answer that got too old stays for a while.
        let is_renewal = self.tokens.good.contains(key) || self.access.good.contains(key);
        let most = match requester {
            Requester::Unauthenticated => UNAUTHENTICATED_REVIEWS,
            Requester::Token | Requester::User if is_renewal => REVIEWS.saturating_add(RENEWALS),
            Requester::Token | Requester::User => REVIEWS,
            Requester::Check => CHECKS,
        };
        let slots = self.under_way.counter(requester);
        let taken = slots.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            (count < most).then_some(count.saturating_add(1))
        });
        taken.ok().map(|_| ReviewPermit { under_way: Arc::clone(&self.under_way), requester })
    }
}
