//! When metrics are flushed to the proxy, and metrics whose publisher is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::catalog::MetricsSink;
use super::cluster_counts::ClusterCounts;
use super::{ClusterMetrics, ClusterTotals, Outcome, Publisher, RequestRecord, Response};
use crate::schedule::{Task, Wake};

/// Time from a change to the flush of metrics: the maximum age of figures.
pub const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// When metrics are flushed: [`FLUSH_INTERVAL`] after the first change since the last flush. Workers share it.
#[derive(Debug, Default)]
struct FlushGate {
    is_armed: AtomicBool,
    is_due: AtomicBool,
}

impl FlushGate {
    /// Notes a change. True if the caller is to call [`FlushGate::open`] after the interval. Cheap where that is scheduled.
    fn arm(&self) -> bool {
        // Orders earlier writes before the armed flag, so that a flush meanwhile sees them.
        fence(Ordering::SeqCst);
        !self.is_armed.load(Ordering::Relaxed) && !self.is_armed.swap(true, Ordering::SeqCst)
    }

    /// The interval is over.
    fn open(&self) {
        self.is_armed.store(false, Ordering::SeqCst);
        self.is_due.store(true, Ordering::SeqCst);
    }

    /// Whether it is time to flush; true once.
    fn take_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::SeqCst)
    }

    /// Makes the flush due again, for another caller.
    fn put_back(&self) {
        self.is_due.store(true, Ordering::SeqCst);
    }
}

/// Metrics of publishers that can write no more: another one writes them.
#[derive(Debug, Default)]
pub struct OrphanedMetrics(Mutex<BTreeMap<u64, Arc<ClusterCounts>>>);

impl OrphanedMetrics {
    /// Takes over the metrics of a publisher, which may go.
    #[cold]
    fn adopt(&self, publisher: &Publisher) {
        let mut orphaned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        orphaned.extend(publisher.counts().into_iter().map(|counts| (counts.id, counts)));
    }

    /// Has another publisher write them with its own.
    #[cold]
    fn hand_over(&self, publisher: &Publisher) {
        let orphaned = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        publisher.adopt(orphaned.into_values());
    }
}

/// The metrics of one configuration where workers share memory: counted by each, and written by the main thread, or by a stream
/// where the proxy takes metrics from streams only.
#[derive(Debug)]
pub struct Flusher<W> {
    publisher: Publisher,
    timer: Arc<FlushTimer<W>>,
    schedule: fn(&Arc<FlushTimer<W>>, Duration) -> bool,
    /// Metrics that a configuration could not write itself, because it is gone or gets no more requests: the next one that
    /// writes its own takes them along.
    orphaned: &'static OrphanedMetrics,
}

/// Wakes a configuration on the main thread when its metrics are to be flushed.
#[derive(Debug)]
pub struct FlushTimer<W> {
    gate: FlushGate,
    /// `None` once the configuration is gone, and with it perhaps the thread that it would be woken on.
    waker: Mutex<Option<W>>,
}

impl<W: Wake> FlushTimer<W> {
    fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }
}

impl<W: Wake + Send + 'static> Task for FlushTimer<W> {
    fn run(&self, _uptime: Duration) -> Option<Duration> {
        self.gate.open();
        self.wake();
        None
    }
}

impl<W> Flusher<W> {
    /// Adds requests that reach no cluster to these totals. `waker` wakes the configuration, `schedule` runs the timer after a
    /// time, and is false where the host cannot.
    pub fn new(
        unrouted: Arc<ClusterTotals>,
        waker: W,
        schedule: fn(&Arc<FlushTimer<W>>, Duration) -> bool,
        orphaned: &'static OrphanedMetrics,
    ) -> Self {
        let timer = FlushTimer { gate: FlushGate::default(), waker: Mutex::new(Some(waker)) };
        Flusher { publisher: Publisher::new(Some(unrouted)), timer: Arc::new(timer), schedule, orphaned }
    }

    /// Counts a request; `None` for one that reached no cluster.
    pub fn count(&self, metrics: Option<&Arc<ClusterMetrics>>, record: &RequestRecord, outcome: Outcome) {
        self.publisher.count(metrics, record, outcome);
        self.changed();
    }

