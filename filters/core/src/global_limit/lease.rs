use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time until which the parts of a process hold.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// Nanoseconds of uptime; 0 before the first answer.
    until: AtomicU64,
}

impl Lease {
    /// Whether the parts hold at that uptime.
    pub(super) fn is_live(&self, uptime: Duration) -> bool {
        nanoseconds(uptime) < self.until.load(Ordering::Acquire)
    }

    /// The end, in nanoseconds of uptime.
    pub(super) fn until(&self) -> u64 {
        self.until.load(Ordering::Acquire)
    }

    /// Never shortens it.
    pub(super) fn prolong(&self, until: Duration) {
        self.until.fetch_max(nanoseconds(until), Ordering::AcqRel);
    }
}

/// Nanoseconds of uptime.
pub(crate) fn nanoseconds(uptime: Duration) -> u64 {
    u64::try_from(uptime.as_nanos()).unwrap_or(u64::MAX)
}
