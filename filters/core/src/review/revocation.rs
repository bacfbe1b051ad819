//! Reviews of tokens that the keys of their issuers verify: whether the upstream still accepts them. No request waits for one. A token
//! that a review has rejected is distrusted from then on: it is reviewed as any other, whatever its signature is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::verified::{CHECK_RESULTS, VerifiedUser};
use super::{CredentialCaches, ReviewKey, ReviewResult};
use crate::moment::Moment;
use crate::upstream_user::UpstreamUser;

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