    /// Counts an answer; `None` for the answer to a request that reached no cluster.
    pub fn count_response(
        &self,
        metrics: Option<&Arc<ClusterMetrics>>,
        record: &RequestRecord,
        response: &Response<'_>,
    ) {
        self.publisher.count_response(metrics, record, response);
        self.changed();
    }

    /// Has everything flushed that has changed so far.
    pub fn changed(&self) {
        if self.timer.gate.arm() && !(self.schedule)(&self.timer, FLUSH_INTERVAL) {
            self.timer.gate.open();
        }
    }
}

impl<W: Wake> Flusher<W> {
    /// Flushes on the main thread, if it is time. Without a sink, the next stream does it. `forget_old` forgets answers that are too
    /// old, and is true if any are left.
    pub fn on_main_thread(&self, sink: Option<&mut impl MetricsSink>, forget_old: impl FnOnce() -> bool) {
        if !self.timer.gate.take_due() {
            return;
        }
        // First, so that gauges have what is left.
        let remembers = forget_old();
        if let Some(sink) = sink {
            self.publish(sink);
        } else {
            self.orphaned.adopt(&self.publisher);
            self.timer.gate.put_back();
        }
        // Woken again while there is something to forget, also when no request comes any more.
        if remembers {
            self.changed();
        }
    }

    /// The same from a stream, where the main thread has left it to one.
    pub fn on_stream(&self, sink: &mut impl MetricsSink) {
        if self.timer.gate.take_due() {
            self.publish(sink);
        }
    }

    #[cold]
    fn publish(&self, sink: &mut impl MetricsSink) {
        self.orphaned.hand_over(&self.publisher);
        if !self.publisher.publish(sink) {
            // The flush was not the last step.
            self.timer.gate.put_back();
            self.timer.wake();
        }
    }
}

impl<W> Drop for Flusher<W> {
    fn drop(&mut self) {
        *self.timer.waker.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.orphaned.adopt(&self.publisher);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::sync::atomic::AtomicU32;

    use super::super::catalog::Metric;
    use super::*;
    use crate::state_store::ProcessState;

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

    static ORPHANED: LazyLock<OrphanedMetrics> = LazyLock::new(OrphanedMetrics::default);
    static SCHEDULED: AtomicU32 = AtomicU32::new(0);

    fn schedule(_timer: &Arc<FlushTimer<Arc<AtomicU32>>>, after: Duration) -> bool {
        assert_eq!(after, FLUSH_INTERVAL);
        SCHEDULED.fetch_add(1, Ordering::Relaxed) < 2
    }

    fn flusher(woken: &Arc<AtomicU32>) -> Flusher<Arc<AtomicU32>> {
        Flusher::new(ProcessState::default().unrouted(), Arc::clone(woken), schedule, &ORPHANED)
    }

    #[test]
    fn counts_reach_a_sink_after_the_interval_whoever_has_one() {
        let (woken, mut sum) = (Arc::<AtomicU32>::default(), Sum::default());
        let one = flusher(&woken);
        let count = |flusher: &Flusher<_>| flusher.count(None, &RequestRecord::default(), Outcome::Malformed);
        [&one, &one].into_iter().for_each(count);
        one.on_stream(&mut sum);
        assert_eq!((SCHEDULED.load(Ordering::Relaxed), sum.0), (1, 0), "once, and the interval is not over");
        one.timer.run(Duration::ZERO);
        one.on_main_thread(None::<&mut Sum>, || false);
        one.on_stream(&mut sum);
        assert_eq!((woken.load(Ordering::Relaxed), sum.0), (1, 2), "the stream writes what the main thread could not");
        count(&one);
        let timer = Arc::clone(&one.timer);
        drop(one);
        timer.run(Duration::ZERO);
        assert_eq!(woken.load(Ordering::Relaxed), 1, "a configuration that is gone is not woken");
        let other = flusher(&woken);
        other.changed();
        other.on_main_thread(Some(&mut sum), || true);
        assert_eq!(sum.0, 3, "without a timer it is time at once, for the metrics of the one before, too");
        assert_eq!(SCHEDULED.load(Ordering::Relaxed), 4, "again, because something is left to forget");
    }
}
