//! Reviews of tokens that the keys of their issuers verify: whether the upstream still accepts them. No request waits for one. A token
//! that a review has rejected is distrusted from then on: it is reviewed as any other, whatever its signature is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::verified::{CHECK_RESULTS, VerifiedUser, distrust_end};
use super::{CredentialCaches, ReviewKey, ReviewResult};
use crate::moment::Moment;
use crate::upstream_user::UpstreamUser;

/// Up to when keys verify a token, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenEnd {
    /// The present edition of the issuers.
    pub(crate) until: u64,
    /// Any: the token's own expiry.
    pub(crate) expires: u64,
}

impl CredentialCaches {
    /// Whether a review has rejected a token that keys verify.
    pub(crate) fn distrusts(&self, key: &ReviewKey, uptime: Duration) -> bool {
        self.distrusted.contains(key, uptime)
    }

    /// Remembers that keys have verified a token, up to a time of day and no longer than a review's answer. `None` if a review has
    /// rejected it meanwhile. A token for which there is no room is not reviewed beside its requests.
    pub(crate) fn insert_verified(
        &self,
        key: ReviewKey,
        (user, edition): (Arc<UpstreamUser>, u64),
        TokenEnd { until, expires }: TokenEnd,
        at: Moment,
    ) -> Option<Arc<VerifiedUser>> {
        let known = self.verified(&key);
        let next_check = known.map_or_else(Arc::default, |known| Arc::clone(&known.next_check));
        let ends = distrust_end(expires.saturating_sub(at.now.as_secs()), at.uptime);
        let verified = Arc::new(VerifiedUser { user, edition, until, ends, next_check });
        self.insert(key, &ReviewResult::Verified(Arc::clone(&verified)), Some(until), at.uptime);
        if self.distrusts(&key, at.uptime) {
            self.forget_verified(&key);
            return None;
        }
        if self.verified(&key).is_none() {
            verified.give_up_checks();
        }
        Some(verified)
    }

    /// Takes the answer to a review of a verified token that no request has waited for, once in a period.
    pub(super) fn accept_check(
        &self,
        key: ReviewKey,
        (checked, period): (&VerifiedUser, Option<Duration>),
        result: &ReviewResult,
        came: Duration,
    ) {
        self.distrusted.count(match result {
            ReviewResult::User(user) if *user == checked.user => "confirmed",
            ReviewResult::User(_) => {
                // The upstream's word counts from here on.
                self.distrust(&key, checked);
                self.insert_for(key, result, (Some(checked.until), period), came);
                "other_user"
            }
            ReviewResult::Rejected => {
                // No answer to the token's requests: the server may be mistaken, and they are to wait for another review.
                self.distrust(&key, checked);
                "rejected"
            }
            _ => {
                checked.retry_check(came);
                "failed"
            }
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
