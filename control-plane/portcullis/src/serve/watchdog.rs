use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often whatever is watched shows that it lives.
const BEAT: Duration = Duration::from_secs(1);
/// Without a sign of life for so long it is taken for dead. Translating thousands of objects for the first time takes a
/// few seconds, in which there is none.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tells whether a task still works: neither ended, nor panicked, nor caught in an endless loop.
#[derive(Debug)]
pub(super) struct Watchdog {
    last: Mutex<Instant>,
}

impl Watchdog {
    pub(super) fn new(now: Instant) -> Self {
        Self { last: Mutex::new(now) }
    }

    /// Does the work and shows signs of life until it ends.
    pub(super) async fn watch<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(BEAT) => self.beat(Instant::now()),
            }
        }
    }

    fn beat(&self, now: Instant) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Whether there was a sign of life lately.
    pub(super) fn is_alive(&self, now: Instant) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(last) < PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_ended_or_hangs_is_dead_after_a_while() {
        let start = Instant::now();
        let watchdog = Watchdog::new(start);
        assert!(watchdog.is_alive(start + Duration::from_secs(59)));
        assert!(!watchdog.is_alive(start + Duration::from_secs(60)));
        watchdog.beat(start + Duration::from_secs(30));
        assert!(watchdog.is_alive(start + Duration::from_secs(89)));
        let last = || *watchdog.last.lock().unwrap();
        let before = last();
        let beaten = watchdog.watch(async {
            while last() == before {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        tokio::time::timeout(Duration::from_secs(20), beaten).await.unwrap();
        assert!(!watchdog.is_alive(last() + PATIENCE));
    }
}
