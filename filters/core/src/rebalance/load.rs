use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Whole seconds that a rate is measured over.
const WINDOW: u32 = 5;
/// Seconds that are kept: those of the window, the running one, and some for workers that read the clock late.
const SLOTS: usize = 8;

/// The load of the process by the requests of all clusters, and the time of its last drain. Counts only where a condition asks.
#[derive(Debug, Default)]
pub struct ProcessLoad {
    in_flight: AtomicU32,
    /// Requests by second, each second in the place of the one that was [`SLOTS`] before it.
    seconds: [AtomicU64; SLOTS],
    /// Nanoseconds of uptime, 0 before the first.
    last_drain: AtomicU64,
}

/// A place among the requests in flight; given back when it is dropped, however the request ends.
#[derive(Debug)]
pub(crate) struct RunningPlace(Arc<ProcessLoad>);

/// A second of uptime and its requests, in one number.
#[derive(Clone, Copy)]
struct Second {
    number: u32,
    count: u32,
}

impl Second {
    fn unpack(packed: u64) -> Self {
        let low = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        Second { number: low(packed >> 32), count: low(packed) }
    }

    fn pack(self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.count)
    }
}

impl ProcessLoad {
    pub(super) fn start(this: &Arc<Self>) -> RunningPlace {
        this.in_flight.fetch_add(1, Ordering::Relaxed);
        RunningPlace(Arc::clone(this))
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a request.
    pub(super) fn arrives(&self, uptime: Duration) {
        let now = second(uptime);
        let Some(slot) = self.seconds.get(place(now)) else { return };
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |packed| {
            let known = Second::unpack(packed);
            let count = if known.number == now { known.count.saturating_add(1) } else { 1 };
            // A worker that was held up counts nothing over a later second.
            (known.number <= now).then(|| Second { number: now, count }.pack())
        });
    }

    /// Whether more requests than these came in a second, over the last whole seconds.
    pub(super) fn is_faster_than(&self, per_second: u32, uptime: Duration) -> bool {
        let now = second(uptime);
        let seconds = self.seconds.iter().map(|slot| Second::unpack(slot.load(Ordering::Relaxed)));
        let recent = seconds.filter(|second| (1..=WINDOW).contains(&now.saturating_sub(second.number)));
        let count: u64 = recent.map(|second| u64::from(second.count)).sum();
        count > u64::from(per_second).saturating_mul(WINDOW.into())
    }

    /// Whether a connection may be drained, so long after the last one: new connections come evenly, and not all at once.
    pub(super) fn admits_drain(&self, uptime: Duration, interval: Duration) -> bool {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (now, interval) = (nanos(uptime).max(1), nanos(interval));
        let next = |last: u64| (last == 0 || now >= last.saturating_add(interval)).then_some(now);
        self.last_drain.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

impl Drop for RunningPlace {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

fn second(uptime: Duration) -> u32 {
    u32::try_from(uptime.as_secs()).unwrap_or(u32::MAX)
}

fn place(second: u32) -> usize {
    usize::try_from(second).unwrap_or_default() % SLOTS
}
