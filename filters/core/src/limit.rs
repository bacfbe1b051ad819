//! Requests in flight, counted exactly over all workers of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The requests in flight of one flow control schema. Outlives the configurations that limit it, so that an edit does not
/// forget what is running.
#[derive(Debug, Default)]
pub struct InFlight(AtomicU32);

/// A place among the requests in flight; given back when it is dropped, however the request ends. It keeps the count alive,
/// so that a limit that goes and comes back finds who is still running.
#[derive(Debug)]
pub struct Place(Arc<InFlight>);

impl InFlight {
    /// Takes a place if fewer than `max` are taken. A `max` that shrank lets nobody in until enough have left; nobody who
    /// is in is put out.
    pub fn enter(self: &Arc<Self>, max: u32) -> Option<Place> {
        let entered = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            if count < max { count.checked_add(1) } else { None }
        });
        entered.ok().map(|_| Place(Arc::clone(self)))
    }

    /// How many places are taken.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_shrinks_waits_until_enough_have_left() {
        let running: Arc<InFlight> = Arc::default();
        let mut places: Vec<_> = (0..3).filter_map(|_| running.enter(3)).collect();
        assert_eq!(places.len(), 3);
        assert!(running.enter(3).is_none());
        assert!(running.enter(2).is_none());
        places.truncate(1);
        assert_eq!(running.count(), 1);
        assert!(running.enter(1).is_none());
        let second = running.enter(2);
        assert!(second.is_some());
        assert!(running.enter(0).is_none());
    }

    #[test]
    fn no_more_enter_than_may_over_many_threads() {
        let (running, peak) = (Arc::<InFlight>::default(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if let Some(_place) = running.enter(3) {
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
