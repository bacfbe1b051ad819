use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine was started. Goes on while it is suspended, as the leases do that other machines have: the clock of
/// [`std::time::Instant`] does not count that time.
pub(crate) fn boot_time() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
