use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use envoy_abi::http::ConfigScheduler;

use crate::memory::uptime;
use crate::timer::{Task, run_at};

/// Time from a change to the wake-up of its configuration: the maximum age of figures.
const PERIOD: Duration = Duration::from_secs(1);

/// Wakes one filter configuration on the main thread a while after its metrics have changed.
#[derive(Debug)]
pub(crate) struct FlushTimer {
    is_armed: AtomicBool,
    is_due: AtomicBool,
    /// `None` once the configuration is gone, and with it perhaps the thread that it would be woken on.
    scheduler: Mutex<Option<ConfigScheduler>>,
}

impl FlushTimer {
    pub(crate) fn new(scheduler: ConfigScheduler) -> Arc<Self> {
        Arc::new(FlushTimer {
            is_armed: AtomicBool::new(false),
            is_due: AtomicBool::new(false),
            scheduler: Mutex::new(Some(scheduler)),
        })
    }

    /// Has the configuration woken after what has changed so far. Cheap where that is scheduled already.
    pub(crate) fn schedule(self: &Arc<Self>) {
        // Orders earlier writes before the armed flag, so that a wake-up meanwhile sees them.
        fence(Ordering::SeqCst);
        if self.is_armed.load(Ordering::Relaxed) || self.is_armed.swap(true, Ordering::SeqCst) {
            return;
        }
        if !run_at(self, uptime(Instant::now()).saturating_add(PERIOD)) {
            self.is_due.store(true, Ordering::SeqCst);
        }
    }

    /// Whether the time has come; true once.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::SeqCst)
    }

    /// Makes it due again, for a stream to see.
    pub(crate) fn reschedule(&self) {
        self.is_due.store(true, Ordering::SeqCst);
    }

    /// The configuration is about to go.
    pub(crate) fn cancel(&self) {
        *self.scheduler.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Task for FlushTimer {
    fn run(self: Arc<Self>) {
        self.is_armed.store(false, Ordering::SeqCst);
        self.is_due.store(true, Ordering::SeqCst);
        if let Some(scheduler) = &*self.scheduler.lock().unwrap_or_else(PoisonError::into_inner) {
            scheduler.wake();
        }
    }
}
