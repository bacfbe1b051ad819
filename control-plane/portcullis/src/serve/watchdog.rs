use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The interval between two signs of life of the watched task.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// The time without a sign of life after which the task counts as dead. Translating thousands of objects for the first time
/// takes a few seconds, in which there is none.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// Shows whether a task still works: it has not ended, has not panicked, and is not caught in an endless loop.
#[derive(Debug)]
pub(super) struct Watchdog {
    last_heartbeat: Mutex<Instant>,
    /// Whether the task waits for a thread that may never return.
    is_blocked: AtomicBool,
}

/// Silences the watchdog's task until it is dropped, which is a sign of life.
pub(super) struct Blocked<'a>(&'a Watchdog);

impl Watchdog {
    pub(super) fn new(now: Instant) -> Self {
        Self { last_heartbeat: Mutex::new(now), is_blocked: AtomicBool::new(false) }
    }

    /// Does the work and shows signs of life until it ends.
    pub(super) async fn watch<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(HEARTBEAT_INTERVAL) => self.heartbeat(Instant::now()),
            }
        }
    }

    /// Announces that the task waits for a blocking thread: a thread that never returns must look like a dead task.
    pub(super) fn block(&self) -> Blocked<'_> {
        self.is_blocked.store(true, Ordering::Relaxed);
        Blocked(self)
    }

    fn heartbeat(&self, now: Instant) {
        if !self.is_blocked.load(Ordering::Relaxed) {
            *self.last_heartbeat.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }

    /// Whether there was a sign of life lately.
    pub(super) fn is_alive(&self, now: Instant) -> bool {
        let last = *self.last_heartbeat.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(last) < DEAD_AFTER
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.0.is_blocked.store(false, Ordering::Relaxed);
        // A task that waits for one thread after the other is hardly ever found between two of them.
        self.0.heartbeat(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn task_that_ended_is_dead_after_a_minute() {
        let start = Instant::now();
        let watchdog = Watchdog::new(start);
        assert!(watchdog.is_alive(start + Duration::from_secs(59)));
        assert!(!watchdog.is_alive(start + Duration::from_secs(60)));
        watchdog.heartbeat(start + Duration::from_secs(30));
        assert!(watchdog.is_alive(start + Duration::from_secs(89)));
        let last = || *watchdog.last_heartbeat.lock().unwrap();
        let before = last();
        let work = watchdog.watch(async {
            while last() == before {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        tokio::time::timeout(Duration::from_secs(20), work).await.unwrap();
        assert!(!watchdog.is_alive(last() + DEAD_AFTER));
    }

    #[test]
    fn task_that_waits_for_a_stuck_thread_is_dead_after_a_minute() {
        let start = Instant::now();
        let watchdog = Watchdog::new(start);
        let later = start + Duration::from_secs(70);
        let blocked = watchdog.block();
        watchdog.heartbeat(later);
        assert!(!watchdog.is_alive(later));
        drop(blocked);
        watchdog.heartbeat(later);
        assert!(watchdog.is_alive(later));
    }

    #[test]
    fn task_that_waits_for_thread_after_thread_is_alive() {
        let Some(long_ago) = Instant::now().checked_sub(DEAD_AFTER) else { return };
        let watchdog = Watchdog::new(long_ago);
        assert!(!watchdog.is_alive(Instant::now()));
        drop(watchdog.block());
        assert!(watchdog.is_alive(Instant::now()));
    }
}
