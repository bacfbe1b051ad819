//! Tasks by the time at which they are due, for hosts that call back into the core.

use std::time::Duration;

/// Tasks, each with the uptime at which it is due.
#[derive(Debug)]
pub struct Schedule<T>(Vec<(Duration, T)>);

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Schedule(Vec::new())
    }
}

impl<T> Schedule<T> {
    /// Adds a task, or advances the same one if it is due later.
    pub fn add(&mut self, task: T, at: Duration, is_same: impl Fn(&T, &T) -> bool) {
        match self.0.iter_mut().find(|(_, known)| is_same(known, &task)) {
            Some((known, _)) => *known = at.min(*known),
            None => self.0.push((at, task)),
        }
    }

    /// Removes the tasks that are due.
    pub fn take_due(&mut self, uptime: Duration) -> impl Iterator<Item = T> + use<T> {
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.0).into_iter().partition(|(at, _)| *at <= uptime);
        self.0 = later;
        due.into_iter().map(|(_, task)| task)
    }

    /// The uptime at which the first task is due.
    pub fn next(&self) -> Option<Duration> {
        self.0.iter().map(|(at, _)| *at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_is_due_once_at_its_earliest_time() {
        let at = Duration::from_secs;
        let mut schedule = Schedule::default();
        for (task, time) in [("a", 5), ("b", 7), ("a", 3), ("a", 9)] {
            schedule.add(task, at(time), |one, other| one == other);
        }
        assert_eq!((schedule.next(), schedule.take_due(at(2)).next()), (Some(at(3)), None));
        assert_eq!(schedule.take_due(at(3)).collect::<Vec<_>>(), ["a"]);
        assert_eq!((schedule.next(), schedule.take_due(at(9)).count(), schedule.next()), (Some(at(7)), 1, None));
    }
}
