//! Tokens that the keys of their issuers verify: when each is to be reviewed, and those that a review has rejected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::ReviewKey;
use crate::room::{Aging, Remembered, Room};
use crate::upstream_user::UpstreamUser;

/// Results of these reviews: values of the label `result` of their metric.
pub const CHECK_RESULTS: [&str; 4] = ["confirmed", "other_user", "rejected", "failed"];

/// Time after which a review is tried again for which there was no slot, or while another one of the token was under way.
const POSTPONED: Duration = Duration::from_secs(1);
/// Time after which a review is tried again that had no answer; no period is shorter.
const UNANSWERED: Duration = Duration::from_secs(10);

/// Time for which a token is distrusted at most, from its verification on: no issuer's `maxAge` is longer than a day, and no token
/// is verified that was issued more than a minute ahead of the clock.
const MAX_DISTRUST: Duration = Duration::from_secs(24 * 3600 + 60);

/// The user of a token by the keys of its issuer.
#[derive(Debug)]
pub struct VerifiedUser {
    /// The user.
    pub(crate) user: Arc<UpstreamUser>,
    /// The edition of the issuers.
    pub(crate) edition: u64,
    /// The time from which on the keys verify the token no more, in seconds since 1970.
    pub(super) until: u64,
    /// The uptime from which on no edition of the issuers verifies it.
    pub(super) ends: Duration,
    /// Milliseconds of uptime from which on the token is to be reviewed. The same for all that was known of one token.
    pub(super) next_check: Arc<AtomicU64>,
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
        self.check_again(uptime.saturating_add(POSTPONED));
    }

    /// The review that was claimed has no answer: a token that is revoked is not to stay valid for another period by that.
    pub(super) fn retry_check(&self, uptime: Duration) {
        self.check_again(uptime.saturating_add(UNANSWERED));
    }

    fn check_again(&self, at: Duration) {
        self.next_check.fetch_min(millis(at), Ordering::AcqRel);
    }

    /// Nothing keeps what is known of the token, so that each of its requests would claim a review of its own.
    pub(super) fn give_up_checks(&self) {
        self.next_check.store(u64::MAX, Ordering::Release);
    }
}

/// Tokens of one cluster that a review has rejected although keys verify them.
#[derive(Debug)]
pub(super) struct DistrustedTokens {
    tokens: Remembered<Distrust>,
    /// Milliseconds of uptime up to which every token is distrusted: there was no room for one that ends then.
    all_until: Arc<AtomicU64>,
    pub(super) counts: [AtomicU64; CHECK_RESULTS.len()],
}

/// A token is distrusted up to an uptime, from which on keys verify it no more.
#[derive(Debug)]
pub(crate) struct Distrust {
    ends: Duration,
    all_until: Arc<AtomicU64>,
}

impl Drop for Distrust {
    /// The room for all clusters may displace a token at any time; then all tokens of its cluster are distrusted for as long. To one
    /// that is forgotten at its end this does nothing.
    fn drop(&mut self) {
        self.all_until.fetch_max(millis(self.ends), Ordering::AcqRel);
    }
}

impl Aging for Distrust {
    fn bytes(&self) -> u64 {
        0
    }

    fn kept_until(&self) -> Duration {
        self.ends
    }
}

impl DistrustedTokens {
    pub(super) fn new(room: &Arc<Room<Distrust>>, owner: u64) -> Self {
        let (tokens, all_until) = (Remembered::new(room, owner), Arc::default());
        DistrustedTokens { tokens, all_until, counts: Default::default() }
    }

    pub(super) fn entries(&self) -> u64 {
        self.tokens.entries()
    }

    pub(super) fn insert(&self, key: &ReviewKey, ends: Duration) {
        self.tokens.insert_new(key, || Distrust { ends, all_until: Arc::clone(&self.all_until) });
    }

    pub(super) fn contains(&self, key: &ReviewKey, uptime: Duration) -> bool {
        millis(uptime) < self.all_until.load(Ordering::Acquire) || self.tokens.contains(key)
    }

    pub(super) fn count(&self, result: &'static str) {
        let counts = CHECK_RESULTS.iter().zip(&self.counts);
        if let Some((_, count)) = counts.into_iter().find(|(counted, _)| **counted == result) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The uptime up to which a token is distrusted that ends in so many seconds.
pub(super) fn distrust_end(seconds: u64, uptime: Duration) -> Duration {
    uptime.saturating_add(Duration::from_secs(seconds).min(MAX_DISTRUST))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
