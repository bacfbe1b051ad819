//! Keys that a source has shown, and the time up to which they hold.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portcullis_api::read_keys;
use portcullis_filter_config::TokenKey;

use super::super::discovery::AskedUpstream;

/// Seconds for which the last answer holds at most, and the step in which its end moves: each is another configuration.
pub(super) const KEPT: u64 = 24 * 3600;
pub(super) const STEP: u64 = 6 * 3600;

/// Keys, and the time up to which they hold.
pub(super) struct HeldKeys {
    pub(super) keys: String,
    /// Those that can be used.
    pub(super) usable: Vec<TokenKey>,
    /// The upstream that has shown them.
    pub(super) upstream: Option<AskedUpstream>,
    pub(super) end: Instant,
    /// The same for the filter, in seconds since 1970.
    pub(super) valid_until: u64,
    /// When they were read last, and when they were others.
    pub(super) read: SystemTime,
    pub(super) changed: SystemTime,
}

impl HeldKeys {
    pub(super) fn new(
        keys: String,
        upstream: Option<AskedUpstream>,
        before: Option<&HeldKeys>,
        (time, now): (SystemTime, Instant),
    ) -> Self {
        let seconds = since_1970(time);
        let end = seconds.saturating_add(KEPT);
        let valid_until = end.saturating_sub(end.checked_rem(STEP).unwrap_or(0));
        let usable = read_keys(&keys).unwrap_or_default();
        let changed = before.filter(|before| before.usable == usable).map_or(time, |before| before.changed);
        HeldKeys { keys, usable, upstream, end: at(valid_until, seconds, now), valid_until, read: time, changed }
    }

    /// Whether the other ones are no news: the same keys in any order, of the same upstream, up to the same time.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_in = |one: &Self, other: &Self| one.usable.iter().all(|key| other.usable.contains(key));
        self.valid_until == other.valid_until
            && self.upstream == other.upstream
            && is_in(self, other)
            && is_in(other, self)
    }
}

/// The instant of a later time, both in seconds since 1970.
pub(super) fn at(then: u64, seconds: u64, now: Instant) -> Instant {
    now.checked_add(Duration::from_secs(then.saturating_sub(seconds))).unwrap_or(now)
}

/// Seconds since 1970.
pub(super) fn since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
