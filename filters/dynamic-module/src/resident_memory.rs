use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The age at which what is known is read again.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The bytes that were read last; 0 for none.
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds of uptime at which they are too old.
static STALE_AT: AtomicU64 = AtomicU64::new(0);

/// Bytes of resident memory of this process, at most a second old. `None` where the system does not name them.
pub(crate) fn resident_memory(uptime: Duration) -> Option<u64> {
    let now = u64::try_from(uptime.as_nanos()).unwrap_or(u64::MAX);
    let after = u64::try_from(MAX_AGE.as_nanos()).unwrap_or(u64::MAX);
    let is_stale = |at: u64| (now >= at).then(|| now.saturating_add(after));
    if STALE_AT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_stale).is_ok() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        BYTES.store(resident(&status).unwrap_or_default(), Ordering::Relaxed);
    }
    Some(BYTES.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
}

/// `VmRSS` in a process's status, which has it in KiB.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_the_status() {
        assert_eq!(resident("Name:\tenvoy\nVmHWM:\t  900 kB\nVmRSS:\t  814 kB\nVmData:\t 1 kB\n"), Some(814 * 1_024));
        assert_eq!(resident("Name:\tenvoy\n"), None);
        let bytes = resident_memory(MAX_AGE);
        assert!(bytes.is_some_and(|bytes| bytes > 100_000), "{bytes:?}");
    }
}
