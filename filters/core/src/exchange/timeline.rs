use std::time::Duration;

use crate::observe::Phases;

/// The times of a request, by the clock that only goes forward.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeline {
    pub(super) received: Option<Duration>,
    pub(super) forwarded: Option<Duration>,
    pub(super) answered: Option<Duration>,
    /// The time that it waited for reviews.
    pub(super) waited: Duration,
    /// The time that it waited for a seat.
    pub(super) queued: Duration,
}

impl Timeline {
    /// The phases of a request that ended.
    pub(super) fn phases(self, end: Duration) -> Phases {
        let Timeline { received, forwarded, answered, waited, queued } = self;
        let here = between(received, forwarded.or(Some(end))).unwrap_or_default();
        Phases {
            filter: here.saturating_sub(waited).saturating_sub(queued),
            reviews: waited,
            queue: queued,
            server: between(forwarded, answered.or(Some(end))).unwrap_or_default(),
            answer: between(answered.filter(|_| forwarded.is_some()), Some(end)).unwrap_or_default(),
        }
    }
}

/// The time from one moment to another, if both are known.
pub(super) fn between(start: Option<Duration>, end: Option<Duration>) -> Option<Duration> {
    Some(end?.saturating_sub(start?))
}
