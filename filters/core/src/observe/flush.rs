//! When metrics are flushed to the proxy, and metrics whose publisher is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Publisher;
use super::cluster_counts::ClusterCounts;

/// Time from a change to the flush of metrics: the maximum age of figures.
pub const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// When metrics are flushed: [`FLUSH_INTERVAL`] after the first change since the last flush. Workers share it.
#[derive(Debug, Default)]
pub struct FlushGate {
    is_armed: AtomicBool,
    is_due: AtomicBool,
}

impl FlushGate {
    /// Notes a change. True if the caller is to call [`FlushGate::open`] after the interval. Cheap where that is scheduled.
    pub fn arm(&self) -> bool {
        // Orders earlier writes before the armed flag, so that a flush meanwhile sees them.
        fence(Ordering::SeqCst);
        !self.is_armed.load(Ordering::Relaxed) && !self.is_armed.swap(true, Ordering::SeqCst)
    }

    /// The interval is over.
    pub fn open(&self) {
        self.is_armed.store(false, Ordering::SeqCst);
        self.is_due.store(true, Ordering::SeqCst);
    }

    /// Whether it is time to flush; true once.
    pub fn take_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::SeqCst)
    }

    /// Makes the flush due again, for another caller.
    pub fn put_back(&self) {
        self.is_due.store(true, Ordering::SeqCst);
    }
}

/// Metrics of publishers that can write no more: another one writes them.
#[derive(Debug, Default)]
pub struct OrphanedMetrics(Mutex<BTreeMap<u64, Arc<ClusterCounts>>>);

impl OrphanedMetrics {
    /// Takes over the metrics of a publisher, which may go.
    #[cold]
    pub fn adopt(&self, publisher: &Publisher) {
        let mut orphaned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        orphaned.extend(publisher.counts().into_iter().map(|counts| (counts.id, counts)));
    }

    /// Has another publisher write them with its own.
    #[cold]
    pub fn hand_over(&self, publisher: &Publisher) {
        let orphaned = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        publisher.adopt(orphaned.into_values());
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog::{Metric, MetricsSink};
    use super::*;
    use crate::observe::{Outcome, RequestRecord};

    #[test]
    fn flush_is_due_once_after_any_number_of_changes() {
        let gate = FlushGate::default();
        assert_eq!([gate.arm(), gate.arm(), gate.take_due()], [true, false, false]);
        gate.open();
        assert_eq!([gate.take_due(), gate.take_due()], [true, false]);
        gate.put_back();
        assert!(gate.take_due() && gate.arm(), "a later change arms it again");
    }

    #[derive(Default)]
    struct Sum(u64);

    impl MetricsSink for Sum {
        fn add(&mut self, _metric: Metric, _labels: &[&str], count: u64) {
            self.0 += count;
        }

        fn set(&mut self, _metric: Metric, _labels: &[&str], _before: u64, _value: u64) {}
    }

    #[test]
    fn orphaned_counts_are_written_once() {
        let (orphaned, publisher) = (OrphanedMetrics::default(), Publisher::default());
        publisher.count(None, &RequestRecord::default(), Outcome::Malformed);
        orphaned.adopt(&publisher);
        drop(publisher);
        let (first, second) = (Publisher::default(), Publisher::default());
        orphaned.hand_over(&first);
        orphaned.hand_over(&second);
        let mut sums = [Sum::default(), Sum::default(), Sum::default()];
        for (publisher, sum) in [&first, &first, &second].into_iter().zip(&mut sums) {
            assert!(publisher.publish(sum));
        }
        assert_eq!(sums.map(|sum| sum.0), [1, 0, 0]);
    }
}
