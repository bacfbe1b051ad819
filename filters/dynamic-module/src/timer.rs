//! One thread of the process that runs what is due at an uptime: the ABI has no timer.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use envoy_abi::log;
use portcullis_core::schedule::Schedule;

use crate::memory::uptime;

/// The timer, `None` if its thread could not be started.
static TIMER: OnceLock<Option<&'static Timer>> = OnceLock::new();

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
    let task: Weak<dyn Task> = Arc::downgrade(task) as Weak<dyn Task>;
    let mut tasks = timer.tasks.lock().unwrap_or_else(PoisonError::into_inner);
    tasks.add(task, at, |one, other| std::ptr::addr_eq(one.as_ptr(), other.as_ptr()));
    timer.is_changed.notify_one();
    true
}

fn start() -> Option<&'static Timer> {
    let timer: &'static Timer = Box::leak(Box::default());
    let started = thread::Builder::new().name("portcullis-timer".to_owned()).spawn(|| {
        loop {
            timer.due().into_iter().filter_map(|task| task.upgrade()).for_each(Task::run);
        }
    });
    if started.is_err() {
        log::error("portcullis: the timer's thread could not be started: streams of removed servers do not end");
    }
    started.is_ok().then_some(timer)
}

impl Timer {
    /// Waits until tasks are due.
    fn due(&self) -> Vec<Weak<dyn Task>> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = uptime(Instant::now());
            let due: Vec<_> = tasks.take_due(now).collect();
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
