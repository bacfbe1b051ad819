//! Wakes filter configurations on the main thread a while after something has happened: the ABI has no timer.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use envoy_abi::http::ConfigScheduler;
use envoy_abi::log;

/// How long after the first thing that happens a configuration is woken: so old are its figures at most.
const PERIOD: Duration = Duration::from_secs(1);

/// One filter configuration's wish to be woken.
#[derive(Debug)]
pub(crate) struct FlushTimer {
    is_armed: AtomicBool,
    is_due: AtomicBool,
    /// `None` once the configuration is gone, and with it perhaps the thread that it would be woken on.
    scheduler: Mutex<Option<ConfigScheduler>>,
}

#[derive(Debug, Default)]
struct Queue {
    armed: Mutex<Vec<Arc<FlushTimer>>>,
    is_filled: Condvar,
}

/// The queue of the process's one thread, `None` if it could not be started.
static QUEUE: OnceLock<Option<&'static Queue>> = OnceLock::new();

impl FlushTimer {
    pub(crate) fn new(scheduler: ConfigScheduler) -> Arc<Self> {
        QUEUE.get_or_init(start);
        Arc::new(FlushTimer {
            is_armed: AtomicBool::new(false),
            is_due: AtomicBool::new(false),
            scheduler: Mutex::new(Some(scheduler)),
        })
    }

    /// Has the configuration woken after what has happened so far. Cheap where it is to be woken anyway.
    pub(crate) fn schedule(self: &Arc<Self>) {
        // Whoever is woken before this call must not have missed what happened before it.
        fence(Ordering::SeqCst);
        if self.is_armed.load(Ordering::Relaxed) || self.is_armed.swap(true, Ordering::SeqCst) {
            return;
        }
        match QUEUE.get() {
            Some(Some(queue)) => {
                queue.armed.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(self));
                queue.is_filled.notify_one();
            }
            _ => self.is_due.store(true, Ordering::SeqCst),
        }
    }

    /// Whether the time has come; says so once.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::SeqCst)
    }

    /// Says that it is due again, for somebody else to see.
    pub(crate) fn reschedule(&self) {
        self.is_due.store(true, Ordering::SeqCst);
    }

    /// The configuration is about to go.
    pub(crate) fn cancel(&self) {
        *self.scheduler.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn fire(&self) {
        self.is_armed.store(false, Ordering::SeqCst);
        self.is_due.store(true, Ordering::SeqCst);
        if let Some(scheduler) = &*self.scheduler.lock().unwrap_or_else(PoisonError::into_inner) {
            scheduler.wake();
        }
    }
}

fn start() -> Option<&'static Queue> {
    let queue: &'static Queue = Box::leak(Box::default());
    let started = thread::Builder::new().name("portcullis-tick".to_owned()).spawn(|| run(queue));
    if started.is_err() {
        log::error("portcullis: the thread for metrics could not be started; metrics cost more without it");
    }
    started.is_ok().then_some(queue)
}

fn run(queue: &Queue) {
    loop {
        let armed = queue.armed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(queue.is_filled.wait_while(armed, |armed| armed.is_empty()).unwrap_or_else(PoisonError::into_inner));
        thread::park_timeout(PERIOD);
        let armed = std::mem::take(&mut *queue.armed.lock().unwrap_or_else(PoisonError::into_inner));
        armed.iter().for_each(|timer| timer.fire());
    }
}
