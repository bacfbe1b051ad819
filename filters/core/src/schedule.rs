//! Tasks by the time at which they are due, for hosts that call back into the core: [`Schedule`] on one thread, [`TaskQueue`] for
//! all threads of a process.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::fault;

/// Wakes a stream on its worker, or a configuration on the main thread, from any thread.
pub trait Wake {
    /// Has it look at what has changed. Does nothing once it is gone.
    fn wake(&self);
}

/// A task of a process whose threads share memory.
pub trait Task: Send + Sync + 'static {
    /// Runs it. Returns the uptime at which it runs again, if it does.
    fn run(&self, uptime: Duration) -> Option<Duration>;
}

/// Time after which a task that panicked runs again: what it left undone must not wait for the next change.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Tasks, each with the uptime at which it is due and a number of its own. Adding one and taking one out
/// cost the same among ten thousand as among ten.
#[derive(Debug)]
pub struct Schedule<T> {
    tasks: HashMap<usize, (Duration, T)>,
    /// The same, by time.
    due: BTreeSet<(Duration, usize)>,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Schedule { tasks: HashMap::new(), due: BTreeSet::new() }
    }
}

impl<T> Schedule<T> {
    /// Adds a task, or advances the one of that number if it is due later.
    pub fn add(&mut self, number: usize, task: T, at: Duration) {
        if let Some((known, _)) = self.tasks.get(&number) {
            if *known <= at {
                return;
            }
            self.due.remove(&(*known, number));
        }
        self.due.insert((at, number));
        self.tasks.insert(number, (at, task));
    }

    /// Removes the tasks that are due, the earliest first.
    pub fn take_due(&mut self, uptime: Duration) -> Vec<T> {
        let mut taken = Vec::new();
        while let Some(first) = self.due.first().filter(|(at, _)| *at <= uptime).copied() {
            self.due.remove(&first);
            taken.extend(self.tasks.remove(&first.1).map(|(_, task)| task));
        }
        taken
    }

    /// The uptime at which the first task is due.
    pub fn next(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }
}

/// Tasks that one thread of the host runs when they are due.
#[derive(Debug, Default)]
pub struct TaskQueue {
    tasks: Mutex<Schedule<Weak<dyn Task>>>,
    is_changed: Condvar,
}

impl TaskQueue {
    /// Runs a task once at that uptime, or earlier if it is to run earlier anyway. A task that is gone by then does not run.
    pub fn add<T: Task>(&self, task: &Arc<T>, at: Duration) {
        self.add_weak(Arc::downgrade(task) as Weak<dyn Task>, at);
    }

    fn add_weak(&self, task: Weak<dyn Task>, at: Duration) {
        self.lock().add(task.as_ptr().cast::<()>().addr(), task, at);
        self.is_changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Schedule<Weak<dyn Task>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until tasks are due, for the host to run each by [`TaskQueue::run`].
    pub fn wait(&self, uptime: impl Fn() -> Duration) -> Vec<Weak<dyn Task>> {
        let mut tasks = self.lock();
        loop {
            let now = uptime();
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

    /// Runs a task that is due, and again when it says so. A panic of the task is the host's to catch; the task runs again.
    pub fn run(&self, task: Weak<dyn Task>, uptime: Duration) {
        let Some(strong) = task.upgrade() else { return };
        let mut again = Again { queue: self, task, at: Some(uptime.saturating_add(RETRY_AFTER)) };
        fault::strike_once("timer");
        again.at = strong.run(uptime);
    }
}

/// Adds a task again when it is dropped, as a panic does, too.
struct Again<'a> {
    queue: &'a TaskQueue,
    task: Weak<dyn Task>,
    at: Option<Duration>,
}

impl Drop for Again<'_> {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            self.queue.add_weak(Weak::clone(&self.task), at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Counts how often it is woken.
    impl Wake for Arc<AtomicU32> {
        fn wake(&self) {
            self.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn task_is_due_once_at_its_earliest_time() {
        let at = Duration::from_secs;
        let mut schedule = Schedule::default();
        for (number, time) in [(1, 5), (2, 7), (1, 3), (1, 9)] {
            schedule.add(number, number, at(time));
        }
        assert_eq!((schedule.next(), schedule.take_due(at(2))), (Some(at(3)), vec![]));
        assert_eq!(schedule.take_due(at(3)), [1]);
        assert_eq!((schedule.next(), schedule.take_due(at(9)), schedule.next()), (Some(at(7)), vec![2], None));
    }

    /// Runs again a second later, and panics at the uptime of five seconds.
    #[derive(Default)]
    struct EverySecond(Mutex<Vec<Duration>>);

    impl Task for EverySecond {
        fn run(&self, uptime: Duration) -> Option<Duration> {
            self.0.lock().unwrap().push(uptime);
            assert!(uptime != Duration::from_secs(5), "a panic");
            (uptime < Duration::from_secs(7)).then(|| uptime.saturating_add(Duration::from_secs(1)))
        }
    }

    #[test]
    fn task_runs_again_when_it_says_so_or_after_a_panic() {
        let at = Duration::from_secs;
        let (queue, task, gone) =
            (TaskQueue::default(), Arc::new(EverySecond::default()), Arc::new(EverySecond::default()));
        queue.add(&gone, at(3));
        queue.add(&task, at(4));
        drop(gone);
        let mut panics = 0;
        let next = || queue.lock().next();
        while let Some(next) = next() {
            for due in queue.wait(|| next) {
                panics += usize::from(catch_unwind(AssertUnwindSafe(|| queue.run(due, next))).is_err());
            }
        }
        assert_eq!((panics, task.0.lock().unwrap().as_slice()), (1, [4, 5, 6, 7].map(at).as_slice()));
    }

    #[test]
    fn thread_that_waits_notices_a_task_that_is_added() {
        let (queue, task) = (TaskQueue::default(), Arc::new(EverySecond::default()));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait(|| Duration::ZERO).len());
            queue.add(&task, Duration::ZERO);
            assert_eq!(waiting.join().unwrap(), 1);
        });
    }
}
