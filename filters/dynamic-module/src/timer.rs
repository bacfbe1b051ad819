//! The thread that runs what is due at an uptime: the ABI has no timer.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use envoy_abi::guard::guard;
use envoy_abi::http::{ConfigScheduler, StreamScheduler};
use envoy_abi::log;
use portcullis_core::schedule::{Task, TaskQueue, Wake};

use crate::memory::uptime;

/// The tasks, `None` if their thread could not be started.
static TASKS: OnceLock<Option<&'static TaskQueue>> = OnceLock::new();

/// Runs a task once at that uptime. False if this process has no timer.
pub(crate) fn run_at<T: Task>(task: &Arc<T>, at: Duration) -> bool {
    let Some(tasks) = TASKS.get_or_init(start) else { return false };
    tasks.add(task, at);
    true
}

/// Runs a task once after that time. False if this process has no timer.
pub(crate) fn run_after<T: Task>(task: &Arc<T>, time: Duration) -> bool {
    run_at(task, uptime(Instant::now()).saturating_add(time))
}

fn start() -> Option<&'static TaskQueue> {
    let tasks: &'static TaskQueue = Box::leak(Box::default());
    let run = move || {
        loop {
            for task in tasks.wait(|| uptime(Instant::now())) {
                // A panic ends that run alone: the thread serves all other tasks.
                let _ = guard("portcullis: a panic in a task of the timer", || tasks.run(task, uptime(Instant::now())));
            }
        }
    };
    if thread::Builder::new().name("portcullis-timer".to_owned()).spawn(run).is_ok() {
        return Some(tasks);
    }
    log::error("portcullis: the timer's thread could not be started: streams of removed servers end with Envoy");
    None
}

/// Wakes a stream on its worker, or a filter configuration on the main thread.
#[derive(Debug)]
pub(crate) struct Waker<S>(pub(crate) S);

pub(crate) type StreamWaker = Waker<StreamScheduler>;
pub(crate) type ConfigWaker = Waker<ConfigScheduler>;

impl Wake for StreamWaker {
    fn wake(&self) {
        self.0.wake();
    }
}

impl Wake for ConfigWaker {
    fn wake(&self) {
        self.0.wake();
    }
}
