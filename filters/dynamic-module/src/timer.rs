//! One thread of the process that runs what is due at an uptime: the ABI has no timer.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use envoy_abi::guard::guard;
use envoy_abi::log;
use portcullis_core::fault;
use portcullis_core::schedule::Schedule;

use crate::memory::uptime;

/// The timer, `None` if its thread could not be started.
static TIMER: OnceLock<Option<&'static Timer>> = OnceLock::new();

/// Time after which a task that panicked runs again: what it left undone must not wait for the next change.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A task that runs on the timer's thread.
pub(crate) trait Task: Send + Sync + 'static {
    fn run(self: Arc<Self>);
}

#[derive(Default)]
struct Timer {
    tasks: Mutex<Schedule<Weak<dyn Task>>>,
    is_changed: Condvar,
}

/// Runs a task once at that uptime, or earlier if it is to run earlier anyway. A task that is gone by then does not run. False
/// if this process has no timer.
pub(crate) fn run_at<T: Task>(task: &Arc<T>, at: Duration) -> bool {
    let Some(timer) = TIMER.get_or_init(start) else { return false };
    timer.add(Arc::downgrade(task) as Weak<dyn Task>, at);
    true
}

fn start() -> Option<&'static Timer> {
    let timer: &'static Timer = Box::leak(Box::default());
    let started = thread::Builder::new().name("portcullis-timer".to_owned()).spawn(|| {
        loop {
            timer.due().into_iter().for_each(|task| timer.run(&task));
        }
    });
    if started.is_err() {
        log::error("portcullis: the timer's thread could not be started: streams of removed servers do not end");
    }
    started.is_ok().then_some(timer)
}

impl Timer {
    fn add(&self, task: Weak<dyn Task>, at: Duration) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.add(task.as_ptr().cast::<()>().addr(), task, at);
        self.is_changed.notify_one();
    }

    /// Runs a task. A panic ends that run alone: the thread serves all other tasks.
    fn run(&self, task: &Weak<dyn Task>) {
        let Some(strong) = task.upgrade() else { return };
        let ran = guard("portcullis: a panic in a task of the timer", || {
            fault::strike_once("timer");
            strong.run();
        });
        if ran.is_err() {
            self.add(Weak::clone(task), uptime(Instant::now()).saturating_add(RETRY_AFTER));
        }
    }

    /// Waits until tasks are due.
    fn due(&self) -> Vec<Weak<dyn Task>> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = uptime(Instant::now());
            let due = tasks.take_due(now);
            if !due.is_empty() {
                return due;
            }
            let next = tasks.next().map(|at| at.saturating_sub(now));
            tasks = match next {
                None => self.is_changed.wait(tasks).unwrap_or_else(PoisonError::into_inner),
                Some(time) => self.is_changed.wait_timeout(tasks, time).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}
