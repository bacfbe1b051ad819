use std::time::{Duration, Instant, SystemTime};

/// One moment, by uptime for ages and by the wall clock for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FleetTime {
    pub(crate) uptime: Instant,
    /// Seconds since 1970.
    pub(crate) seconds: u64,
}

impl FleetTime {
    /// The present.
    pub(crate) fn now() -> Self {
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { uptime: Instant::now(), seconds }
    }

    /// The time since an earlier moment; zero if it is a later one.
    pub(super) fn since(self, earlier: Instant) -> Duration {
        self.uptime.saturating_duration_since(earlier)
    }
}
