use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use envoy_abi::http::ConfigScheduler;
use portcullis_core::observe::{FLUSH_INTERVAL, FlushGate};

use crate::memory::uptime;
use crate::timer::{Task, run_at};

/// Wakes one filter configuration on the main thread when its metrics are to be flushed.
#[derive(Debug)]
pub(crate) struct FlushTimer {
    pub(crate) gate: FlushGate,
    /// `None` once the configuration is gone, and with it perhaps the thread that it would be woken on.
    scheduler: Mutex<Option<ConfigScheduler>>,
}

impl FlushTimer {
    pub(crate) fn new(scheduler: ConfigScheduler) -> Arc<Self> {
        Arc::new(FlushTimer { gate: FlushGate::default(), scheduler: Mutex::new(Some(scheduler)) })
    }

    /// Has the configuration woken after what has changed so far.
    pub(crate) fn schedule(self: &Arc<Self>) {
        if self.gate.arm() && !run_at(self, uptime(Instant::now()).saturating_add(FLUSH_INTERVAL)) {
            self.gate.open();
        }
    }

    /// Has the configuration woken at once: the flush was not the last step.
    pub(crate) fn go_on(&self) {
        self.gate.put_back();
        self.wake();
    }

    fn wake(&self) {
        if let Some(scheduler) = &*self.scheduler.lock().unwrap_or_else(PoisonError::into_inner) {
            scheduler.wake();
        }
    }

    /// The configuration is about to go.
    pub(crate) fn cancel(&self) {
        *self.scheduler.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Task for FlushTimer {
    fn run(self: Arc<Self>) {
        self.gate.open();
        self.wake();
    }
}
