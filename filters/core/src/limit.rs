//! Requests in flight, counted exactly over all workers of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The requests in flight of one flow control schema. Outlives the configurations that limit it, so that an edit does not
/// forget what is running.
#[derive(Debug)]
pub struct InFlight(Counter);

#[derive(Debug)]
enum Counter {
    Local(AtomicU32),
    Shared(Box<dyn SharedCount>),
}

/// A count that a host keeps whose workers share no memory.
pub trait SharedCount: std::fmt::Debug + Send + Sync {
    /// Takes a permit if all workers together hold fewer than `max`. False, too, if that is not known.
    fn acquire(&self, max: u32) -> bool;

    /// Releases a permit.
    fn release(&self);

    /// The number of permits that this worker holds.
    fn own(&self) -> u32;
}

impl Default for InFlight {
    fn default() -> Self {
        InFlight(Counter::Local(AtomicU32::new(0)))
    }
}

/// The permit of one request in flight; released when it is dropped, however the request ends. It keeps the count alive, so
/// that a limit that goes and comes back counts the requests that still run.
#[derive(Debug)]
pub struct InFlightPermit(Arc<InFlight>);

impl InFlight {
    /// Requests that the host counts, because its workers share no memory.
    pub fn shared(count: Box<dyn SharedCount>) -> Self {
        InFlight(Counter::Shared(count))
    }

    /// Takes a permit if fewer than `max` are held. After `max` has shrunk, running requests go on, and new ones are refused
    /// until enough have ended.
    pub fn acquire(self: &Arc<Self>, max: u32) -> Option<InFlightPermit> {
        let is_in = match &self.0 {
            Counter::Local(taken) => {
                let one_more = |count| if count < max { u32::checked_add(count, 1) } else { None };
                taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
            }
            Counter::Shared(count) => count.acquire(max),
        };
        is_in.then(|| InFlightPermit(Arc::clone(self)))
    }

    /// The number of permits that are held, by this worker alone where workers share no memory.
    pub fn count(&self) -> u32 {
        match &self.0 {
            Counter::Local(taken) => taken.load(Ordering::Acquire),
            Counter::Shared(count) => count.own(),
        }
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        match &self.0.0 {
            Counter::Local(taken) => _ = taken.fetch_sub(1, Ordering::AcqRel),
            Counter::Shared(count) => count.release(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_that_shrinks_waits_until_enough_have_left() {
        let running: Arc<InFlight> = Arc::default();
        let mut permits: Vec<_> = (0..3).filter_map(|_| running.acquire(3)).collect();
        assert_eq!(permits.len(), 3);
        assert!(running.acquire(3).is_none());
        assert!(running.acquire(2).is_none());
        permits.truncate(1);
        assert_eq!(running.count(), 1);
        assert!(running.acquire(1).is_none());
        let second = running.acquire(2);
        assert!(second.is_some());
        assert!(running.acquire(0).is_none());
    }

    #[test]
    fn no_more_enter_than_may_over_many_threads() {
        let (running, peak) = (Arc::<InFlight>::default(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if let Some(_permit) = running.acquire(3) {
                            peak.fetch_max(running.count(), Ordering::AcqRel);
                        }
                    }
                });
            }
        });
        assert!((1..=3).contains(&peak.load(Ordering::Acquire)));
        assert_eq!(running.count(), 0);
    }
}
