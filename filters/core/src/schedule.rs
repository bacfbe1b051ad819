//! Tasks by the time at which they are due, for hosts that call back into the core.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
