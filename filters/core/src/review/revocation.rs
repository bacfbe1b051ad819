//! Reviews of tokens that the keys of their issuers verify: whether the upstream still accepts them. No request waits for one. A token
//! that a review has rejected is distrusted from then on: it is reviewed as any other, whatever its signature is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{CredentialCaches, ReviewKey, ReviewResult};
use crate::moment::Moment;
use crate::room::{Aging, Remembered, Room};
use crate::upstream_user::UpstreamUser;

/// Results of these reviews: values of the label `result` of their metric.
pub const CHECK_RESULTS: [&str; 4] = ["confirmed", "other_user", "rejected", "failed"];

/// Time after which a review is tried again for which there was no slot.
const POSTPONED: Duration = Duration::from_secs(1);

/// The user of a token by the keys of its issuer.
#[derive(Debug)]
pub struct VerifiedUser {
    /// The user.
    pub(crate) user: Arc<UpstreamUser>,
    /// The edition of the issuers.
    pub(crate) edition: u64,
    /// The time from which on the keys verify the token no more, in seconds since 1970, and the same as uptime.
    until: u64,
    ends: Duration,
    /// Milliseconds of uptime from which on the token is to be reviewed. The same for all that was known of one token.
    next_check: Arc<AtomicU64>,
}

impl PartialEq for VerifiedUser {
    fn eq(&self, other: &Self) -> bool {
        (&self.user, self.edition) == (&other.user, other.edition)
    }
}

impl Eq for VerifiedUser {}

impl VerifiedUser {
    /// Whether the token is to be reviewed now; true once in a period, whatever the number of threads that ask.
    pub(crate) fn claim_check(&self, period: Duration, uptime: Duration) -> bool {
        let now = millis(uptime);
        let claim = |next: u64| (next <= now).then(|| millis(uptime.saturating_add(period)));
        self.next_check.fetch_update(Ordering::AcqRel, Ordering::Acquire, claim).is_ok()
    }

    /// The review that was claimed could not begin.
    pub(super) fn postpone_check(&self, uptime: Duration) {
        self.next_check.store(millis(uptime.saturating_add(POSTPONED)), Ordering::Release);
    }
}

/// Tokens of one cluster that a review has rejected although keys verify them.
#[derive(Debug)]
pub(super) struct DistrustedTokens {
    tokens: Remembered<Distrust>,
    /// Milliseconds of uptime up to which every token is distrusted: there was no room for one more.
    all_until: AtomicU64,
    counts: [AtomicU64; CHECK_RESULTS.len()],
}

/// A token is distrusted up to this uptime, from which on keys verify it no more.
#[derive(Debug)]
pub(crate) struct Distrust(Duration);

impl Aging for Distrust {
    fn bytes(&self) -> u64 {
        0
    }

    fn kept_until(&self) -> Duration {
        self.0
    }
}

impl DistrustedTokens {
    pub(super) fn new(room: &Arc<Room<Distrust>>, owner: u64) -> Self {
        let (tokens, all_until) = (Remembered::new(room, owner), AtomicU64::new(0));
        DistrustedTokens { tokens, all_until, counts: Default::default() }
    }

    pub(super) fn entries(&self) -> u64 {
        self.tokens.entries()
    }

    fn insert(&self, key: &ReviewKey, ends: Duration) {
        if !self.tokens.insert(key, Distrust(ends)) {
            self.all_until.fetch_max(millis(ends), Ordering::AcqRel);
        }
    }

    fn contains(&self, key: &ReviewKey, uptime: Duration) -> bool {
        millis(uptime) < self.all_until.load(Ordering::Acquire) || self.tokens.contains(key)
    }

    fn count(&self, result: &'static str) {
        let counts = CHECK_RESULTS.iter().zip(&self.counts);
        if let Some((_, count)) = counts.into_iter().find(|(counted, _)| **counted == result) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl CredentialCaches {
    /// Whether a review has rejected a token that keys verify.
    pub(crate) fn distrusts(&self, key: &ReviewKey, uptime: Duration) -> bool {
        self.distrusted.contains(key, uptime)
    }

    /// Remembers that keys have verified a token, up to a time of day and no longer than a review's answer. `None` if a review has
    /// rejected it meanwhile.
    pub(crate) fn insert_verified(
        &self,
        key: ReviewKey,
        (user, edition): (Arc<UpstreamUser>, u64),
        until: u64,
        at: Moment,
    ) -> Option<Arc<VerifiedUser>> {
        let known = self.verified(&key);
        let next_check = known.map_or_else(Arc::default, |known| Arc::clone(&known.next_check));
        let left = Duration::from_secs(until.saturating_sub(at.now.as_secs()));
        let ends = at.uptime.saturating_add(left);
        let verified = Arc::new(VerifiedUser { user, edition, until, ends, next_check });
        self.insert(key, &ReviewResult::Verified(Arc::clone(&verified)), Some(until), at.uptime);
        if self.distrusts(&key, at.uptime) {
            self.forget_verified(&key);
            return None;
        }
        Some(verified)
    }

    /// Takes the answer to a review of a verified token that no request has waited for.
    pub(super) fn accept_check(&self, key: ReviewKey, checked: &VerifiedUser, result: &ReviewResult, came: Duration) {
        self.distrusted.count(match result {
            ReviewResult::User(user) if *user == checked.user => "confirmed",
            ReviewResult::User(_) => {
                // The upstream's word counts from here on.
                self.distrust(&key, checked);
                self.insert(key, result, Some(checked.until), came);
                "other_user"
            }
            ReviewResult::Rejected => {
                self.distrust(&key, checked);
                self.insert(key, result, None, came);
                "rejected"
            }
            _ => "failed",
        });
    }

    /// A review that a request has waited for has rejected a token, which keys may have verified before.
    pub(super) fn distrust_if_verified(&self, key: &ReviewKey) {
        if let Some(verified) = self.verified(key) {
            self.distrust(key, &verified);
        }
    }

    /// The results of such reviews that were counted since the last time.
    pub(crate) fn take_check_counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = CHECK_RESULTS.into_iter().zip(&self.distrusted.counts);
        counts.map(|(result, count)| (result, count.swap(0, Ordering::Relaxed))).filter(|(_, count)| *count > 0)
    }

    /// Whether any were.
    pub(crate) fn has_check_counts(&self) -> bool {
        self.distrusted.counts.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    fn distrust(&self, key: &ReviewKey, verified: &VerifiedUser) {
        self.distrusted.insert(key, verified.ends);
        self.forget_verified(key);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
